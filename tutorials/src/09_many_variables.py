# %% [markdown]
# # 9. Many variables, many rows, many machines
#
# Up to 16 columns `PIVID` sums over all orders. Above it integrates the links out exactly and learns the order: a
# hundred columns take about a minute. This notebook does that on a table that is never in memory as a whole, and shows
# how to send work to other processes and machines.
#
# For a table in memory sections 1 and 2 are one line: `PIVID().fit(table)`.

# %%
import importlib.util
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from IPython.display import display
from joblib import Parallel, delayed, parallel_config

from pyro_pivid import PIVID
from pyro_pivid.collapsed import CollapsedSettings, ParentSetEvidence, fit_collapsed
from pyro_pivid.datasets import simulate
from pyro_pivid.metrics import evaluate
from pyro_pivid.statistics import SufficientStatistics

FAST = "PIVID_TUTORIAL_FAST" in os.environ  # the tests run this notebook with smaller sizes
plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## 1. A table that comes in pieces
#
# We write a folder of Parquet files, as a laboratory or a data base would, from a known graph. A linear model needs no
# more of them than sums of products of the columns, and these are added up piece by piece: memory does not grow with
# the number of rows. Means and products are merged so that no digits are lost, even for columns far from zero.

# %%
num_nodes = 25 if FAST else 100
num_files, rows_per_file = (3, 500) if FAST else (10, 500)
_, truth = simulate(num_nodes=num_nodes, num_edges=num_nodes, num_rows=2, weights="uniform", seed=0)
names = [f"gene{node + 1}" for node in range(num_nodes)]
paths_through = torch.linalg.inv(torch.eye(num_nodes, dtype=torch.float64) - truth)
offsets = torch.linspace(0, 1e4, num_nodes, dtype=torch.float64)  # columns far from zero


