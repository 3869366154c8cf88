# %% [markdown]
# # 4. Your own priors and your own SEM
#
# Three things can be yours: what a link is likely to be (the edge prior), what the order is likely to be (the order
# prior), and how causes make effects (the structural equation model, SEM). Each is an ordinary Pyro distribution or
# function. Nothing else changes: `PIVID(...).fit(table)` still returns a posterior.

# %%
import os

import matplotlib.pyplot as plt
import pandas as pd
import pyro
import pyro.distributions as dist
import torch

from pyro_pivid import PIVID
from pyro_pivid.collapsed import DenseEvidence, ExactPosterior
from pyro_pivid.datasets import simulate
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.ops.permutation import order_to_rank
from pyro_pivid.sem import SEM

FAST = "PIVID_TUTORIAL_FAST" in os.environ
plt.rcParams["figure.dpi"] = 80
pyro.set_rng_seed(0)
num_steps = 120 if FAST else 500
options = {"num_steps": num_steps, "learning_rate": 0.05, "progress_bar": False}

# %% [markdown]
# ## 1. Links: Normal, Laplace, horseshoe
#
# Most pairs of variables are not linked, and some links are strong. A Normal prior knows nothing of this. A Laplace
# prior does a little. The horseshoe has a scale for each link, most of them tiny and some huge, and the scales are
# latent variables: a Pyro function samples them and returns the law of the links. (Write `scale[..., None, None]` where
# a single number meets the matrix of links, so that particles fit in on the left.)


# %%
def horseshoe(num_nodes):
    overall = pyro.sample("overall", dist.HalfCauchy(torch.tensor(0.1)))
    local = pyro.sample("local", dist.HalfCauchy(torch.ones(num_nodes, num_nodes)).to_event(2))
    return dist.Normal(torch.zeros(num_nodes, num_nodes), overall[..., None, None] * local)


priors = {"Normal": "normal", "Laplace": dist.Laplace(0.0, 0.5), "horseshoe": horseshoe}
draws = {
    "Normal": dist.Normal(0.0, 1.0).sample((20_000,)),
    "Laplace": priors["Laplace"].sample((20_000,)),
    "horseshoe": torch.cat([horseshoe(20).sample().flatten() for _ in range(50)]),
}
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for name, values in draws.items():
    ax.hist(values.clamp(-4, 4), bins=81, range=(-4, 4), density=True, histtype="step", label=name)
ax.set(xlabel="weight of a link (what is beyond 4 stands at the ends)", ylabel="prior density", yscale="log")
ax.legend(frameon=False)
near_zero = {name: (values.abs() < 0.1).double().mean().item() for name, values in draws.items()}
assert near_zero["Normal"] < near_zero["Laplace"] < near_zero["horseshoe"]

# %% [markdown]
# A hundred rows of six variables, with six links or so. Noise scale 1 is known, so that only the prior differs. Priors
# of your own are fitted by relaxed inference; an autoguide takes care of the latent scales.

# %%
simulation = simulate(num_nodes=6, num_edges=6, weights="uniform", num_rows=100, seed=3)
data, truth = simulation
is_link = truth != 0
fits = {
    name: PIVID(edge_prior=prior, noise=1.0, inference="relaxed", link_threshold=0.1).fit(data, **options)
    for name, prior in priors.items()
}
weights = {name: fitted.sample(1000, seed=0).edges.mean(0) for name, fitted in fits.items()}

figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
off_diagonal = ~torch.eye(6, dtype=torch.bool)
for ax, (name, values) in zip(axes, weights.items(), strict=True):
    ax.plot([-2, 2], [-2, 2], color="lightgrey")
    ax.plot(truth[off_diagonal & ~is_link], values[off_diagonal & ~is_link], "o", color="tab:orange", markersize=4)
    ax.plot(truth[is_link], values[is_link], "o", color="tab:blue", markersize=6)
    ax.set(title=name, xlabel="true weight")
