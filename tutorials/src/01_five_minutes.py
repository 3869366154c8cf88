# %% [markdown]
# # 1. Five minutes
#
# A table goes in. Out come the probability of every causal link, a graph, and effects with their uncertainty.
#
# The table here is made up, a garden with six columns, so that we know the truth and can check every answer. With a
# table of yours you would start at step 2.

# %%
import os
import tempfile
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch

from pyro_pivid import PIVID, Knowledge, Posterior

FAST = "PIVID_TUTORIAL_FAST" in os.environ  # the tests run this notebook with fewer rows
plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## 1. A table
#
# Rain and irrigation make the soil moist; moisture and fertiliser make plants grow; what has grown can be harvested.
# Each plot of the garden is a row. The columns have their own units and means, as in life.

# %%
generator = torch.Generator().manual_seed(7)
num_plots = 300 if FAST else 800


def noise(scale):
    return scale * torch.randn(num_plots, generator=generator, dtype=torch.float64)


rain = 40 + noise(8)  # mm
irrigation = 25 + noise(5)  # mm
moisture = 5 + 0.4 * rain + 0.5 * irrigation + noise(3)  # %
fertiliser = 12 + noise(4)  # g
growth = 10 + 0.8 * moisture + 1.2 * fertiliser + noise(4)  # cm
harvest = 0.5 + 0.05 * growth + noise(0.3)  # kg
names = ["harvest", "irrigation", "growth", "fertiliser", "rain", "moisture"]  # the order of the columns says nothing
table = pd.DataFrame({name: globals()[name].numpy() for name in names})
table.head().round(2)

# %% [markdown]
# Correlations show which columns move together. They do not show which one moves the other: harvest goes with moisture
# in the same way as moisture goes with rain.

# %%
figure, ax = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
image = ax.imshow(table.corr(), cmap="RdBu", vmin=-1, vmax=1)
ax.set_xticks(range(6), names, rotation=90)
ax.set_yticks(range(6), names)
bar = figure.colorbar(image, label="correlation")

# %% [markdown]
# ## 2. Edge probabilities
#
# One line. `fit` also takes the path of a CSV or Parquet file, an array or a tensor. With no arguments `PIVID()`
# assumes little: linear effects, nothing about units, a noise scale of its own for each column. With six columns it
# sums over all graphs exactly.

# %%
posterior = PIVID().fit(table, progress_bar=False)
print(posterior.diagnose())
posterior.edge_probs().round(2)  # rows are causes, columns are effects

# %% [markdown]
# The same numbers as a picture, beside the truth: the links that we put in. On the right the entropy: where the answer
# is not sure.

# %%
truth = pd.DataFrame(0.0, index=names, columns=names)
truth.loc["rain", "moisture"] = 0.4
truth.loc["irrigation", "moisture"] = 0.5
truth.loc["moisture", "growth"] = 0.8
truth.loc["fertiliser", "growth"] = 1.2
truth.loc["growth", "harvest"] = 0.05
posterior.plot("uncertainty", truth=truth)

# %%
probs = posterior.edge_probs().to_numpy()
is_link = truth.to_numpy() != 0
assert probs[is_link].min() > 0.8  # every true link is found
assert probs[~is_link].max() < 0.2  # and no other

# %% [markdown]
# The file does as well, and a column in other units changes nothing:

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "garden.csv"
    table.assign(rain=table["rain"] / 25.4).to_csv(path, index=False)  # inches
    from_file = PIVID().fit(path, progress_bar=False)
difference = (from_file.edge_probs() - posterior.edge_probs()).abs().to_numpy().max()
print(f"largest difference of an edge probability: {difference:.1e}")
assert difference < 1e-6

# %% [markdown]
# ## 3. The posterior graph
#
# Links drawn by their probability, causes on the left. Blue weights are positive.

# %%
posterior.plot("graph")

# %% [markdown]
# The table behind it: the probability of each link, that the two are linked at all (`adjacent`), that one comes before
# the other, that a path leads from one to the other (`ancestor`), and the weight if the link is there, in the units of
# the columns: cm of growth for a gram of fertiliser.

# %%
links = posterior.edge_table()
links.head(6).round(2)

