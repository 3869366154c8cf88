# %% [markdown]
# # 3. Distributions and shapes, for Pyro users
#
# `PIVID` is a thin layer. Below it are Pyro distributions that you can use in a model and a guide of your own: orders,
# and edges given an order. This notebook shows their shapes, plates, particles and enumeration, and compares the ways
# to get gradients for an order. (New to the idea? [Tutorial 2](02_the_idea.ipynb) draws it step by step.)

# %%
import os

import matplotlib.pyplot as plt
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO
from torch.distributions import kl_divergence

from pyro_pivid import Posterior
from pyro_pivid.collapsed import DenseEvidence, ExactPosterior
from pyro_pivid.distributions import GammaRanking, MaskedEdges, PlackettLuce, RelaxedPlackettLuce, SpikeSlab
from pyro_pivid.inference import LeaveOneOutELBO
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.ops.permutation import all_orders, order_to_matrix, precedence_mask

FAST = "PIVID_TUTORIAL_FAST" in os.environ
plt.rcParams["figure.dpi"] = 80
torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(0)

# %% [markdown]
# ## 1. PlackettLuce: orders as indices
#
# The event is an order, a long tensor of shape `(D,)`; `order[0]` is the first cause. Everything on the left of the
# logits is batch. A larger logit means an earlier place.

# %%
law = PlackettLuce(torch.tensor([2.0, 0.0, 1.0, -1.0]))
print(law.batch_shape, law.event_shape, law.sample((5,)).shape)
print(PlackettLuce(torch.zeros(7, 4)).batch_shape)
print("mode", law.mode.tolist(), " entropy", round(law.entropy().item(), 3), "nats")

draws = law.sample((4000,))
figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.8), layout="constrained")
for ax, probs, title in (
    (axes[0], law.precedence_probs, "P(i before j), exact"),
    (axes[1], precedence_mask(draws).double().mean(0), "share among 4,000 draws"),
):
    image = ax.imshow(probs, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=title, xlabel="j", ylabel="i", xticks=range(4), yticks=range(4))
figure.colorbar(image, ax=axes)
assert (law.precedence_probs - precedence_mask(draws).double().mean(0)).abs().max() < 0.04  # five standard errors

# %% [markdown]
# Up to eight nodes it can be enumerated, so that everything about it can be checked by a sum.

# %%
orders = law.enumerate_support()
log_probs = law.log_prob(orders)
assert orders.shape == (24, 4)
assert torch.isclose(log_probs.exp().sum(), torch.tensor(1.0))
assert torch.isclose(law.entropy(), -(log_probs.exp() * log_probs).sum())

# %% [markdown]
# ### `before=`: only the orders that keep to it
#
# Say that node 3 has to come before node 0. Impossible orders are never drawn and have log-probability minus infinity;
# the rest is normalised. A node starts to wait for its place when all that has to come before it has been placed.

# %%
before = torch.zeros(4, 4, dtype=torch.bool)
before[3, 0] = True
tied = PlackettLuce(law.logits, before=before)
tied_probs = tied.log_prob(orders).exp()
figure, ax = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
ax.bar(torch.arange(24) - 0.2, log_probs.exp(), width=0.4, label="free")
ax.bar(torch.arange(24) + 0.2, tied_probs, width=0.4, label="3 before 0")
ax.set_xticks(range(24), ["".join(map(str, order)) for order in orders.tolist()], rotation=90)
ax.set_ylabel("probability")
ax.legend(frameon=False)
assert tied.enumerate_support().shape == (12, 4)
assert torch.isclose(tied_probs.sum(), torch.tensor(1.0))
assert precedence_mask(tied.sample((1000,)))[:, 3, 0].all()

# %% [markdown]
# ## 2. RelaxedPlackettLuce: the same law with a pathwise gradient
#
# The event is a permutation matrix, `matrix[k, order[k]] = 1`. A draw perturbs the logits and sorts them. With
# `hard=False` the value is a soft sort; a low temperature makes it hard. With `hard=True`, the default, the value is an
# exact permutation and only the backward pass is soft.