axes[0].set_ylabel("posterior mean of the weight")
spurious = {name: values[off_diagonal & ~is_link].abs().max().item() for name, values in weights.items()}
print("largest weight where there is no link:", {name: round(value, 3) for name, value in spurious.items()})

# %% [markdown]
# All three find the true links (blue). Where there is none (orange) the horseshoe shrinks most, and it does not pay for
# that with the true ones. Its scales say what it learned: wide where there is a link. (They are not as narrow where
# the order leaves no room for a link: the data do not speak of those.)

# %%
assert all((fitted.edge_probs().to_numpy()[is_link] > 0.99).all() for fitted in fits.values())
assert spurious["horseshoe"] < 0.5 * spurious["Normal"]
errors = {name: (values - truth)[is_link].abs().mean().item() for name, values in weights.items()}
assert errors["horseshoe"] < 1.2 * errors["Normal"]

log_local = fits["horseshoe"].info["params"]["AutoNormal.locs.local"].clone()  # medians, on the log scale
assert log_local[is_link].min() > log_local[off_diagonal & ~is_link].mean() + 1
figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.8), layout="constrained")
axes[0].imshow(is_link, cmap="Greys")
axes[0].set(title="true links", xlabel="child", ylabel="parent")
image = axes[1].imshow(log_local.fill_diagonal_(torch.nan), cmap="Blues")
axes[1].set(title="log of the horseshoe's local scale", xlabel="child")
bar = figure.colorbar(image)

# %% [markdown]
# ## 2. Orders: what an expert knows
#
# Two variables that are linked, linear, Gaussian, each with its own noise: no data can tell which is the cause. So the
# posterior is what the prior says. `order_prior` takes scores of the columns, a larger one is earlier, and for two
# columns the answer is known: P(a before b) is the logistic function of the difference.

