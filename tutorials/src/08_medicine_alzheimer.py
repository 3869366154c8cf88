# %% [markdown]
# # 8. Medicine: from a question to a causal statement
#
# **Every person in this notebook is simulated. Nothing medical follows from it.** The real data, of the Alzheimer's
# Disease Neuroimaging Initiative (ADNI), are licensed and not part of this library; if you have them,
# `datasets.load_alzheimer(path)` reads your copy. Here `simulate_alzheimer` draws a cohort with the same seven
# variables from a published reference graph, with numbers chosen by hand. So the true answer is known and every step
# can be checked.
#
# The question: **if amyloid in the cerebrospinal fluid were raised by 100 pg/ml, by how much would the severity of the
# disease change?**

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pyro_pivid import PIVID, Knowledge
from pyro_pivid.datasets import simulate_alzheimer
from pyro_pivid.plots import plot_effect

FAST = "PIVID_TUTORIAL_FAST" in os.environ  # the tests run this notebook with smaller sizes
plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## 1. The cohort
#
# | | |
# |---|---|
# | AGE, PTEDUCAT, APOE4 | years, years of education, copies of a risk gene (0, 1, 2) |
# | ABETA, PTAU | amyloid and tau in the cerebrospinal fluid, pg/ml; *low* ABETA means deposits in the brain |
# | FDG | how much sugar the brain takes up |
# | DX | severity: about 0 healthy, 1 mildly impaired, 2 demented |

# %%
cohort = simulate_alzheimer(800, seed=3)
print(cohort.notes.split(".")[0])
assert cohort.notes.startswith("SIMULATED")
cohort.data.describe().loc[["mean", "std", "min", "max"]].round(2)

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
for ax, (x, y) in zip(axes, (("ABETA", "DX"), ("ABETA", "PTAU"), ("FDG", "DX")), strict=True):
    ax.plot(cohort.data[x], cohort.data[y], ".", markersize=2, alpha=0.6)
    ax.set(xlabel=x, ylabel=y, title=f"correlation {cohort.data[x].corr(cohort.data[y]):.2f}")
plt.show()

# %% [markdown]
# ## 2. A trap: adjust for everything
#
# A habit: regress the outcome on everything that was measured and read off the coefficient. Do it, and amyloid seems to
# have hardly any effect. The regression holds FDG and tau fixed, and it is *through them* that amyloid acts. What to
# adjust for depends on the graph. So the graph comes first.

# %%
names = cohort.names
truth = pd.DataFrame(cohort.truth.numpy(), index=names, columns=names)
total = np.linalg.inv(np.eye(7) - truth.to_numpy())  # total effects: sums over all paths
true_effect = 100 * total[names.index("ABETA"), names.index("DX")]

predictors = cohort.data.drop(columns="DX")
design = np.column_stack([np.ones(len(predictors)), predictors])
coefficients = np.linalg.lstsq(design, cohort.data["DX"], rcond=None)[0]
naive = 100 * coefficients[1 + list(predictors).index("ABETA")]
print(f"regression on everything: {naive:+.3f}; truth: {true_effect:+.3f}")
assert abs(naive) < 0.5 * abs(true_effect)

# %% [markdown]
# ## 3. What we know before
#
# Age, education and genes come before what is measured in blood and brain, and have no causes among these variables;
# the diagnosis comes last. That is what *tiers* say. Nothing is said about the middle, where the question is.

# %%
knowledge = Knowledge(
    tiers=[["AGE", "PTEDUCAT", "APOE4"], ["ABETA", "PTAU", "FDG"], ["DX"]],
    no_within_tier=[1],
)
knowledge.plot()

# %% [markdown]
# ## 4. The posterior
#
# With seven variables all graphs are summed over exactly. First without the tiers, then with them.

# %%
without = PIVID().fit(cohort.data, progress_bar=False)
posterior = PIVID(knowledge=knowledge).fit(cohort.data, progress_bar=False)
print(posterior.diagnose())
without.plot("uncertainty", truth=truth)

# %%
posterior.plot("uncertainty", truth=truth)

# %%
for fit, name in ((without, "without tiers"), (posterior, "with tiers")):
    links = fit.edge_probs().to_numpy()
    wrong = np.abs(links - (truth.to_numpy() != 0)).sum()
    print(f"{name}: {wrong:.2f} links are wrong on average, {fit.edge_entropy().to_numpy().sum():.2f} nats of doubt")
probs = posterior.edge_probs()
strong = [("APOE4", "ABETA"), ("ABETA", "FDG"), ("ABETA", "PTAU"), ("FDG", "DX"), ("PTAU", "DX")]
assert min(probs.loc[link] for link in strong) > 0.9
assert probs.loc["DX"].max() == 0  # nothing comes after the diagnosis

# %%
posterior.plot("graph")

