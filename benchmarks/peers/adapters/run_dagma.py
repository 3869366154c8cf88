"""Run DAGMA with its defaults: least squares for the linear one, ten hidden units for the nonlinear one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from dagma.linear import DagmaLinear
from dagma.nonlinear import DagmaMLP, DagmaNonlinear
from exchange import Fit, serve, with_defaults


def prepare(method: str, data: np.ndarray, seed: int, options: dict[str, Any]) -> Fit:
    """DAGMA's matrices have parents in rows, cut at its own threshold of 0.3."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    if method == "dagma":
        linear = DagmaLinear(loss_type="l2")
        # A fresh list: the default one is a mutable argument that a fit may change.
        settings = {"s": [1.0, 0.9, 0.8, 0.7, 0.6], **options}
        # fit() subtracts the means in place.
        return Fit(
            lambda: linear.fit(data.copy(), **settings), {"loss_type": "l2", **with_defaults(linear.fit, settings)}
        )
    # The network is double by default, and the defaults of fit() are those of the project's nonlinear example.
    dims = options.pop("dims", [data.shape[1], 10, 1])
    network = DagmaNonlinear(DagmaMLP(dims=dims, bias=True))
    return Fit(lambda: network.fit(data.copy(), **options), {"dims": dims, **with_defaults(network.fit, options)})


if __name__ == "__main__":
    serve(prepare, packages=["dagma", "torch", "numpy", "scipy"])