def draw_rows(num_rows, seed):
    noise = torch.randn(num_rows, num_nodes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return pd.DataFrame((offsets + noise @ paths_through).numpy(), columns=names)


folder = tempfile.TemporaryDirectory()
for file in range(num_files):
    draw_rows(rows_per_file, seed=file).to_parquet(Path(folder.name) / f"part-{file:03d}.parquet")
files = sorted(Path(folder.name).glob("*.parquet"))
print(f"{len(files)} files, {num_files * rows_per_file:,} rows of {num_nodes} columns")


# %%
def pieces(files):
    """One file after the other; whatever gives rows in pieces, as a data base cursor, would do as well."""
    for file in files:
        yield torch.tensor(pd.read_parquet(file).to_numpy())


statistics = SufficientStatistics.from_chunks(pieces(files), intercept=True)
kept = statistics.gram.nbytes / 1e6
print(f"kept in memory: {kept:.2f} MB, whatever the number of rows")

whole = torch.cat(list(pieces(files)))  # only to check: this is what we avoid
at_once = SufficientStatistics.from_data(whole, intercept=True)
assert torch.allclose(statistics.gram, at_once.gram, rtol=1e-10)

figure, ax = plt.subplots(figsize=(5.5, 2.4), layout="constrained")
rows = rows_per_file * np.arange(1, num_files + 1)
ax.plot(rows, rows * num_nodes * 8 / 1e6, "o-", label="the table")
ax.plot(rows, np.full(len(rows), kept), "o-", label="its statistics")
ax.set(xlabel="rows", ylabel="MB", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 2. From a folder to a posterior
#
# `fit` does this summing itself: give it the folder. Then it scores sets of parents, once, and learns orders.

# %%
learner = PIVID()
posterior = learner.fit(folder.name, num_steps=50 if FAST else None, progress_bar=False)
print(posterior.info["inference"])
print(posterior.diagnose())
assert posterior.diagnose().is_reliable

# %% [markdown]
# The evidence is the same to the last digits as from the table in memory:

# %%
evidence = ParentSetEvidence.from_statistics(statistics)
print(f"{sum(evidence.num_sets):,} parent sets of up to {evidence.largest_set} nodes")
in_memory = ParentSetEvidence.from_data(whole)
order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(1))
assert torch.allclose(evidence.log_evidence(order), in_memory.log_evidence(order), rtol=1e-9)

# The work goes with the number of sets that are scored.
figure, ax = plt.subplots(figsize=(5, 2.2), layout="constrained")
ax.hist(evidence.num_sets, bins=30)
ax.set(xlabel="parent sets that were scored, for a column", ylabel="columns")
assert not evidence.limit_hit  # no column had so many good sets that some were left out
folder.cleanup()
plt.show()

# %% [markdown]
# With so many nodes importance sampling has nothing to say (k̂ is huge: no simple law of orders covers the
# posterior), and the agreement of independent chains is what remains. Here we also have the truth.

# %%
figure = posterior.plot("uncertainty", truth=truth, panel_size=4.0)
for ax in figure.axes[:3]:
    ax.set(xticks=[], yticks=[])  # a hundred names cannot be read
display(figure)

# %%
report = evaluate(posterior.sample(200, seed=0), truth)
print(report[["nnz", "skeleton_f1", "f1", "cpdag_shd", "auroc"]].round(2).to_string())
assert report["skeleton_f1"] > 0.9  # nearly all pairs are right,
assert report["auroc"] > 0.95  # directions as far as the data tell them

# %% [markdown]
# Everything else works as before: tables, effects, draws. In a hundred columns a table of the surest links is more use
# than a drawing.

# %%
table = posterior.edge_table(num_samples=500)
sure = table[table["probability"] > 0.95]
index = {name: node for node, name in enumerate(names)}
weights = truth[[index[name] for name in sure["parent"]], [index[name] for name in sure["child"]]].numpy()
num_right = int((weights != 0).sum())
print(f"{len(sure)} links are surer than 0.95, of which {num_right} are true")
assert num_right > 0.85 * len(sure)
sure.head(8).round(2)

# %%
figure, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
spread = [sure["mean"] - sure["5%"], sure["95%"] - sure["mean"]]
ax.errorbar(weights, sure["mean"], yerr=spread, fmt=".", elinewidth=1)
ax.axline((0, 0), slope=1, color="lightgrey", zorder=0)
ax.set(xlabel="true weight", ylabel="posterior mean and 90 % interval", title="links surer than 0.95")
plt.show()

# %% [markdown]
# ## 3. Many processes: joblib
#
# Restarts of relaxed inference go through joblib. `num_jobs=2`, or any joblib context around the call, takes them to
# other processes; the answer is the same. On one machine:

# %%
small, _ = simulate(num_nodes=6, num_edges=6, num_rows=300, weights="uniform", noise_scale=1.0, seed=1)
relaxed = PIVID(edge_prior="normal", noise=1.0, inference="relaxed", restarts=2, num_orders=16)
num_steps = 20 if FAST else 300
one_by_one = relaxed.fit(small, num_steps=num_steps, progress_bar=False)
with parallel_config(backend="loky", n_jobs=2):
    side_by_side = relaxed.fit(small, num_steps=num_steps, progress_bar=False)
print("ELBOs one by one: ", np.round(one_by_one.info["elbos"], 3))
print("ELBOs in parallel:", np.round(side_by_side.info["elbos"], 3))
assert np.allclose(one_by_one.info["elbos"], side_by_side.info["elbos"], rtol=1e-6)

# %% [markdown]
# Whatever is a plain function of data and a seed goes the same way: a sweep over settings, a bootstrap, independent
# fits to see whether they agree. Here fits of several seeds on twelve nodes, two processes side by side.


# %%
def fit_seed(evidence, seed):
    """Edge probabilities of an independent fit."""
    torch.set_num_threads(1)
    settings = CollapsedSettings(num_steps=50, restarts=1, num_chains=32)
    return fit_collapsed(evidence, settings=settings, seed=seed).source.edge_probs()


twelve, _ = simulate(num_nodes=12, num_edges=15, num_rows=300 if FAST else 1000, weights="uniform", seed=5)
evidence_of_twelve = ParentSetEvidence.from_data(torch.tensor(twelve.to_numpy()))
seeds = [0, 1] if FAST else [0, 1, 2, 3]
with parallel_config(backend="loky", n_jobs=2):
    probs = torch.stack(Parallel()(delayed(fit_seed)(evidence_of_twelve, seed) for seed in seeds))
disagreement = (probs.max(0).values - probs.min(0).values).max().item()
print(f"largest difference of an edge probability between {len(seeds)} independent fits: {disagreement:.3f}")
assert disagreement < 0.15

figure, ax = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
ax.plot(probs[0].flatten(), probs[1].flatten(), ".")
ax.axline((0, 0), slope=1, color="lightgrey", zorder=0)
ax.set(xlabel="P(link), seed 0", ylabel="P(link), seed 1", aspect="equal")
plt.show()

# %% [markdown]
# ## 4. Many machines: Dask
#
# The same with a cluster in place of processes: connect a `Client`, and say `backend="dask"`. A Dask array of any size
# can be the table: its blocks are the pieces. Here the "cluster" is two processes on this machine; with
# `Client("scheduler:8786")` it is whatever you have. Workers need this library installed. Ray has a joblib backend too.

# %%
if importlib.util.find_spec("distributed") is None or FAST:
    print("Dask is not used here (not installed, or the fast mode of the tests): pip install 'dask[distributed]'.")
else:
    import dask.array as da
    from distributed import Client, LocalCluster

    array = da.from_array(twelve.to_numpy(), chunks=(250, 12))  # blocks of a table that nobody has as a whole
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster),
        parallel_config(backend="dask"),
    ):
        from_blocks = PIVID().fit(array, progress_bar=False).edge_probs().to_numpy()
        on_cluster = relaxed.fit(small, num_steps=num_steps, progress_bar=False)
        by_dask = torch.stack(Parallel()(delayed(fit_seed)(evidence_of_twelve, seed) for seed in seeds))
    assert np.allclose(on_cluster.info["elbos"], one_by_one.info["elbos"], rtol=1e-6)
    assert torch.allclose(by_dask, probs)
    assert np.allclose(from_blocks, PIVID().fit(twelve, progress_bar=False).edge_probs().to_numpy(), atol=1e-6)
    print(f"{array.numblocks[0]} blocks summed where they lie; restarts and seeds ran there too, with the same answers")

# %% [markdown]
# ## 5. How far does it go?
#
# | columns | what runs | what to expect |
# |---|---|---|
# | up to 16 | exact | seconds, nothing to diagnose |
# | 17 to 60 | collapsed | up to a minute; restarts should agree |
# | 100 | collapsed | about a minute or two on one core |
# | several hundred | collapsed, at most 16 candidate parents each | many minutes; see `limit_hit` and `diagnose()` |
#
# Rows cost one pass over the data and nothing afterwards, for linear models. Spline and neural models need the rows.
#
# Next: [hand the posterior to other tools](10_after_discovery.ipynb).
