"""Equations of draws given data with interventions: intercepts and noise of each node's own rows."""

import math

import numpy as np
import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ParentSetEvidence
from pyro_pivid.collapsed.sources import edges_and_equations
from pyro_pivid.posterior.splines import SplineBasis


def data_and_mask(num_rows=4000):
    """x₁ = 2 + 1.5 x₀ + 0.5 z where it is free; both are set to far-away values elsewhere."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.zeros(num_rows, 2, dtype=torch.bool)
    mask[: num_rows // 4, 0] = True
    mask[num_rows // 4 : num_rows // 2, 1] = True
    noise = torch.randn(num_rows, 2, generator=generator)
    cause = torch.where(mask[:, 0], 4 + 0.3 * noise[:, 0], 1 + noise[:, 0])
    effect = torch.where(mask[:, 1], -6 + noise[:, 1], 2 + 1.5 * cause + 0.5 * noise[:, 1])
    return torch.stack([cause, effect], -1), mask


@pytest.mark.parametrize("kind", ["linear", "spline", "equal", "dense", "dense equal"])
def test_intercepts_and_noise_are_those_of_the_rows_that_count(kind):
    """Means of 400 draws against least squares on the rows that count, within the width of the posterior."""
    values, mask = data_and_mask()
    basis = None
    if kind.startswith("dense"):
        noise = "equal" if kind == "dense equal" else "per-node"
        evidence = DenseEvidence.from_data(values, noise=noise, intercept=True, interventions=mask)
    else:
        features, noise = ("spline" if kind == "spline" else "linear"), ("equal" if kind == "equal" else "per-node")
        evidence = ParentSetEvidence.from_data(values, features=features, noise=noise, interventions=mask)
        basis = SplineBasis.of(values, 10) if kind == "spline" else None
    torch.manual_seed(0)
    _, equations = edges_and_equations(evidence, [torch.tensor([[0, 1]]).expand(400, 2)], 0.0, basis)
    x = values.numpy()
    free = ~mask.numpy()
    design = np.column_stack([np.ones(free[:, 1].sum()), x[free[:, 1], 0]])
    fitted, *_ = np.linalg.lstsq(design, x[free[:, 1], 1], rcond=None)
    residual = x[free[:, 1], 1] - design @ fitted
    scales = equations.noise_scales.mean(0)
    if "equal" not in kind:
        assert float(scales[1]) == pytest.approx(residual.std(), rel=0.02)
        assert float(scales[0]) == pytest.approx(x[free[:, 0], 0].std(), rel=0.02)
    else:
        ss = (residual**2).sum() + ((x[free[:, 0], 0] - x[free[:, 0], 0].mean()) ** 2).sum()
        assert float(scales[0]) == pytest.approx(math.sqrt(ss / free.sum()), rel=0.02)
    # Equations are about columns centred over all rows.
    means = x.mean(0)
    at = torch.tensor([[1.0, 0.0], [4.0, 0.0]])
    centred = at - torch.tensor(means)
    if basis is None:
        predicted = (centred @ equations.weights + equations.intercepts.unsqueeze(-2)).mean(0) + torch.tensor(means)
    else:
        predicted = equations.mean(centred).mean(0) + torch.tensor(means)
    expected = fitted[0] + fitted[1] * np.array([1.0, 4.0])
    np.testing.assert_allclose(predicted[:, 1], expected, atol=0.03 if basis is None else 0.15)
    np.testing.assert_allclose(predicted[:, 0], x[free[:, 0], 0].mean(), atol=0.03)
