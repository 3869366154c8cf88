# %% [markdown]
# # 10. After discovery: hand the posterior on
#
# Other libraries start where this one ends: given a graph, [DoWhy](https://www.pywhy.org/dowhy) finds out whether an
# effect can be estimated, from which columns, and tries to refute it; [pgmpy](https://pgmpy.org) makes a Bayesian
# network of it. They take *one* graph. A posterior is many. So hand over many, and average. The bridge is networkx,
# which is installed with this library. DoWhy and pgmpy are not: the cells that use them say so and go on.

# %%
import importlib.util
import logging
import os
import warnings
from collections import defaultdict

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import torch

from pyro_pivid import PIVID, Posterior
from pyro_pivid.ops.graph import to_networkx

FAST = "PIVID_TUTORIAL_FAST" in os.environ  # the tests run this notebook with smaller sizes
plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## 1. A table and a question
#
# A shop: do adverts sell? The season drives both adverts and sales; adverts bring visits, and visits sales; the press
# writes about shops that advertise a lot and sell a lot. Made up, so that we know the effect: 0.9 · 0.7 = 0.63.

# %%
generator = np.random.default_rng(1)
num_rows = 200
season, budget, e1, e2, e3, e4 = generator.normal(size=(6, num_rows))
adverts = 0.8 * season + 0.7 * budget + e1
visits = 0.9 * adverts + e2
sales = 0.7 * visits + 0.8 * season + e3
press = 0.6 * adverts + 0.6 * sales + e4
shop = pd.DataFrame(
    {"season": season, "budget": budget, "adverts": adverts, "visits": visits, "sales": sales, "press": press}
)
cause, outcome, true_effect = "adverts", "sales", 0.9 * 0.7
posterior = PIVID().fit(shop, progress_bar=False)
posterior.plot("graph")

# %% [markdown]
# ## 2. One graph
#
# `to_networkx` gives the links above a probability, without cycles, each with its probability and its mean weight. Any
# tool that takes a graph takes this one. What it leaves out is the doubt about the rest:

# %%
graph = posterior.to_networkx(threshold=0.5)
for parent, child, facts in sorted(graph.edges(data=True), key=lambda link: -link[2]["probability"]):
    print(f"{parent:>8} → {child:8} P = {facts['probability']:.2f}, weight {facts['weight']:+.2f}")
assert nx.is_directed_acyclic_graph(graph)

# %% [markdown]
# ## 3. Many graphs
#
# Draws of the posterior, as networkx graphs, each distinct one with its share of the draws.

# %%
draws = posterior.sample(1000 if FAST else 4000, seed=0)
distinct, counts = torch.unique(draws.edges != 0, dim=0, return_counts=True)
falling = counts.argsort(descending=True)
shares = (counts[falling] / counts.sum()).tolist()
graphs = [to_networkx(links, names=posterior.names) for links in distinct[falling]]
assert all(nx.is_directed_acyclic_graph(one) for one in graphs)

figure, ax = plt.subplots(figsize=(6, 2.3), layout="constrained")
ax.plot(range(1, len(shares) + 1), np.cumsum(shares), ".-")
ax.set(xlabel="graphs, the most frequent first", ylabel="share of the draws", ylim=(0, 1.02), xscale="log")
ax.set_title(f"{len(graphs)} graphs among {len(draws.orders)} draws; the likeliest has {shares[0]:.0%}", fontsize=10)
plt.show()

# %% [markdown]
# ## 4. What to adjust for, graph by graph
#
# The back-door rule: to read the effect of a cause off a regression, adjust for columns that block every path *into*
# the cause, and for none of its effects. networkx finds a smallest such set: cut the links out of the cause, and ask
# what separates it from the outcome.


