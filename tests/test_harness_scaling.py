"""Exponents, shares and marks of time-outs are those of rows that follow known laws."""

import json
import math

import pytest

from benchmarks.harness.report import scaling, steps, write_report
from benchmarks.harness.report.scaling import LEAST_GROWTH, MIB, Law, above_imports, exponents, fits, power_law, upper
from benchmarks.harness.report.steps import measured, steps_table
from benchmarks.harness.store import Store
from benchmarks.harness.task import Task

IMPORTS = 400 * MIB
NODES = (16, 32, 64, 128, 256, 500)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "rows.csv")


def add_fit(store, method, num_nodes, num_rows=1000, *, cpu=1.0, growth=0.0, seed=0, error="", **more):
    # A run that was killed tells neither sizes nor a distance.
    told = {} if error else {"num_nodes": num_nodes, "num_rows": num_rows, "expected_shd": 0.0}
    costs = {"wall_seconds": 2 * cpu, "cpu_seconds": cpu, "peak_memory": IMPORTS + growth}
    task = Task("scaling", f"D = {num_nodes}, N = {num_rows}", method, seed, "smoke")
    store.append(task.row(error=error, **told, **(costs | more)))


def add_measured(store, case, method, figures, *, growth=0.0, seed=0, error=""):
    task = Task("scaling", case, method, seed, "smoke")
    text = json.dumps(figures) if figures else ""
    store.append(task.row(error=error, figures=text, peak_memory=IMPORTS + growth, cpu_seconds=1.0))


def late(seconds):
    return {"error": f"time-out: not finished after {seconds} s", "wall_seconds": seconds}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (NODES, [64, 128, 256, 500]),
        ((256, 16, 32, 128, 64), [64, 128, 256]),
        ((1, 2, 3, 4), [2, 3, 4]),
        ((1, 2, 3), [1, 2, 3]),
        ((1, 2), [1, 2]),
        ((), []),
    ],
)
def test_upper_sizes(sizes, expected):
    assert upper(list(sizes)) == expected


def test_power_law_is_that_of_the_upper_sizes(store):
    for num_nodes in NODES:  # constant below, of the second power from 64 on
        for seed, factor in ((0, 1.0), (1, 1.5)):
            add_fit(store, "relaxed", num_nodes, cpu=factor * max(num_nodes, 64) ** 2, seed=seed)
    law = power_law(fits(store.read(), "num_nodes"), "num_nodes", "cpu_seconds")
    assert law.power == pytest.approx(2.0)
    assert law.text() == "2.0 (64–500)"
    assert law.unanswered == {}


def test_power_law_tells_of_sizes_without_an_answer(store):
    for num_nodes in NODES[:-1]:
        add_fit(store, "relaxed", num_nodes, cpu=3e-3 * num_nodes**1.9)
    add_fit(store, "relaxed", 500, cpu=5.0, **late(600.0))  # its CPU seconds would bend the line
    law = power_law(fits(store.read(), "num_nodes"), "num_nodes", "cpu_seconds")
    assert law.power == pytest.approx(1.9)
    assert law.text() == "1.9 (64–256; time-out at 500)"


def test_a_size_that_some_seeds_answered_is_not_fitted(store):
    for num_nodes in (16, 32, 64):
        for seed in (0, 1):
            add_fit(store, "relaxed", num_nodes, cpu=num_nodes**2, seed=seed)
    add_fit(store, "relaxed", 128, cpu=1.0, seed=0)  # the quick one
    add_fit(store, "relaxed", 128, cpu=1.0, seed=1, **late(9.0))
    law = power_law(fits(store.read(), "num_nodes"), "num_nodes", "cpu_seconds")
    assert law.text() == "2.0 (16–64; time-out of some seeds at 128)"


def test_text_of_laws():
    assert Law(math.nan).text() == "–"
    assert Law(-0.01, (1000, 1_000_000)).text() == "0.0 (1,000–1,000,000, two sizes)"
    assert Law(math.nan, (), {"time-out": [16, 32], "skipped": [64]}).text() == "– (time-out at 16, 32; skipped at 64)"