# %% [markdown]
# ## 5. The effect, with its uncertainty
#
# The answer is an average over all graphs and weights that the data leave possible. Where some draw has no path from
# ABETA to DX, its effect is zero, and the share of such draws is the probability that there is no effect at all.

# %%
effect = posterior.effect("ABETA", "DX", at=(800.0, 900.0))
low, high = effect.interval(0.9)
print(effect)
print(f"truth: {true_effect:+.3f}")
assert low < true_effect < high
assert effect.prob_none < 0.05
plot_effect(effect)

# %% [markdown]
# Beside the two other answers: the trap of section 2, and the same without tiers. That one is not sure which way the
# links of ABETA point, so it does not know what to adjust for, and its interval is several times as wide.

# %%
open_effect = without.effect("ABETA", "DX", at=(800.0, 900.0))
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
for height, one in enumerate((open_effect, effect)):
    ax.plot(one.interval(0.9), [height] * 2, linewidth=4, color="tab:blue", solid_capstyle="butt")
    ax.plot(one.mean, height, "o", color="black")
    ax.text(0.02, height, f"P(no effect) {one.prob_none:.2f}", va="center", fontsize=9)
ax.plot(naive, 2, "x", color="tab:red", markeredgewidth=2)
ax.axvline(true_effect, color="tab:green", linestyle=":", label="truth")
ax.axvline(0, color="lightgrey")
ax.set_yticks(range(3), ["without tiers", "with tiers", "regression on everything"])
ax.set(xlabel="change in DX for 100 pg/ml more ABETA (90 % interval, mean)", xlim=(-0.22, 0.09), ylim=(-0.5, 2.5))
ax.legend(frameon=False)
assert np.ptp(open_effect.interval(0.9)) > 2 * np.ptp(effect.interval(0.9))
plt.show()

# %% [markdown]
# ## 6. What would happen if
#
# `do` sets a variable and lets all others follow. What if ABETA were set to 700 pg/ml for everybody, or to 1300?

# %%
arms = {value: posterior.do({"ABETA": value}, "DX", num_samples=4000) for value in (700.0, 1300.0)}
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for (value, severity), color in zip(arms.items(), ("tab:red", "tab:blue"), strict=True):
    ax.hist(severity, bins=60, alpha=0.6, color=color, label=f"ABETA set to {value:.0f}")
ax.set(xlabel="DX", yticks=[])
ax.legend(frameon=False)
difference = arms[1300.0].mean() - arms[700.0].mean()
spread = arms[1300.0].std()
print(f"mean difference {difference:+.2f}, in truth {6 * true_effect:+.2f}; people in one arm spread by ±{spread:.2f}")
assert abs(difference - 6 * true_effect) < 0.2
plt.show()

# %% [markdown]
# ## 7. Is the interval honest?
#
# A 90 % interval should hold the truth in nine of ten studies. With simulated cohorts we can repeat the study. (A bar
# that is much taller than the others is a study that was not sure of a link.)

# %%
num_studies = 20 if FAST else 60
people = 800
intervals = []
for seed in range(100, 100 + num_studies):
    study = PIVID(knowledge=knowledge).fit(simulate_alzheimer(people, seed=seed).data, progress_bar=False)
    intervals.append(study.effect("ABETA", "DX", at=(800.0, 900.0), num_samples=1000).interval(0.9))
intervals = np.array(intervals)
hits = (intervals[:, 0] < true_effect) & (true_effect < intervals[:, 1])
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
ax.vlines(range(num_studies), *intervals.T, colors=["tab:blue" if hit else "tab:red" for hit in hits], linewidth=3)
ax.axhline(true_effect, color="tab:green", linestyle=":")
ax.set(xlabel="study", ylabel="effect, 90 % interval", title=f"{hits.sum()} of {num_studies} hold the truth")
# Of 20 (60) honest 90 % intervals fewer than 14 (46) would hold the truth with probability 0.003 (0.001).
assert hits.sum() >= (14 if FAST else 46)
plt.show()

# %% [markdown]
# ## 8. The statement
#
# Written from the numbers, with its conditions. The conditions are part of the statement: drop them and it is no longer
# true.

# %%
statement = (
    f"In this SIMULATED cohort of {len(cohort.data)} people, raising ABETA by 100 pg/ml changes severity by "
    f"{effect.mean:+.3f} (90 % between {low:+.3f} and {high:+.3f}); that there is no effect has probability "
    f"{effect.prob_none:.2f}. This holds if (1) effects are linear, (2) no common cause of these seven variables is "
    "missing, (3) age, education and genes come first and the diagnosis last, (4) nothing feeds back."
)
print(statement)

# %% [markdown]
# With real people, (2) and (4) are what to worry about: see [tutorial 6](06_is_it_true.ipynb) for what a missing common
# cause does. ADNI has several visits of one person, which are no independent rows: `load_alzheimer(path,
# visits="first")` takes one each.
#
# Next: [many variables](09_many_variables.ipynb).