# %%
def back_door_set(graph, cause, outcome):
    """A smallest set of columns to adjust for; ``None`` if the cause does not lead to the outcome at all."""
    effects = nx.descendants(graph, cause)
    if outcome not in effects:
        return None
    into = graph.copy()
    into.remove_edges_from(list(graph.out_edges(cause)))
    allowed = set(graph) - effects - {cause}
    return frozenset(nx.find_minimal_d_separator(into, cause, outcome, restricted=allowed))


true_graph = nx.DiGraph(
    [("season", "adverts"), ("budget", "adverts"), ("adverts", "visits"), ("visits", "sales"), ("season", "sales"),
     ("adverts", "press"), ("sales", "press")]
)  # fmt: skip
assert back_door_set(true_graph, cause, outcome) == {"season"}

prob_of_set = defaultdict(float)
for one, share in zip(graphs, shares, strict=True):
    prob_of_set[back_door_set(one, cause, outcome)] += share


def told(columns):
    return "no effect" if columns is None else ", ".join(sorted(columns)) or "nothing"


ranked = sorted(prob_of_set.items(), key=lambda item: item[1])[-6:]
figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.barh([told(columns) for columns, _ in ranked], [prob for _, prob in ranked])
ax.set(xlabel="posterior probability", title="adjust for …", xlim=(0, 1))
assert abs(sum(prob_of_set.values()) - 1) < 1e-6
assert max(prob_of_set, key=prob_of_set.get) == {"season"}  # the likeliest is the right one
plt.show()

# %% [markdown]
# ## 5. The effect, averaged over graphs
#
# A regression for each graph, with the columns of that graph; draws of its coefficient; all together in proportion to
# the shares.


# %%
def regression(data, cause, outcome, adjust):
    """Coefficient of the cause and its standard error."""
    columns = np.column_stack([np.ones(len(data)), data[[cause, *sorted(adjust)]]])
    inverse = np.linalg.inv(columns.T @ columns)
    weights = inverse @ columns.T @ data[outcome]
    residuals = data[outcome] - columns @ weights
    variance = residuals @ residuals / (len(data) - columns.shape[1])
    return weights[1], np.sqrt(variance * inverse[1, 1])


effects = []
for columns, prob in prob_of_set.items():
    size = round(prob * 20_000)
    if columns is None:
        effects.append(np.zeros(size))
    else:
        mean, error = regression(shop, cause, outcome, columns)
        effects.append(generator.normal(mean, error, size))
effects = np.concatenate(effects)

direct = posterior.effect(cause, outcome)
press_too, _ = regression(shop, cause, outcome, {"season", "press"})
figure, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
bins = np.linspace(-0.2, 1.6, 60)
ax.hist(effects, bins=bins, density=True, alpha=0.6, label="regressions, averaged over graphs")
ax.hist(direct.draws.numpy(), bins=bins, density=True, histtype="step", color="black", label="posterior.effect")
ax.axvline(true_effect, color="tab:green", linestyle=":", label="truth")
ax.axvline(press_too, color="tab:red", label="adjusted for press as well")
ax.set(xlabel="effect of adverts on sales", yticks=[])
ax.legend(frameon=False, fontsize=8)
print(f"regressions, averaged: {effects.mean():.2f} ± {effects.std():.2f}")
print(f"posterior.effect:      {direct.mean:.2f} ± {direct.sd:.2f}")
plt.show()

# %% [markdown]
# Two ways to the same answer. `posterior.effect` takes the weights of each draw and multiplies them along its paths,
# which uses the whole graph and is a little sharper; the regressions use the graph only to choose columns. Adjusting
# for the press, which looks harmless, would be badly wrong: it is an effect of both.

# %%
low, high = np.quantile(effects, [0.05, 0.95])
assert low < true_effect < high
assert abs(effects.mean() - direct.mean) < 0.15
assert abs(press_too - true_effect) > 2 * abs(effects.mean() - true_effect)

# %% [markdown]
# ## 6. DoWhy
#
# `pip install dowhy` (a large package that pins older versions of others: an environment of its own is wise). It takes
# the networkx graph as it is, identifies, estimates and refutes.

