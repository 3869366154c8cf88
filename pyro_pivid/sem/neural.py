"""Nonlinear structural equations: for each node a small network that sees its parents alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyro
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyro_pivid.sem.noise import column_scales
from pyro_pivid.sem.structural import SEM, Parameters


class NeuralSEM(SEM):
    r"""Nonlinear equations by graph conditioners: node j has a network that sees :math:`A_{\cdot j} \circ x`.

    .. math:: x_j = w_j^\top \operatorname{sigmoid}\bigl(W_j^\top (A_{\cdot j} \circ x) + b_j\bigr) + c_j + z_j,

    one hidden layer of ``num_hidden`` units for each node. An edge of zero takes its input away, so what is not a
    parent cannot reach a node: neither its value nor its gradient. The weights are Pyro parameters, that is point
    estimates; let the prior of a link pay for the ``weights_per_link`` that it adds.

    All nodes of all graphs are evaluated together, in blocks that stay in the cache, and evaluated again in the
    backward pass: memory for the means and the weights is all that is needed, whatever the size of the hidden layers.
    The gradient is not itself differentiable.

    >>> sem = NeuralSEM(noise=1.0)
    >>> rows = torch.randn(5, 3, requires_grad=True)
    >>> edges = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])  # 0 → 1 → 2
    >>> means = sem.mean(rows, edges, sem.parameters(rows))
    >>> torch.autograd.grad(means[:, 2].sum(), rows)[0].count_nonzero(0)
    tensor([0, 5, 0])

    **Reference**: A. Wehenkel and G. Louppe, *Graphical normalizing flows*, AISTATS 2021 (arXiv:2006.02548).

    :param noise: known scale (a number), ``"equal"`` (one learned scale) or ``"per-node"``.
    :param noise_family: ``"normal"``, ``"laplace"`` or ``"student-t"``.
    :param num_hidden: hidden units of each node's network.
    """

    def __init__(self, noise: float | str = "equal", *, noise_family: str = "normal", num_hidden: int = 10) -> None:
        super().__init__(noise, noise_family=noise_family)
        if isinstance(num_hidden, bool) or not isinstance(num_hidden, int) or num_hidden < 1:
            raise ValueError(
                f"Expected `num_hidden` to be a positive integer, but got {num_hidden!r}. Use 10 if unsure."
            )
        self.num_hidden = num_hidden

    @property
    def weights_per_link(self) -> int:
        """How many weights one link brings in: one for each hidden unit."""
        return self.num_hidden

    def parameters(self, data: Tensor) -> dict[str, Tensor]:
        """Fetch noise scale and weights; networks start small and random around the column means, in data units."""
        found = super().parameters(data)
        num_nodes, num_hidden = data.shape[-1], self.num_hidden
        data = data.detach()

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=data.dtype, device=data.device)

        def hidden_weight() -> Tensor:
            # With all links open, the input of a hidden unit has a variance of about one.
            fan_in = math.sqrt(max(num_nodes - 1, 1))
            return normal(num_nodes, num_nodes, num_hidden) / (fan_in * column_scales(data)[:, None, None])

        def output_weight() -> Tensor:
            return 0.1 * column_scales(data)[:, None] * normal(num_nodes, num_hidden)

        found["hidden_weight"] = pyro.param("sem.hidden_weight", hidden_weight)
        found["hidden_bias"] = pyro.param("sem.hidden_bias", lambda: normal(num_nodes, num_hidden))
        found["output_weight"] = pyro.param("sem.output_weight", output_weight)
        found["output_bias"] = pyro.param("sem.output_bias", lambda: data.mean(0))
        return found

    def mean(self, rows: Tensor, edges: Tensor, parameters: Parameters) -> Tensor:
        if rows.dim() == 2:
            return self._mean_of_shared_rows(rows, edges, parameters)
        batch_shape = torch.broadcast_shapes(rows.shape[:-2], edges.shape[:-2])
        each_rows = rows.expand(*batch_shape, *rows.shape[-2:]).reshape(-1, *rows.shape[-2:])
        each_edges = edges.expand(*batch_shape, *edges.shape[-2:]).reshape(-1, *edges.shape[-2:])
        pairs = zip(each_rows.unbind(), each_edges.unbind(), strict=True)
        means = torch.stack([self._mean_of_shared_rows(*pair, parameters) for pair in pairs])
        return means.reshape(*batch_shape, *rows.shape[-2:])

    def _mean_of_shared_rows(self, rows: Tensor, edges: Tensor, parameters: Parameters) -> Tensor:
        """Means ``(..., N, D)`` for rows ``(N, D)`` that all graphs ``(..., D, D)`` have in common."""
        # The gates go into the weights and the biases become the weight of a constant input: then a node of a graph is
        # a network like any other on the same inputs, with hidden weights (num_hidden, D + 1).
        gated = edges.mT.unsqueeze(-2) * parameters["hidden_weight"].permute(1, 2, 0)
        bias = parameters["hidden_bias"].unsqueeze(-1).expand(*gated.shape[:-1], 1)
        hidden = torch.cat([gated, bias], -1)
        output = parameters["output_weight"].expand(hidden.shape[:-1]).reshape(-1, 1, self.num_hidden)
        output_bias = parameters["output_bias"].expand(hidden.shape[:-2]).reshape(-1, 1, 1)
        inputs = torch.cat([rows.mT, torch.ones_like(rows[:, :1]).mT])
        means = _Networks.apply(hidden.flatten(0, -3), output, output_bias, inputs)
        return means.view(*hidden.shape[:-2], len(rows)).mT


class _Networks(torch.autograd.Function):
    r"""Many networks on the same inputs: :math:`y_{pn} = c_p + \sum_h v_{ph} s(\sum_k W_{phk} x_{kn})`.

    Autograd would write the hidden units of all networks to memory several times, and fresh memory costs more than the
    arithmetic. Here a block of networks at a time passes through one buffer, and again in the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, output: Tensor, output_bias: Tensor, inputs: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, output, inputs)
        result = inputs.new_empty(len(hidden), 1, inputs.shape[1])
        size = _block_size(hidden, inputs)
        tensors = (output, output_bias, result)
        blocks = zip(_active_units(hidden, inputs, size), *(tensor.split(size) for tensor in tensors), strict=True)
        for units, weights, bias, means in blocks:
            torch.baddbmm(bias, weights, units, out=means)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        hidden, output, inputs = ctx.saved_tensors
        grad_hidden, grad_output = torch.empty_like(hidden), torch.empty_like(output)
        grad_inputs = torch.zeros_like(inputs) if ctx.needs_input_grad[3] else None
        size = _block_size(hidden, inputs)
        tensors = (grad.contiguous(), hidden, output.mT, grad_hidden, grad_output.mT)
        blocks = zip(_active_units(hidden, inputs, size), *(tensor.split(size) for tensor in tensors), strict=True)
        for units, to_means, weights, output_weights, to_hidden, to_output in blocks:
            torch.bmm(units, to_means.mT, out=to_output)
            # In place: s' = s - s², times the gradient of the mean. Output weights come in after the sum over the rows.
            slopes = units.addcmul_(units, units, value=-1).mul_(to_means).flatten(0, 1)
            torch.mm(slopes, inputs.mT, out=to_hidden.flatten(0, 1))
            if grad_inputs is not None:
                grad_inputs.addmm_((weights * output_weights).flatten(0, 1).mT, slopes)
        return grad_hidden.mul_(output.mT), grad_output, grad.sum(-1, keepdim=True), grad_inputs


def _block_size(hidden: Tensor, inputs: Tensor) -> int:
    """Networks in a block: on the CPU their units fit into the second-level cache; a GPU wants few large kernels."""
    num_entries = 2**17 if inputs.device.type == "cpu" else 2**25
    return min(max(1, num_entries // max(1, hidden.shape[1] * inputs.shape[1])), len(hidden))


def _active_units(hidden: Tensor, inputs: Tensor, size: int) -> Iterator[Tensor]:
    """The hidden units ``(size, num_hidden, N)`` of one block of networks after the other, all in the same buffer."""
    num_hidden = hidden.shape[1]
    buffer = inputs.new_empty(size * num_hidden, inputs.shape[1])
    for weights in hidden.flatten(0, 1).split(size * num_hidden):
        units = torch.mm(weights, inputs, out=buffer.narrow(0, 0, len(weights)))
        yield units.sigmoid_().unflatten(0, (-1, num_hidden))
