# %% [markdown]
# # 2. The idea
#
# A graph without cycles (a DAG) is an *order* of its nodes, causes first, and *links* that only go forward in that
# order. So a distribution over orders times a distribution over links given the order is a distribution over DAGs. No
# penalty against cycles is needed, for there is no way to draw one.
#
# We look at every step with four nodes, where all 24 orders and all 543 DAGs can be listed and every number checked.

# %%
import os

import matplotlib.pyplot as plt
import pyro
import pyro.distributions as dist
import torch
from IPython.display import display

from pyro_pivid import PIVID
from pyro_pivid.collapsed import DenseEvidence, ExactPosterior
from pyro_pivid.distributions import MaskedEdges, PlackettLuce
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.ops.permutation import all_orders, order_to_matrix, precedence_mask

FAST = "PIVID_TUTORIAL_FAST" in os.environ
plt.rcParams["figure.dpi"] = 80
torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(0)
NAMES = ["a", "b", "c", "d"]

# %% [markdown]
# ## 1. An order says which links may be
#
# `order[0]` is the first cause. In the order b, a, c, d there may be a link from b to all others, and none to b: six
# links at most. The matrix on the right is the same as a table, rows causes and columns effects. It is called the
# precedence mask.


# %%
def draw_links(ax, order, links):
    """The nodes in a row, in the given order, and links as arcs."""
    place = {node: k for k, node in enumerate(order.tolist())}
    for i, j in links.nonzero().tolist():
        arc = f"arc3,rad={-0.25 - 0.1 * (place[j] - place[i])}"
        style = {"arrowstyle": "-|>", "connectionstyle": arc, "color": "tab:blue", "shrinkA": 11, "shrinkB": 11}
        ax.annotate("", (place[j], 0), (place[i], 0), arrowprops=style)
    for node, k in place.items():
        ax.text(k, 0, NAMES[node], ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white"})
    ax.set(xlim=(-0.5, 3.5), ylim=(-0.4, 1.7))
    ax.axis("off")


def draw_matrix(ax, matrix, title, names=NAMES, rows="cause", columns="effect"):
    ax.imshow(matrix.double(), cmap="RdBu", vmin=-3, vmax=3)
    for i, j in torch.cartesian_prod(torch.arange(4), torch.arange(4)).tolist():
        value = matrix[i, j].item()
        ax.text(j, i, f"{value:.1f}" if value % 1 else int(value), ha="center", va="center")
    ax.set_xticks(range(4), names)
    ax.set_yticks(range(4), names if rows == "cause" else range(4))
    ax.set(title=title, xlabel=columns, ylabel=rows)


order = torch.tensor([1, 0, 2, 3])
mask = precedence_mask(order)
figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 2.8), layout="constrained")
draw_links(left, order, mask)
draw_matrix(right, mask.int(), "precedence mask")
assert mask.sum() == 6
assert is_dag(mask)

# %% [markdown]
# The mask comes from the permutation matrix Π of the order by M = Πᵀ U Π with U all ones above the diagonal. Written
# like this it can be differentiated with respect to Π, which is what lets gradients reach the order. (The library does
# not multiply matrices for it: it compares ranks, at a cost of D² instead of D³.)

# %%
permutation = order_to_matrix(order)
upper = torch.ones(4, 4).triu(1)
figure, axes = plt.subplots(1, 3, figsize=(8.5, 2.8), layout="constrained")
draw_matrix(axes[0], permutation, "Π: who is at which place", rows="place", columns="node")
draw_matrix(axes[1], upper, "U", names=range(4), rows="place", columns="place")
draw_matrix(axes[2], permutation.mT @ upper @ permutation, "Πᵀ U Π: the mask")
assert torch.equal(permutation.mT @ upper @ permutation, mask.double())

# %% [markdown]
# ## 2. Links, cut by the mask
#
# Draw a weight for every pair and cut off what the order does not allow: the outcome is a weighted DAG, whatever the
# weights. `MaskedEdges` is this distribution, for any law of a single link.

# %%
links = MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), order)
edges = links.sample()
figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 2.8), layout="constrained")
draw_matrix(left, edges.round(decimals=1), "the weights of one draw")
draw_links(right, order, edges)
assert is_dag(links.sample((1000,))).all()  # a thousand draws, not one cycle

# %% [markdown]
# Is every DAG reached? With four nodes there are 4096 directed graphs. We list them, keep those without cycles (543),
# and count for each the orders that allow it. None has zero, so all are reached. But the counts differ: the empty graph
# fits all 24 orders, a full one only one. **So uniform over orders is not uniform over DAGs**: graphs with fewer
# constraints have more prior mass. That is part of the model, and good to know.