# %%
figure, axes = plt.subplots(1, 4, figsize=(8.5, 2.5), layout="constrained")
for ax, temperature in zip(axes, (2.0, 0.5, 0.1, None), strict=True):
    torch.manual_seed(3)  # the same noise in each panel
    relaxed = RelaxedPlackettLuce(temperature or 0.5, law.logits, hard=temperature is None)
    ax.imshow(relaxed.rsample().detach(), cmap="Blues", vmin=0, vmax=1)
    ax.set_title("hard" if temperature is None else f"temperature {temperature}", size=10)
    ax.set(xlabel="node", ylabel="place", xticks=range(4), yticks=range(4))

# %%
logits = law.logits.clone().requires_grad_()
relaxed = RelaxedPlackettLuce(0.5, logits)
matrix = relaxed.rsample((3,))
assert set(matrix.flatten().tolist()) == {0.0, 1.0}  # exact zeros and ones
precedence_mask(matrix)[:, 0, 1].sum().backward()
assert logits.grad.abs().sum() > 0  # and yet a gradient
assert torch.allclose(relaxed.log_prob(order_to_matrix(orders)), log_probs)  # the law is Plackett-Luce

# %% [markdown]
# The model's side of such a site is `PlackettLuce(logits).as_matrix()`: the same law on matrices, without the
# relaxation. `before=` works here too.
#
# ## 3. GammaRanking: how closely orders follow the scores
#
# Sort independent gamma variables, one for each node. With shape 1 they are exponential and the law is Plackett-Luce.
# A small shape forgets the rates, a large one follows them closely. The probability is an integral, computed on a grid.

# %%
rates = law.logits.exp()
shapes = torch.logspace(-2, 1.5, 15)
mode_probs = torch.stack([GammaRanking(shape, rates).log_prob(law.mode).exp() for shape in shapes])
figure, ax = plt.subplots(figsize=(5, 2.6), layout="constrained")
ax.semilogx(shapes, mode_probs, "o-", markersize=4)
ax.axhline(1 / 24, color="lightgrey")
ax.text(shapes[-1], 1 / 24, "1/24: all orders alike", ha="right", va="bottom", color="grey")
ax.plot([1.0], [law.log_prob(law.mode).exp()], "s", color="tab:orange", label="Plackett-Luce")
ax.set(xlabel="shape", ylabel="P(most probable order)")
ax.legend(frameon=False)
assert torch.allclose(GammaRanking(torch.tensor(1.0), rates).log_prob(orders), log_probs, atol=1e-6)
assert (mode_probs.diff() > 0).all()
ranking = GammaRanking(3.0, rates)
assert abs(ranking.log_prob(orders).exp().sum() - 1) < 1e-6

# %% [markdown]
# ## 4. MaskedEdges: any law of a link, cut by an order
#
# The base law has batch shape `(..., D, D)`, the order broadcasts with what is on the left, and the event is a matrix
# `(D, D)` with `edges[i, j]` the link i → j. Every draw is a weighted DAG.

# %%
bases = {
    "Normal": dist.Normal(torch.zeros(4, 4), 1.0),
    "Laplace": dist.Laplace(torch.zeros(4, 4), 1.0),
    "SpikeSlab": SpikeSlab(torch.zeros(4, 4), torch.zeros(4, 4), torch.ones(4, 4)),
    "Bernoulli": dist.Bernoulli(torch.full((4, 4), 0.5)),
}
figure, axes = plt.subplots(1, 4, figsize=(9, 2.5), layout="constrained")
for ax, (name, base) in zip(axes, bases.items(), strict=True):
    edges = MaskedEdges(base, law.mode)
    ax.imshow(edges.sample(), cmap="RdBu", vmin=-2.5, vmax=2.5)
    ax.set(title=name, xlabel="child", ylabel="parent", xticks=range(4), yticks=range(4))
    assert is_dag(edges.sample((200,))).all()

# %% [markdown]
# Orders in a batch, links shared by them, and a KL divergence in closed form, which `TraceMeanField_ELBO` finds by
# itself:

# %%
some_orders = law.sample((10, 1))
q = MaskedEdges(dist.Normal(torch.full((4, 4), 0.5), 0.3), some_orders)
p = MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), some_orders)
print(q.batch_shape, q.event_shape, kl_divergence(q, p).shape)
values = q.sample((4000,))
by_draws = (q.log_prob(values) - p.log_prob(values)).mean(0)
assert (by_draws - kl_divergence(q, p)).abs().max() < 0.2  # six standard errors