def test_exponents_of_nodes_and_of_rows_with_memory_above_imports(store):
    for num_nodes, num_rows in ((16, 1000), (32, 1000), (64, 1000), (16, 10_000), (16, 100_000)):
        size = {"num_nodes": num_nodes, "num_rows": num_rows}
        growth = 20 * MIB * (num_nodes / 16) ** 2 * (num_rows / 1000) ** 0.5
        add_fit(store, "relaxed", **size, cpu=num_nodes**1.5 * num_rows, growth=growth)
        # A peer that imports less, so that only its own smallest peak shows what it takes.
        add_fit(store, "notears", **size, cpu=1.0, growth=-100 * MIB + (64 * MIB if num_nodes == 64 else 0))
        add_fit(store, "equal-variance", **size, cpu=1.0, growth=0.5 * LEAST_GROWTH if num_nodes > 16 else 0.0)
    table = exponents(store.read())
    assert table.header[1:3] == ["CPU seconds ~ D^", "memory above imports ~ D^"]
    assert dict((row[0], row[1:]) for row in table.rows) == {
        "relaxed": ["1.5 (16–64)", "2.0 (16–64)", "1.0 (1,000–100,000)", "0.5 (1,000–100,000)"],
        "equal-variance": ["0.0 (16–64)", "–", "0.0 (1,000–100,000)", "–"],
        "notears": ["0.0 (16–64)", "–", "0.0 (1,000–100,000)", "–"],  # one size above its own smallest peak
    }


def test_imports_are_those_of_a_trivial_method_and_of_a_peer_its_own(store):
    add_fit(store, "sort-by-variance", 16, growth=3.0)
    add_fit(store, "equal-variance", 16, growth=0.0)
    add_fit(store, "equal-variance", 32, growth=-9.0, error="MemoryError: none")  # died before it had imported all
    add_fit(store, "relaxed", 16, growth=50.0)
    add_fit(store, "notears", 16, growth=-70.0)
    add_fit(store, "notears", 32, growth=10.0)
    rows = store.read()
    assert scaling.imports(rows) == IMPORTS
    growth = dict(zip(zip(rows["method"], rows["case"], strict=True), above_imports(rows), strict=True))
    assert growth["relaxed", "D = 16, N = 1000"] == 50.0
    assert growth["sort-by-variance", "D = 16, N = 1000"] == 3.0
    assert growth["notears", "D = 32, N = 1000"] == 80.0


def test_without_a_trivial_method_there_is_no_memory_to_tell(store):
    for num_nodes in (16, 32, 64):
        add_fit(store, "relaxed", num_nodes, cpu=num_nodes, growth=num_nodes * MIB)
    assert exponents(store.read()).rows == [["relaxed", "1.0 (16–64)", "–", "–", "–"]]
    assert "not run here" in scaling.reading(store.read())


def test_reading_tells_seeds_and_imports(store):
    add_fit(store, "equal-variance", 16)
    assert "on one seed" in scaling.reading(store.read())
    add_fit(store, "equal-variance", 16, seed=1)
    text = scaling.reading(store.read())
    assert "on 2 seeds" in text
    assert "(400 MiB)" in text


def test_steps_beside_a_matrix_product(store):
    add_fit(store, "equal-variance", 16)
    for num_nodes in (16, 64, 256):
        operations = 100.0 * num_nodes**3
        figures = {"step_seconds": operations / 2e9, "step_operations": operations, "matmul_flops": 8e9}
        add_measured(store, f"step, D = {num_nodes}", "relaxed", figures, growth=num_nodes * MIB)
    add_measured(store, "step, D = 1000", "relaxed", {}, error="time-out: not finished after 600 s")
    for seed, seconds in enumerate((1.0, 3.0)):
        figures = {"sum_seconds": seconds, "sum_flops": 6e9 / seconds, "matmul_flops": 12e9}
        add_measured(store, "sums, N = 1000", "collapsed-sparse", figures, growth=8 * MIB, seed=seed)
    rows = store.read()
    assert list(measured(rows)["roofline"].dropna()) == pytest.approx(
        [100.0 * num_nodes**3 / 8e9 for num_nodes in (16, 64, 256)] + [0.5, 0.5]
    )
    table = steps_table(rows)
    assert table.header == [
        "size",
        "runs",
        "seconds",
        "10⁶ operations",
        "10⁹ operations a second",
        "matrix product: 10⁹ a second",
        "share of it, %",
        "MiB above imports",
    ]
    assert table.rows == [
        ["relaxed, one step: seconds ~ D^3.0 (16–256; time-out at 1,000)"],
        ["D = 16", "1/1", "0.000205", "0.41", "2", "8", "25", "16"],
        ["D = 64", "1/1", "0.0131", "26.2", "2", "8", "25", "64"],
        ["D = 256", "1/1", "0.839", "1680", "2", "8", "25", "256"],
        ["D = 1,000", "0/1", "–", "–", "–", "–", "–", "–"],
        ["collapsed-sparse, one pass over the rows"],
        ["N = 1,000", "2/2", "2", "6000", "4", "12", "33.3", "8"],
    ]