# %%
a = torch.randn(200, dtype=torch.float64)
pair = pd.DataFrame({"a": a.numpy(), "b": (a + torch.randn(200)).numpy()})
differences = torch.tensor([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
found = torch.tensor(
    [
        PIVID(order_prior=[difference, 0.0]).fit(pair, progress_bar=False).edge_probs().loc["a", "b"]
        for difference in differences.tolist()
    ]
)
grid = torch.linspace(-5, 5, 100)
figure, ax = plt.subplots(figsize=(4.5, 2.6), layout="constrained")
ax.plot(grid, grid.sigmoid(), color="lightgrey")
ax.plot(differences, found, "o")
ax.set(xlabel="score of a, less that of b", ylabel="P(a → b | data)")
assert (found - differences.sigmoid()).abs().max() < 0.01

# %% [markdown]
# An order prior may be a Pyro function, too. Here an expert ranks the six variables of before, and we do not know how
# far to trust her: `trust` is a latent variable that stretches her scores. One expert has it right, the other has it
# backwards. With six variables the posterior of `trust` can be computed exactly as well (drawn lines): the evidence of
# the data for each value, times the prior.

# %%
expert = -order_to_rank(simulation.order).double()  # the first cause has the largest score
values = torch.tensor(data.to_numpy())
evidence = DenseEvidence.from_data(values - values.mean(0), noise=1.0)
trust_prior = dist.HalfNormal(torch.tensor(1.0))
grid = torch.linspace(0.02, 3, 75, dtype=torch.float64)


def prior_of(scores):
    def order_prior(num_nodes):
        trust = pyro.sample("trust", trust_prior)
        return PlackettLuce(trust[..., None] * scores)

    return order_prior


def exact_density(scores):
    log_evidence = torch.stack([ExactPosterior(evidence, order_prior=trust * scores).log_evidence for trust in grid])
    return (log_evidence + trust_prior.log_prob(grid)).softmax(0) / (grid[1] - grid[0])


figure, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.plot(grid, trust_prior.log_prob(grid).exp(), color="grey", label="prior")
exact_mean, fitted_mean = {}, {}
for name, scores, color in (("right", expert, "tab:blue"), ("backwards", -expert, "tab:orange")):
    learner = PIVID(edge_prior="normal", noise=1.0, inference="relaxed", order_prior=prior_of(scores))
    fitted = learner.fit(data, **options)
    q = dist.LogNormal(*(fitted.info["params"][f"AutoNormal.{part}.trust"] for part in ("locs", "scales")))
    density = exact_density(scores)
    ax.plot(grid, density, color=color, label=f"the expert is {name}")
    ax.plot(grid, q.log_prob(grid).exp(), "--", color=color)
    exact_mean[name], fitted_mean[name] = (density * grid).sum().item() * (grid[1] - grid[0]).item(), q.mean.item()
ax.set(xlabel="trust (dashed: as fitted by the autoguide)", ylabel="density", ylim=(0, 4))
ax.legend(frameon=False)
print("posterior mean, exact: ", {name: round(value, 2) for name, value in exact_mean.items()})
print("posterior mean, fitted:", {name: round(value, 2) for name, value in fitted_mean.items()})
assert exact_mean["right"] > trust_prior.mean > exact_mean["backwards"]
assert fitted_mean["right"] > 3 * fitted_mean["backwards"]

# %% [markdown]
# The fitted ones are on the right side but too small. The autoguide takes `trust` as independent of the order, which it
# is not. Such shortcuts are the price of variational inference: check them on a small case whose answer you know.

# %% [markdown]
# For what is *certain* (this link cannot be, these come first) there is `knowledge=Knowledge(...)`, see
# [tutorial 1](01_five_minutes.ipynb).
#
# ## 3. Noise with heavy tails
#
# Some tables have a few wild rows. Normal noise bends everything to explain them. `noise_family="student-t"` takes them
# as they are. The data here have t noise with two degrees of freedom (the model uses five, so it is not even right).

# %%
wild, wild_truth = simulate(
    num_nodes=5,
    num_edges=6,
    weights="uniform",
    num_rows=300,
    noise_family="student-t",
    degrees_of_freedom=2.0,
    seed=5,
)
train, test = wild[:150], wild[150:]
families = {}
for family in ("normal", "student-t"):
    learner = PIVID(edge_prior="normal", noise="equal", noise_family=family, inference="relaxed")
    families[family] = learner.fit(train, **options)
error, log_density = {}, {}
figure, axes = plt.subplots(1, 2, figsize=(6.5, 3), sharey=True, layout="constrained")
for ax, (family, fitted) in zip(axes, families.items(), strict=True):
    values = fitted.sample(500, seed=0).edges.mean(0)
    error[family] = (values - wild_truth).abs().max().item()
    log_density[family] = fitted.log_likelihood(test, num_samples=200).mean().item()
    ax.plot([-2, 2], [-2, 2], color="lightgrey")
    ax.plot(wild_truth, values, "o", color="tab:blue", markersize=5)
    ax.set(title=f"{family} noise", xlabel="true weight")
axes[0].set_ylabel("posterior mean of the weight")
print("largest error of a weight:", {name: round(value, 2) for name, value in error.items()})
print("log-density of a new row: ", {name: round(value, 2) for name, value in log_density.items()})
assert error["student-t"] < 0.15
assert error["student-t"] < 0.5 * error["normal"]
assert log_density["student-t"] > log_density["normal"]

# %% [markdown]
# ## 4. A mechanism of your own
#
# Doses saturate: twice the dose is not twice the effect. A SEM of your own is a class with one method, `mean`: what a
# row's columns should be, given its parents. Parameters to learn are Pyro parameters, fetched in `parameters`. Here the
# effect of x is x / (h + |x|), with h to be learned.


# %%
class Saturating(SEM):
    def parameters(self, data):
        found = super().parameters(data)  # the noise scale
        found["half"] = pyro.param("half", lambda: data.new_ones(()), constraint=dist.constraints.positive)
        return found

    def mean(self, rows, edges, parameters):
        return (rows / (parameters["half"] + rows.abs())) @ edges


names = ["dose", "enzyme", "response", "inhibitor"]
true_edges = torch.zeros(4, 4, dtype=torch.float64)
true_edges[0, 1], true_edges[0, 3], true_edges[1, 2], true_edges[3, 2] = 3.0, 2.0, 3.0, -3.0
true_parameters = {"half": torch.tensor(0.5), "noise_scale": torch.tensor(0.5, dtype=torch.float64)}
sem = Saturating(noise="equal")
torch.manual_seed(1)
rows = sem.sample(true_edges, 400, true_parameters)  # a SEM can draw, too
doses = pd.DataFrame(rows.numpy(), columns=names)

fits, longer = {}, {**options, "num_steps": 200 if FAST else 500}
for name, its_sem in {"linear": "linear", "saturating": sem}.items():
    learner = PIVID(its_sem, edge_prior="normal", noise="equal", prior_scale=3.0, inference="relaxed")
    fits[name] = learner.fit(doses[:200], **longer)
half = fits["saturating"].info["params"]["half"].item()
print(f"h = {half:.2f}, in truth 0.50")

figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
grid = torch.linspace(-4, 4, 100)
for name, fitted in fits.items():
    weight = fitted.sample(500, seed=0).edges.mean(0)[0, 1].item()
    curve = weight * (grid if name == "linear" else grid / (half + grid.abs()))
    ax.plot(grid, curve, label=name)
ax.plot(doses["dose"], doses["enzyme"], ".", color="lightgrey", markersize=3, zorder=0)
ax.set(xlabel="dose", ylabel="enzyme", ylim=(-4, 4), xlim=(-2, 2))
ax.legend(frameon=False)
assert abs(half - 0.5) < 0.15

# %% [markdown]
# Both find the graph. The right mechanism predicts new rows better, and gets effects right, which is what one wants a
# model for: what happens to the response if the dose is set from -1 to 1? The truth is computed from the true model.

# %%
for fitted in fits.values():
    assert ((fitted.edge_probs() > 0.5).to_numpy() == (true_edges != 0).numpy()).all()
arms = [sem.sample(true_edges, 100_000, true_parameters, do={0: dose})[:, 2].mean().item() for dose in (-1.0, 1.0)]
true_effect = arms[1] - arms[0]
figure, ax = plt.subplots(figsize=(5.5, 2.4), layout="constrained")
effects = {}
for name, fitted in fits.items():
    effects[name] = fitted.effect("dose", "response", at=(-1.0, 1.0))
    ax.hist(effects[name].draws, bins=30, alpha=0.6, density=True, label=name)
    score = fitted.log_likelihood(doses[200:], num_samples=200).mean().item()
    print(f"{name:10s} log-density of a new row {score:6.2f}   {effects[name]}")
ax.axvline(true_effect, color="black")
ax.legend(frameon=False)
ax.set(xlabel="change of the response (line: truth)", yticks=[])
low, high = effects["saturating"].interval(0.99)
assert low < true_effect < high
assert abs(effects["saturating"].mean - true_effect) < abs(effects["linear"].mean - true_effect)

# %% [markdown]
# The shortest form is a Pyro function `sem(rows, edges)`, called inside the plate of rows with edges of shape
# `(..., 1, D, D)`. Any likelihood will do. What the library cannot know then is how to draw from it, so effects and
# `do` are not offered; links and orders are.


# %%
def my_sem(rows, edges):
    mean = (rows / (0.5 + rows.abs())) @ edges.squeeze(-3)
    pyro.sample("x", dist.Normal(mean, 0.5).to_event(1), obs=rows)


learner = PIVID(my_sem, edge_prior=dist.Normal(0.0, 3.0))  # a mechanism of your own is fitted by relaxed inference
by_function = learner.fit(doses[:200], **longer)
assert ((by_function.edge_probs() > 0.5).to_numpy() == (true_edges != 0).numpy()).all()
by_function.plot("uncertainty", truth=true_edges)

# %% [markdown]
# Next: [the paper's experiments in small](05_paper_in_small.ipynb).
