"""What every test starts from: one seed, double precision, an empty parameter store, validation on."""

import pyro
import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh_state():
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    with pyro.validation_enabled(True):
        yield
    torch.set_default_dtype(previous)
