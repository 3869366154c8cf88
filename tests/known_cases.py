"""Posteriors of small problems by listing all orders and parent sets, with knowledge and interventions, and fits."""

import itertools

import numpy as np
import pandas as pd
import torch

from pyro_pivid.collapsed.from_problem import EvidenceChoice
from pyro_pivid.collapsed.variational import CollapsedSettings
from pyro_pivid.estimator import SPLINE_FEATURES
from pyro_pivid.imputation import ImputationSettings
from pyro_pivid.posterior.fitted import fitted_posterior
from pyro_pivid.problem import read_problem
from pyro_pivid.routes import Integrated
from tests.collapsed.brute_force import subsets_of

QUICK = CollapsedSettings(num_steps=60, num_chains=200, num_warmup=30, num_sweeps=30, num_draws=200, restarts=1)


def frame_of(values):
    """The table with the names a, b, c, …"""
    values = np.asarray(values)
    return pd.DataFrame(values, columns=list("abcdefgh")[: values.shape[1]])


def enumerated(num_nodes, set_score, knowledge=None):
    """Probabilities of links and of precedence by sums over all orders and parent sets.

    :param set_score: log-density of a node's column given those of its parents.
    :param knowledge: resolved.
    """
    default = min(0.5, 2 / (num_nodes - 1))
    probs, before = np.full((num_nodes, num_nodes), np.nan), np.zeros((num_nodes, num_nodes), dtype=bool)
    if knowledge is not None:
        probs, before = knowledge.link_probs.numpy(), knowledge.before.numpy()
    probs = np.where(np.isnan(probs), default, probs)
    nodes = range(num_nodes)
    scores = {(j, s): set_score(j, s) for j in nodes for s in subsets_of([i for i in nodes if i != j])}
    logs, links, precedences = [], [], []
    for order in itertools.permutations(nodes):
        if any(before[later, earlier] for earlier, later in itertools.combinations(order, 2)):
            continue
        total, present = 0.0, np.zeros((num_nodes, num_nodes))
        for place, node in enumerate(order):
            sets = subsets_of(sorted(order[:place]))
            with np.errstate(divide="ignore"):
                priors = [
                    sum(np.log(probs[i, node] if i in parents else 1 - probs[i, node]) for i in order[:place])
                    for parents in sets
                ]
            terms = np.array([scores[node, s] + prior for s, prior in zip(sets, priors, strict=True)])
            local = np.logaddexp.reduce(terms)
            for parents, weight in zip(sets, np.exp(terms - local), strict=True):
                present[list(parents), node] += weight
            total += local
        logs.append(total)
        links.append(present)
        rank = np.argsort(order)
        precedences.append(rank[:, None] < rank)
    weights = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    return np.einsum("o,oij->ij", weights, links), np.einsum("o,oij->ij", weights, precedences)


def fit_collapsed_quickly(
    data, *, knowledge=None, interventions=None, sem="linear", edge_prior="spike-slab", noise="per-node", settings=QUICK
):
    """Collapsed inference by the route that PIVID takes, with fewer and shorter chains than its own."""
    problem = read_problem(data, knowledge=knowledge, interventions=interventions)
    choice = EvidenceChoice(edge_prior, noise, SPLINE_FEATURES if sem == "spline" else None)
    route = Integrated(
        choice,
        exact=False,
        standardize=noise == "per-node",
        order_prior=None,
        settings=settings,
        imputation=ImputationSettings(),
    ).run(problem, 0)
    return fitted_posterior(route.source, problem, scales=route.scales, info=route.info, settings={})


def assert_agrees_with_knowledge(posterior, num_draws=200):
    """Every draw and every probability agrees with what was certain, exactly."""
    knowledge = posterior.info["knowledge"]
    draws = posterior.sample(num_draws, seed=0)
    assert knowledge.allows(draws.edges).all()
    assert knowledge.allows_order(draws.orders).all()
    probs = torch.tensor(posterior.edge_probs().to_numpy())
    assert (probs[knowledge.forbidden] == 0).all()
    assert (probs[knowledge.required] == 1).all()
    order_probs = torch.tensor(posterior.order_probs().to_numpy())
    assert (order_probs[knowledge.before] == 1).all()
    assert (order_probs.mT[knowledge.before] == 0).all()