# %%
pairs = (~torch.eye(4, dtype=torch.bool)).nonzero()
bits = torch.arange(2**12).unsqueeze(-1) >> torch.arange(12) & 1
graphs = torch.zeros(2**12, 4, 4, dtype=torch.bool)
graphs[:, pairs[:, 0], pairs[:, 1]] = bits.bool()
dags = graphs[is_dag(graphs)]
orders = all_orders(4)
allows = (dags.unsqueeze(1) <= precedence_mask(orders)).flatten(2).all(-1)  # (543, 24)
num_orders = allows.sum(-1)
figure, ax = plt.subplots(figsize=(5.5, 2.4), layout="constrained")
counts = num_orders.bincount()
ax.bar(counts.nonzero().squeeze(-1), counts[counts > 0], color="tab:blue")
ax.set(xlabel="orders that allow a DAG", ylabel="DAGs", yscale="log", xticks=counts.nonzero().squeeze(-1).tolist())
assert len(dags) == 543
assert num_orders.min() == 1
assert num_orders.max() == 24

# %% [markdown]
# ## 3. A distribution over orders
#
# Plackett-Luce: every node has a score; places are given away one after the other, each to one of the nodes left with
# a chance in proportion to exp(score). Four numbers, and from them the exact probability of all 24 orders. The bars are
# these; the points are shares among 5,000 draws.


# %%
def bars(ax, probs, label=None, shift=0.0, color="tab:blue", width=0.8):
    ax.bar(torch.arange(24) + shift, probs, width=width, label=label, color=color)
    ax.set_xticks(range(24), ["".join(NAMES[node] for node in order) for order in orders.tolist()], rotation=90)
    ax.set_ylabel("probability")


law = PlackettLuce(torch.tensor([1.0, 2.0, 0.0, -1.0]))
probs = law.log_prob(orders).exp()
draws = law.sample((5000,))
shares = (draws.unsqueeze(1) == orders).all(-1).double().mean(0)
figure, ax = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
bars(ax, probs)
ax.plot(range(24), shares, "o", color="tab:orange", markersize=4)
assert abs(probs.sum() - 1) < 1e-12
assert orders[probs.argmax()].tolist() == [1, 0, 2, 3] == law.mode.tolist()
assert ((shares - probs).abs() < 5 * (probs * (1 - probs) / 5000).sqrt()).all()

# %% [markdown]
# ## 4. The two together: a distribution over DAGs
#
# First an order, then links that respect it. Here a link is present with probability one half.

# %%
six_orders = law.sample((6,))
six_dags = MaskedEdges(dist.Bernoulli(torch.full((4, 4), 0.5)), six_orders).sample()
figure, axes = plt.subplots(2, 3, figsize=(7.5, 3.0), layout="constrained")
for ax, its_order, its_links in zip(axes.flat, six_orders, six_dags, strict=True):
    draw_links(ax, its_order, its_links)
assert is_dag(six_dags).all()

# %% [markdown]
# ## 5. Data, and the exact posterior
#
# In truth a and b are causes of c, and c of d. Given the order, a linear model with Normal weights and known noise can
# be integrated by hand: column j is Normal with covariance I + X Xᵀ, where X holds the columns before it. So p(data |
# order) is known for each of the 24 orders, and Bayes' rule is one line.


# %%
def make_data(num_rows, seed):
    noise = torch.randn(num_rows, 4, generator=torch.Generator().manual_seed(seed))
    a, b = noise[:, 0], noise[:, 1]
    c = 0.8 * a + 0.8 * b + noise[:, 2]
    d = 0.8 * c + noise[:, 3]
    data = torch.stack([a, b, c, d], -1)
    return data - data.mean(0)


def log_evidence_by_hand(data, order):
    total = 0.0
    for k, node in enumerate(order.tolist()):
        before = data[:, order[:k]]
        covariance = torch.eye(len(data)) + before @ before.mT
        total += dist.MultivariateNormal(torch.zeros(len(data)), covariance).log_prob(data[:, node])
    return total


data = make_data(20, seed=1)
by_hand = torch.stack([log_evidence_by_hand(data, order) for order in orders])
exact_probs = by_hand.softmax(0)  # all orders are equally likely a priori

evidence = DenseEvidence.from_data(data, noise=1.0)  # the library's way: one Cholesky factor for an order
posterior = ExactPosterior(evidence)  # and sums over sets of nodes instead of over orders: to 16 nodes and more
assert torch.allclose(evidence.log_evidence(orders), by_hand)
assert torch.allclose(posterior.log_prob(orders).exp(), exact_probs)
log_evidence = posterior.log_evidence.item()
assert abs(log_evidence - (by_hand.logsumexp(0) - torch.tensor(24.0).log())) < 1e-8