# %% [markdown]
# ## 5. Your own model and guide
#
# A linear model of four nodes, 0 → 1 → 2 → 3 and 0 → 2, noise known. Rows are a plate, so that the likelihood of a row
# is an event of shape `(D,)`. The line with `unsqueeze` keeps dimensions on the left free for particles.

# %%
D = 4
true_edges = torch.tensor([[0, 0.9, -0.7, 0], [0, 0, 1.0, 0], [0, 0, 0, 0.8], [0, 0, 0, 0.0]])
noise = torch.randn(40, D)
data = noise @ torch.linalg.inv(torch.eye(D) - true_edges)


def model(data, batch_size=None):
    order = pyro.sample("order", PlackettLuce(torch.zeros(D)))
    edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(D, D), 1.0), order))
    with pyro.plate("data", len(data), subsample_size=batch_size) as rows:
        mean = (data[rows].unsqueeze(-2) @ edges).squeeze(-2)
        pyro.sample("x", dist.Normal(mean, 1.0).to_event(1), obs=data[rows])


def guide(data, batch_size=None):
    order = pyro.sample("order", PlackettLuce(pyro.param("scores", torch.zeros(D))))
    loc = pyro.param("loc", torch.zeros(D, D))
    scale = pyro.param("scale", torch.full((D, D), 0.1), constraint=dist.constraints.positive)
    pyro.sample("edges", MaskedEdges(dist.Normal(loc, scale), order))


# %% [markdown]
# Shapes, without particles and with five of them (a plate on the left, as `vectorize_particles=True` adds it), and a
# minibatch of 10 rows, which counts four times:

# %%
trace = poutine.trace(model).get_trace(data)
trace.compute_log_prob()
print(trace.format_shapes())
with pyro.plate("particles", 5, dim=-2):
    trace = poutine.trace(model).get_trace(data, batch_size=10)
trace.compute_log_prob()
print(trace.format_shapes())
assert trace.nodes["edges"]["value"].shape == (5, 1, D, D)
assert trace.nodes["x"]["log_prob"].shape == (5, 10)
assert trace.nodes["x"]["scale"] == 4

# %% [markdown]
# ## 6. Enumeration
#
# With few nodes an order can be summed out instead of drawn. In the model: mark the site and `TraceEnum_ELBO` gives the
# exact log p(data), here with the edges integrated out by `DenseEvidence`.

# %%
evidence = DenseEvidence.from_data(data, noise=1.0)


def enumerated_model(data):
    order = pyro.sample("order", PlackettLuce(torch.zeros(D)), infer={"enumerate": "parallel"})
    pyro.factor("x", evidence.log_evidence(order))  # order has shape (24, D) here


exact = ExactPosterior(evidence)
log_evidence = -TraceEnum_ELBO(max_plate_nesting=0).loss(enumerated_model, lambda data: None, data)
print(f"log p(data) = {log_evidence:.4f}, by sums over sets of nodes {exact.log_evidence:.4f}")
assert abs(log_evidence - exact.log_evidence) < 1e-8

# %% [markdown]
# In the guide: `poutine.infer_config` or `infer={"enumerate": "parallel"}` makes the expectation over the order exact,
# with one draw of the edges for each of the 24 orders.


# %%
def enumerate_order(site):
    return {"enumerate": "parallel"} if site["name"] == "order" else {}


enumerating_guide = poutine.infer_config(guide, enumerate_order)
trace = poutine.trace(poutine.enum(enumerating_guide, first_available_dim=-2)).get_trace(data)
assert trace.nodes["order"]["value"].shape == (24, 1, D)
assert trace.nodes["edges"]["value"].shape == (24, 1, D, D)

# %% [markdown]
# ## 7. Four ways to fit
#
# The same model and guide, four estimators of the gradient for the order:
#
# - **score function**: `PlackettLuce` and Pyro's `Trace_ELBO`. Unbiased and very noisy.
# - **leave-one-out**: `PlackettLuce` and `LeaveOneOutELBO`, where each particle is the baseline of the others.
# - **pathwise**: `RelaxedPlackettLuce` in the guide, `.as_matrix()` in the model, `Trace_ELBO`. Little noise, but
#   biased.
# - **enumeration**: `TraceEnum_ELBO`, where D is small.


