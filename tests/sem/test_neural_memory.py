"""The neural likelihood at 100 nodes, 1000 rows and 16 graphs stays within 2 GiB, gradients included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys, torch
from pyro_pivid.sem import NeuralSEM
torch.set_default_dtype(getattr(torch, sys.argv[1]))
rows = torch.randn(1000, 100)
edges = torch.randn(4, 4, 100, 100).triu(1).requires_grad_()
sem = NeuralSEM()
parameters = sem.parameters(rows)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log_prob = sem.log_prob(rows, edges, parameters)
log_prob.sum().backward()
assert log_prob.shape == (4, 4, 1000) and log_prob.isfinite().all() and (edges.grad.triu(1) != 0).any()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(before, after)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kibibytes on Linux alone")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peak_memory(dtype):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, dtype], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    before, after = (int(word) / 2**20 for word in result.stdout.split())  # GiB
    assert after < 2
    # The hidden units of all graphs alone would take 0.06 (float32) or 0.12 GiB, and autograd keeps several copies.
    assert after - before < 0.25