# %%
for _, link in links.head(5).iterrows():
    true_weight = truth.loc[link["parent"], link["child"]]
    assert true_weight != 0
    assert abs(link["mean"] - true_weight) < 3 * (link["95%"] - link["5%"]) / 3.3  # three standard deviations

# %% [markdown]
# A posterior is many graphs. These are nine draws of it; each is a graph without cycles, with weights.

# %%
posterior.plot("samples", num_samples=9)

# %% [markdown]
# ## 4. An effect with its uncertainty
#
# How much more is harvested for one more mm of irrigation? The answer averages over all graphs and weights: the bar is
# the probability that there is an effect at all, the histogram its size if there is one.

# %%
effect = posterior.effect("irrigation", "harvest")
print(effect)
posterior.plot("effect", cause="irrigation", outcome="harvest")

# %%
true_effect = 0.5 * 0.8 * 0.05  # irrigation → moisture → growth → harvest
low, high = effect.interval(0.95)
print(f"truth {true_effect:.3f} kg a mm, 95 % between {low:.3f} and {high:.3f}")
assert low < true_effect < high
assert posterior.effect("harvest", "irrigation").prob_none > 0.95  # the harvest does not water the garden

# %% [markdown]
# The interval reaches down to 0 because a few of the draws have no path from irrigation to the harvest.
#
# And what would the harvest be if we *set* irrigation, to 10 mm on some plots and to 40 mm on others? `do` draws from
# the model with that column set by us.

# %%
dry = posterior.do({"irrigation": 10.0}, "harvest", num_samples=4000)
wet = posterior.do({"irrigation": 40.0}, "harvest", num_samples=4000)
figure, ax = plt.subplots(figsize=(5.5, 2.8), layout="constrained")
for values, label, color in ((dry, "10 mm", "tab:orange"), (wet, "40 mm", "tab:blue")):
    ax.hist(values, bins=50, alpha=0.6, label=f"irrigation set to {label}", color=color)
ax.set(xlabel="harvest (kg)", yticks=[])
figure.legend(frameon=False, loc="outside upper center", ncols=2)
gain = wet.mean() - dry.mean()
print(f"mean gain {gain:.2f} kg, in truth {30 * true_effect:.2f} kg")
assert abs(gain - 30 * true_effect) < 0.15

# %% [markdown]
# ## 5. What the data cannot tell
#
# The directions above were found because two causes met in one effect: rain and irrigation are independent, but not so
# given the moisture. Take two of the columns away and only a chain is left. A chain fits as well when read backwards,
# and the probabilities say so: linked for certain, direction open.

# %%
chain = ["rain", "moisture", "growth", "harvest"]
open_posterior = PIVID().fit(table[chain], progress_bar=False)
open_posterior.plot("graph")

# %%
print(open_posterior.equivalence_classes()[0])  # the most probable class: — is a link whose direction is open
table_of_links = open_posterior.edge_table().set_index(["parent", "child"])
for parent, child in pairwise(chain):
    row = table_of_links.loc[(parent, child)]
    print(f"{parent} and {child}: linked {row['adjacent']:.2f}, {parent} → {child} {row['probability']:.2f}")
    assert row["adjacent"] > 0.99
    assert 0.1 < row["probability"] < 0.9

# %% [markdown]
# Why is rain → moisture less than half? A priori all *orders* of the columns are equally likely, and few of them have
# rain first: the [next tutorial](02_the_idea.ipynb) counts them. Say what you know and the picture becomes sharp.
# Nothing in a garden makes it rain:

# %%
told = PIVID(knowledge=Knowledge(roots=["rain"])).fit(table[chain], progress_bar=False)
assert told.edge_table().set_index(["parent", "child"]).loc[("moisture", "growth"), "probability"] > 0.9
told.plot("graph")

# %% [markdown]
# ## 6. Keep it
#
# A posterior is saved as a folder and gives the same draws when loaded.

# %%
with tempfile.TemporaryDirectory() as folder:
    posterior.save(Path(folder) / "garden")
    again = Posterior.load(Path(folder) / "garden")
assert torch.equal(again.sample(10, seed=1).edges, posterior.sample(10, seed=1).edges)

# %% [markdown]
# The same from the command line: `pivid fit garden.csv --out run/`, `pivid show run/`, `pivid plot run/`.
#
# Next: [the idea behind it](02_the_idea.ipynb), step by step on four nodes.
