"""A small example to look at: learn the order and the links of four simulated nodes (``python -m pyro_pivid.demo``)."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, TraceEnum_ELBO
from torch import Tensor

from pyro_pivid.distributions import MaskedEdges, PlackettLuce

NAMES = ("season", "rain", "wet", "slippery")
TRUTH = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.5, 0.0], [0.0, 0.0, 0.0, 1.2], [0.0, 0.0, 0.0, 0.0]])


def simulate(num_rows: int = 500) -> Tensor:
    """Rows of a linear model with the links of ``TRUTH`` and unit noise, columns in a causal order."""
    rows = torch.zeros(num_rows, 4)
    for node in range(4):
        rows[:, node] = rows @ TRUTH[:, node] + torch.randn(num_rows)
    return rows


def model(data: Tensor) -> None:
    """p(order) p(edges | order) p(data | edges)."""
    order = pyro.sample("order", PlackettLuce(torch.zeros(4)))
    edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), order))
    with pyro.plate("data", len(data)):
        mean = (data.unsqueeze(-2) @ edges).squeeze(-2)
        pyro.sample("x", dist.Normal(mean, 1.0).to_event(1), obs=data)


def guide(data: Tensor) -> None:
    """q(order) q(edges | order): Plackett-Luce times masked normal links."""
    scores = pyro.param("scores", torch.zeros(4))
    loc = pyro.param("loc", torch.zeros(4, 4))
    scale = pyro.param("scale", torch.full((4, 4), 0.1), constraint=dist.constraints.positive)
    order = pyro.sample("order", PlackettLuce(scores), infer={"enumerate": "parallel"})
    pyro.sample("edges", MaskedEdges(dist.Normal(loc, scale), order))


def main() -> None:
    """Fit by SVI, then print the links beside the truth."""
    pyro.set_rng_seed(0)
    data = simulate()
    with pyro.get_param_store().scope():
        elbo = TraceEnum_ELBO(max_plate_nesting=1)  # sums over all 24 orders in every step
        svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.02}), elbo)
        for step in range(600):
            loss = svi.step(data)
            if step % 100 == 0:
                print(f"step {step:4d}   -ELBO {loss:8.1f}")
        scores = pyro.param("scores").detach()
        order = PlackettLuce(scores).sample((2000,))
        links = MaskedEdges(dist.Normal(pyro.param("loc").detach(), pyro.param("scale").detach()), order).sample()
    print("\nmost probable order:", " → ".join(NAMES[node] for node in PlackettLuce(scores).mode))
    print(f"\n{'link':28s} {'P(present)':>10s} {'weight':>8s} {'truth':>6s}")
    present = links.abs() > 0.5
    probs = present.float().mean(0)
    for index in probs.flatten().argsort(descending=True)[: int((probs > 0).sum())].tolist():
        i, j = divmod(index, 4)
        weight = links[present[:, i, j], i, j].mean().item()
        print(f"{NAMES[i] + ' → ' + NAMES[j]:28s} {probs[i, j].item():10.2f} {weight:8.2f} {TRUTH[i, j].item():6.1f}")


if __name__ == "__main__":
    main()
