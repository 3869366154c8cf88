"""The two measures of these benchmarks: the best of a few timed calls, and operations counted by torch's profiler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def best_seconds(call: Callable[[], object], *, num_repeats: int = 5) -> float:
    """CPU seconds of the fastest call: other work on the machine disturbs neither much."""
    call()
    seconds = []
    for _ in range(num_repeats):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def count_operations(call: Callable[[], object]) -> float:
    """Multiply-adds of the products, plus one for each element that any other operator reads."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as recorded:
        call()
    total = 0.0
    for event in recorded.events():
        if not event.name.startswith("aten::"):
            continue
        sizes = [math.prod(shape) for shape in event.input_shapes if shape]
        total += event.flops or max(sizes, default=0)
    return total


def exponent(small: float, large: float, growth: float) -> float:
    """The power of the size with which a cost grew."""
    return math.log(large / small) / math.log(growth)


def with_one_thread(call: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Run on one thread, so that ratios do not hang on how many cores happen to be free."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return call()
    finally:
        torch.set_num_threads(before)
