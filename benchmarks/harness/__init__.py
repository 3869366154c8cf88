"""The benchmark harness: suites of data sets with a known graph, methods, one stored row for each run, and a report.

``python -m benchmarks run linear --methods own trivial --seeds 0-4`` adds rows to a CSV store, ``python -m benchmarks
report`` makes tables and figures of them. A suite is a list of cases (``suites.py``), a case a function of a seed that
returns data and truth, a method a function of the data and a seed that returns graphs. Methods have one configuration
each; what differs between suites is only what a suite states as known, such as the scale of the noise.
"""
