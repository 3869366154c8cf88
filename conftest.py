"""Doctests of the package and the README: the names a reader has already imported, and one seed."""

import pyro
import pytest
import torch


@pytest.fixture(autouse=True)
def _doctest_names(request):
    if "doctest_namespace" in request.fixturenames or request.node.__class__.__name__ == "DoctestItem":
        namespace = request.getfixturevalue("doctest_namespace")
        namespace.update(pyro=pyro, torch=torch, dist=pyro.distributions)
        pyro.set_rng_seed(0)
        pyro.clear_param_store()