figure, ax = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
bars(ax, exact_probs)
ax.set_title(f"exact posterior of the order, {len(data)} rows", size=10)
causes_first = torch.tensor([set(order[:2]) == {0, 1} and order[2] == 2 for order in orders.tolist()])
print(f"P(a and b first, then c, then d) = {exact_probs[causes_first].sum():.2f}")

# %% [markdown]
# ## 6. The variational posterior beside it
#
# With many nodes nobody can list all orders. The paper's way is to look for the best distribution of a simple form:
# Plackett-Luce for the order, and one Normal for each weight, cut by the order. "Best" is the largest ELBO, a lower
# bound of log p(data). Here we know log p(data) and can see how close the bound comes.

# %%
num_steps = 150 if FAST else 600
paper = {"edge_prior": "normal", "noise": 1.0, "link_threshold": 0.3}


def fit_both(data):
    relaxed = PIVID(inference="relaxed", **paper).fit(data, num_steps=num_steps, learning_rate=0.05, progress_bar=False)
    return relaxed, PIVID(inference="exact", **paper).fit(data, progress_bar=False)


variational, exact = fit_both(data)
[elbo] = variational.info["elbos"]
figure = variational.plot("elbo")
ax = figure.axes[0]
ax.axhline(log_evidence, color="tab:orange")
ax.text(num_steps, log_evidence, "log p(data), exact", ha="right", va="bottom", color="tab:orange")
ax.set_ylim(top=log_evidence + 1.5)
print(f"ELBO {elbo:.2f}, log p(data) {log_evidence:.2f}, so KL(q, posterior) = {log_evidence - elbo:.2f} nats")
assert elbo < log_evidence
display(figure)

# %% [markdown]
# The gap is the divergence between the two. Where is it? Order by order and link by link:


# %%
def compare(data, variational, exact):
    q = variational.source.order_law().log_prob(orders).exp()
    p = ExactPosterior(DenseEvidence.from_data(data, noise=1.0)).log_prob(orders).exp()
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 2.8), width_ratios=[3, 1], layout="constrained")
    bars(left, p, "exact", -0.2, width=0.4)
    bars(left, q, "variational", 0.2, "tab:orange", width=0.4)
    left.set_title(f"order of the nodes, {len(data)} rows", size=10)
    left.legend(frameon=False)
    right.plot([0, 1], [0, 1], color="lightgrey")
    right.plot(exact.edge_probs(), variational.edge_probs(), "o", color="tab:blue", markersize=5)
    right.set(xlabel="exact", ylabel="variational", aspect="equal")
    right.set_title("probability of each link", size=10)
    return 0.5 * (p - q).abs().sum().item()


distance_20 = compare(data, variational, exact)
print(f"total variation distance of the two laws of the order: {distance_20:.2f}")

# %% [markdown]
# With 20 rows the variational posterior is surer of itself than it should be. It has to be: all orders share one set of
# weights, and weights that fit one order fit another less well, so it settles on few of them. With more rows the
# posterior itself settles, and the two agree. What stays open, whether a or b is first, both leave open.

# %%
more_data = make_data(100, seed=1)
variational_100, exact_100 = fit_both(more_data)
distance_100 = compare(more_data, variational_100, exact_100)
print(f"total variation distance: {distance_100:.2f}")
assert distance_100 < 0.1 < distance_20
a_first = variational_100.source.order_law().precedence_probs[0, 1].item()
assert 0.3 < a_first < 0.7

# %% [markdown]
# ## 7. Integrate the links, learn the order alone
#
# The weights can be integrated out here, as we did by hand. Then nothing is shared between orders and the only thing
# left to learn is the order itself. `inference="collapsed"` does this for many nodes, and polishes the result by Markov
# chains. On the 20 rows it agrees with the exact answer where the first one did not.

# %%
collapsed = PIVID(inference="collapsed", **paper).fit(data, num_steps=50 if FAST else 200, progress_bar=False)
exact_links = exact.edge_probs().to_numpy()
errors = {
    name: abs(fitted.edge_probs().to_numpy() - exact_links).max()
    for name, fitted in {"relaxed": variational, "collapsed": collapsed}.items()
}
figure, ax = plt.subplots(figsize=(4.5, 1.5), layout="constrained")
ax.barh(list(errors), list(errors.values()), color=["tab:orange", "tab:blue"])
ax.set_xlabel("largest error of a link's probability, 20 rows")
print({name: round(float(error), 3) for name, error in errors.items()})
assert errors["collapsed"] < 0.03 < errors["relaxed"]

# %% [markdown]
# That is all of it: orders, masks, links, and a choice of how to learn them.
#
# - `inference="exact"`: sums over all orders, up to 16 nodes. The default where it can be done.
# - `inference="collapsed"`: links integrated out, the order learned. The default beyond.
# - `inference="relaxed"`: order and links learned together, as in the paper. For every other model.
#
# Next: [the distributions](03_distributions.ipynb) in Pyro programs of your own.