# %%
def matrix_model(data):
    order = pyro.sample("order", PlackettLuce(torch.zeros(D)).as_matrix())
    edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(D, D), 1.0), order))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal((data.unsqueeze(-2) @ edges).squeeze(-2), 1.0).to_event(1), obs=data)


def matrix_guide(data):
    order = pyro.sample("order", RelaxedPlackettLuce(0.2, pyro.param("scores", torch.zeros(D))))
    loc = pyro.param("loc", torch.zeros(D, D))
    scale = pyro.param("scale", torch.full((D, D), 0.1), constraint=dist.constraints.positive)
    pyro.sample("edges", MaskedEdges(dist.Normal(loc, scale), order))


particles = {"num_particles": 16, "max_plate_nesting": 1}
plain = Trace_ELBO(vectorize_particles=True, **particles)
ways = {
    "score function": (model, guide, plain),
    "leave-one-out": (model, guide, LeaveOneOutELBO(**particles)),
    "pathwise": (matrix_model, matrix_guide, plain),
    "enumeration": (model, enumerating_guide, TraceEnum_ELBO(max_plate_nesting=1)),
}
num_steps = 250 if FAST else 800
losses, fitted_scores, states = {}, {}, {}
for name, (its_model, its_guide, loss) in ways.items():
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    svi = SVI(its_model, its_guide, pyro.optim.Adam({"lr": 0.05}), loss)
    losses[name] = torch.tensor([svi.step(data) for _ in range(num_steps)])
    fitted_scores[name] = pyro.param("scores").detach().clone()
    states[name] = pyro.get_param_store().get_state()

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
for name, values in losses.items():
    ax.plot(torch.arange(10, num_steps - 9), -values.unfold(0, 20, 1).mean(-1), label=name, linewidth=1.2)
figure.legend(frameon=False, loc="outside right upper")
ax.axhline(log_evidence, color="black", linewidth=0.8)
ax.set(xlabel="step", ylabel="ELBO, mean of 20 steps", ylim=(log_evidence - 30, log_evidence + 4))
words = ax.text(num_steps, log_evidence, "log p(data), exact", ha="right", va="bottom")

# %%
for name, values in losses.items():
    true_first = PlackettLuce(fitted_scores[name]).log_prob(torch.arange(4)).exp()
    print(f"{name:15s} ELBO {-values[-100:].mean():8.2f}   P(order 0123) = {true_first:.2f}")
    assert -values[-100:].mean() < log_evidence + 0.5  # a bound, up to the noise of the estimate
exact_prob = exact.log_prob(torch.arange(4)).exp()
print(f"{'exact':15s} ELBO {log_evidence:8.2f}   P(order 0123) = {exact_prob:.2f}")
for name in ("leave-one-out", "enumeration"):
    assert -losses[name][-100:].mean() > log_evidence - 4
    assert PlackettLuce(fitted_scores[name]).log_prob(torch.arange(4)).exp() > 0.8
for name in ("score function", "pathwise"):  # not there yet, or stuck
    assert losses[name][-100:].mean() > losses["leave-one-out"][-100:].mean() + 2

# %% [markdown]
# ## 8. The estimators themselves
#
# Bias and noise of each, measured. The edges are held fixed so that the gradient for the four scores is known exactly,
# by a sum over the 24 orders. Each estimate uses 16 particles.

# %%
start = torch.tensor([0.5, 0.2, 0.0, -0.3])
few_rows = data[:8]


def log_likelihood(order):
    edges = precedence_mask(order).to(few_rows) * true_edges
    return dist.Normal(few_rows @ edges, 1.0).log_prob(few_rows).sum((-1, -2))


scores = start.clone().requires_grad_()
log_q = PlackettLuce(scores).log_prob(all_orders(D))
objective = (log_q.exp() * (log_likelihood(all_orders(D)) - log_q)).sum()
[exact_gradient] = torch.autograd.grad(objective, scores)