@pytest.fixture
def drawn(monkeypatch):
    """Figures that would have been written."""
    found = []
    for module in (scaling, steps):
        monkeypatch.setattr(module, "save", lambda figure, path: found.append(figure) or path)
    return found


def test_nothing_to_draw_where_all_runs_failed(store, tmp_path):
    add_fit(store, "relaxed", 16, error="MemoryError: none")
    add_measured(store, "step, D = 16", "relaxed", {}, error="MemoryError: none")
    assert scaling.against_size(store.read(), tmp_path) is None
    assert steps.steps_figure(store.read(), tmp_path) is None
    assert steps_table(store.read()).rows[0] == ["relaxed, one step (error at 16)"]


def test_time_outs_are_drawn_hollow_after_their_seconds(store, drawn, tmp_path):
    for num_nodes in (16, 32, 64):
        add_fit(store, "relaxed", num_nodes, cpu=num_nodes)
    add_fit(store, "relaxed", 128, cpu=99.0, **late(600.0))
    scaling.against_size(store.read(), tmp_path)
    time, _, memory, _ = drawn[0].axes
    mark, *stars = [line for line in time.lines if line.get_markerfacecolor() == "white"]
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([128], [99.0])  # of CPU time, as the others
    arrow, *names = time.texts
    assert (arrow.xy, arrow.xyann[1] > 0) == ((128, 99.0), True)
    assert [(star.get_marker(), *star.get_xydata()[0]) for star in stars] == [("*", 500, 146.5), ("*", 500, 1.25)]
    assert [name.get_text() for name in names] == ["NOTEARS", "PIVID"]  # published
    assert list(time.lines[0].get_xdata()) == [16, 32, 64]
    assert [text.get_text() for text in time.get_xticklabels()] == ["16", "32", "64", "128"]
    assert not memory.texts


def test_figure_of_steps_has_the_roofline_dashed(store, drawn, tmp_path):
    assert steps.steps_figure(store.read(), tmp_path) is None
    for num_nodes in (16, 64):
        figures = {"step_seconds": 3.0 * num_nodes, "step_operations": 1e9 * num_nodes, "matmul_flops": 2e9}
        add_measured(store, f"step, D = {num_nodes}", "relaxed", figures)
    steps.steps_figure(store.read(), tmp_path)
    found, roofline = drawn[0].axes[0].lines
    assert (found.get_linestyle(), list(found.get_ydata())) == ("-", [48.0, 192.0])
    assert (roofline.get_linestyle(), list(roofline.get_ydata())) == ("--", [8.0, 32.0])
    assert found.get_color() == roofline.get_color()


def test_section_of_the_report(store, tmp_path):
    for num_nodes in (4, 8):
        add_fit(store, "equal-variance", num_nodes, 100, cpu=num_nodes)
    figures = {"step_seconds": 1.0, "step_operations": 1e9, "matmul_flops": 2e9}
    add_measured(store, "step, D = 4", "relaxed", figures)
    written = write_report(store, tmp_path / "report", size="smoke")
    assert {path.name for path in written} >= {"scaling.png", "scaling-steps.png"}
    text = written[0].read_text()
    assert "| equal-variance | 1.0 (4–8, two sizes) | – | – | – |" in text
    assert "| D = 4 | 1/1 | 1 | 1000 | 1 | 2 | 50 | 0 |" in text
    assert "step seconds" not in text  # the table of any figures would say the same again