# %%
HAS_DOWHY = importlib.util.find_spec("dowhy") is not None and not FAST  # its import alone takes seconds


def dowhy_effect(graph):
    """The columns that DoWhy adjusts for, its estimate, and a placebo: the same with the cause shuffled."""
    import dowhy

    model = dowhy.CausalModel(shop, cause, outcome, graph=graph)
    estimand = model.identify_effect(proceed_when_unidentifiable=True)
    estimate = model.estimate_effect(estimand, method_name="backdoor.linear_regression")
    placebo = {"placebo_type": "permute", "num_simulations": 20, "random_seed": 0}
    refuted = model.refute_estimate(estimand, estimate, method_name="placebo_treatment_refuter", **placebo)
    return set(estimand.get_backdoor_variables()), float(estimate.value), float(refuted.new_effect)


if HAS_DOWHY:
    logging.disable(logging.WARNING)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with_effect = [one for one in range(len(graphs)) if back_door_set(graphs[one], cause, outcome) is not None]
        for one in with_effect[:8]:
            columns, value, placebo = dowhy_effect(graphs[one])
            ours = regression(shop, cause, outcome, back_door_set(graphs[one], cause, outcome))[0]
            rows.append([shares[one], told(columns), value, ours, placebo])
            assert abs(value - regression(shop, cause, outcome, columns)[0]) < 1e-6
    logging.disable(logging.NOTSET)
    shown = pd.DataFrame(rows, columns=["share", "DoWhy adjusts for", "DoWhy", "networkx (above)", "placebo"])
    print(shown.round(3).to_string(index=False))
    assert shown["placebo"].abs().max() < 0.2  # a shuffled cause has no effect
else:
    print("DoWhy is not used here (not installed, or the fast mode of the tests): sections 4 and 5 did its work.")

# %% [markdown]
# ## 7. pgmpy
#
# `pip install pgmpy`. It takes the links, and gives a network to query: here the adjustment set again, and the linear
# equation of the outcome.

# %%
HAS_PGMPY = importlib.util.find_spec("pgmpy") is not None and not FAST
likeliest = graphs[0]
if HAS_PGMPY:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.base import DAG
        from pgmpy.inference import CausalInference
        from pgmpy.models import LinearGaussianBayesianNetwork

        minimal = CausalInference(DAG(list(likeliest.edges))).get_minimal_adjustment_set(cause, outcome)
        network = LinearGaussianBayesianNetwork(list(likeliest.edges))
        network.fit(shop)
    logging.disable(logging.NOTSET)
    print("pgmpy adjusts for:", told(minimal))
    print(network.get_cpds(outcome))
    assert set(minimal) == back_door_set(likeliest, cause, outcome)
else:
    print("pgmpy is not used here (not installed, or the fast mode of the tests).")
print("networkx adjusts for:", told(back_door_set(likeliest, cause, outcome)))
print("parents of the outcome:", sorted(likeliest.predecessors(outcome)))

# %% [markdown]
# ## 8. Other ways out
#
# - `posterior.to_dot()` for Graphviz, `posterior.to_arviz()` for ArviZ, `posterior.edge_table()` for everything else.
# - `posterior.sample(…)` gives `.edges` `(S, D, D)`, rows causes and columns effects: `numpy` arrays by `.numpy()`.
# - The other way round, `Posterior.from_draws(orders, edges, names=…)` takes draws of any other method, so that
#   effects, pictures and tables are there for those as well.

# %%
again = Posterior.from_draws(draws.orders, draws.edges, names=posterior.names)  # as if they came from elsewhere
assert (again.edge_probs() - posterior.edge_probs()).abs().to_numpy().max() < 0.05
assert nx.utils.graphs_equal(nx.DiGraph(posterior.to_networkx().edges), nx.DiGraph(graph.edges))
again.plot("uncertainty", truth=nx.to_numpy_array(true_graph, nodelist=again.names))