def order_model(as_matrix):
    law = PlackettLuce(torch.zeros(D))
    pyro.factor("x", log_likelihood(pyro.sample("order", law.as_matrix() if as_matrix else law)))


def order_guide(as_matrix, temperature=0.5):
    scores = pyro.param("scores", start.clone())
    pyro.sample("order", RelaxedPlackettLuce(temperature, scores) if as_matrix else PlackettLuce(scores))


def estimates(loss, as_matrix, num_repeats, **options):
    found = []
    for _ in range(num_repeats):
        pyro.clear_param_store()
        loss.loss_and_grads(lambda: order_model(as_matrix), lambda: order_guide(as_matrix, **options))
        found.append(-pyro.param("scores").unconstrained().grad.clone())
    return torch.stack(found)


pyro.set_rng_seed(2)
num_repeats = 100 if FAST else 600
plain = Trace_ELBO(num_particles=16, vectorize_particles=True, max_plate_nesting=0)
leave_one_out = LeaveOneOutELBO(16, scale_advantages=False, max_plate_nesting=0)
found = {
    "score function": estimates(plain, False, num_repeats),
    "leave-one-out": estimates(leave_one_out, False, num_repeats),
    "pathwise, 0.5": estimates(plain, True, num_repeats, temperature=0.5),
    "pathwise, 0.1": estimates(plain, True, num_repeats, temperature=0.1),
}
figure, axes = plt.subplots(1, 4, figsize=(9.5, 2.8), sharey=True, layout="constrained")
for node, ax in enumerate(axes):
    ax.boxplot(
        [values[:, node] for values in found.values()], showfliers=False, widths=0.6, medianprops={"color": "black"}
    )
    ax.axhline(exact_gradient[node], color="tab:orange")
    ax.set_xticks(range(1, 5), list(found), rotation=90)
    ax.set_title(f"score of node {node}", size=10)
axes[0].set(ylabel="estimated gradient\n(line: exact)", ylim=(-7, 7))  # the first box goes far beyond
assert exact_gradient.abs().max() < 7

# %%
relative = {}
for name, values in found.items():
    bias = (values.mean(0) - exact_gradient).norm() / exact_gradient.norm()
    spread = values.std(0).norm() / exact_gradient.norm()
    relative[name] = bias.item(), spread.item()
    print(f"{name:15s} bias {bias:.2f}   standard deviation {spread:.2f}   (of the gradient's size)")
for name in ("score function", "leave-one-out"):  # unbiased: within five standard errors
    error = (found[name].mean(0) - exact_gradient).abs()
    assert (error < 5 * found[name].std(0) / num_repeats**0.5).all()
assert relative["leave-one-out"][1] < 0.5 * relative["score function"][1]
assert relative["pathwise, 0.5"][0] > 5 * relative["pathwise, 0.5"][1] / num_repeats**0.5  # biased, beyond noise
assert relative["pathwise, 0.5"][1] < relative["pathwise, 0.1"][1]

# %% [markdown]
# (The bias that is printed for the score function is what its noise leaves after so many repeats.)
#
# So leave-one-out is the one to start with; it is what `PIVID` does by default. The pathwise estimate is precise about
# a wrong value here: the likelihood is quadratic in the links, and the slope at an open or a shut link is not the
# difference between the two. That is why it stalled above, where the signal is weak. With strong signals, such as the
# paper's (weight 1, noise 0.1, 1,000 rows), it does find the order: see [tutorial 5](05_paper_in_small.ipynb).
#
# ## 9. From your guide to a posterior
#
# Any guide with sites named `"order"` and `"edges"` becomes a `Posterior`, with tables by name, effects and pictures.

# %%
pyro.get_param_store().set_state(states["leave-one-out"])
posterior = Posterior.from_guide(model, guide, data, names=["w", "x", "y", "z"], link_threshold=0.3)
effect = posterior.effect("w", "z")
true_effect = torch.linalg.inv(torch.eye(D) - true_edges)[0, 3].item()
print(f"{effect}; in truth {true_effect:.2f}")
assert effect.interval(0.95)[0] < true_effect < effect.interval(0.95)[1]
assert ((posterior.edge_probs() > 0.5).to_numpy() == (true_edges != 0).numpy()).all()
posterior.plot("uncertainty", truth=true_edges)
