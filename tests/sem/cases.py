"""Small DAGs and the models with their parameters that the tests of this folder share."""

import torch

from pyro_pivid.sem import LinearSEM, NeuralSEM

NUM_NODES = 4


def random_edges(*batch_shape, num_nodes=NUM_NODES):
    """Weighted DAGs, each cut by an order of its own, with exact zeros."""
    rank = torch.rand(*batch_shape, num_nodes).argsort(-1)
    allowed = rank.unsqueeze(-1) < rank.unsqueeze(-2)
    return torch.randn(*batch_shape, num_nodes, num_nodes) * allowed


def noise_scales(kind, num_nodes=NUM_NODES):
    return {
        "known": torch.tensor(0.7),
        "equal": torch.tensor(1.3),
        "per-node": torch.linspace(0.5, 2.0, num_nodes),
    }[kind]


def linear_parameters(noise="per-node", *, bias=False, weighted_gates=False, num_nodes=NUM_NODES):
    parameters = {"noise_scale": noise_scales(noise, num_nodes)}
    if bias:
        parameters["bias"] = torch.randn(num_nodes)
    if weighted_gates:
        parameters["weight"] = torch.randn(num_nodes, num_nodes)
    return parameters


def linear_case(noise="per-node", *, noise_family="normal", bias=False, weighted_gates=False, num_nodes=NUM_NODES):
    """A linear model and plain tensors for its parameters."""
    known = 0.7 if noise == "known" else noise
    sem = LinearSEM(known, noise_family=noise_family, bias=bias, weighted_gates=weighted_gates)
    return sem, linear_parameters(noise, bias=bias, weighted_gates=weighted_gates, num_nodes=num_nodes)


def neural_case(num_hidden=3, *, noise="equal", noise_family="normal", num_nodes=NUM_NODES):
    """A neural model and plain tensors for its parameters."""
    parameters = {
        "noise_scale": noise_scales(noise, num_nodes),
        "hidden_weight": torch.randn(num_nodes, num_nodes, num_hidden),
        "hidden_bias": torch.randn(num_nodes, num_hidden),
        "output_weight": torch.randn(num_nodes, num_hidden),
        "output_bias": torch.randn(num_nodes),
    }
    known = 0.7 if noise == "known" else noise
    return NeuralSEM(known, noise_family=noise_family, num_hidden=num_hidden), parameters
