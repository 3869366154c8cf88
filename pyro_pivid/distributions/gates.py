"""Link laws with an atom at zero: a gate that is open or shut, and a gate times a weight.

Both are univariate and reparameterised, so they serve as the base of
:class:`~pyro_pivid.distributions.MaskedEdges`. The gate is exact in the forward pass and relaxed in the backward pass;
densities and moments are those of the exact law.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints, register_kl
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from pyro_pivid.distributions._validation import check_positive, wants_validation


class StraightThroughBernoulli(TorchDistribution):
    r"""Gates in {0, 1} whose draws carry the gradient of a binary Concrete variable.

    A sample is exactly 0 or 1, with :math:`P(1) = \operatorname{sigmoid}(\text{logits})`; the backward pass is that of
    :math:`\operatorname{sigmoid}((\text{logits} + \text{Logistic noise}) / \tau)` under the same noise, whose rounding
    is the sample. ``log_prob``, mean and variance are those of a Bernoulli variable.

    >>> gate = StraightThroughBernoulli(0.5, torch.tensor([4.0, -4.0], requires_grad=True))
    >>> sorted(gate.rsample((100,)).unique().tolist())
    [0.0, 1.0]
    >>> gate.mean.detach().round(decimals=3)
    tensor([0.9820, 0.0180])

    **Reference**: E. Jang, S. Gu, B. Poole, *Categorical reparameterization with Gumbel-Softmax*, ICLR 2017
    (arXiv:1611.01144); C. Maddison, A. Mnih, Y. W. Teh, *The Concrete distribution*, ICLR 2017 (arXiv:1611.00712).

    :param temperature: positive number of the relaxation; smaller is harder.
    :param logits: log-odds of an open gate, any batch shape.
    :param validate_args: whether to check arguments and values.
    """

    arg_constraints = {"logits": constraints.real}
    support = constraints.boolean
    has_rsample = True

    def __init__(self, temperature: float, logits: Tensor, *, validate_args: bool | None = None) -> None:
        if wants_validation(validate_args):
            check_positive("temperature", torch.tensor(float(temperature)))
        if not isinstance(logits, Tensor):
            logits = torch.as_tensor(logits, dtype=torch.get_default_dtype())
        self.temperature = float(temperature)
        self.logits = logits
        super().__init__(logits.shape, Size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> StraightThroughBernoulli:
        new = self._get_checked_instance(StraightThroughBernoulli, _instance)
        new.temperature = self.temperature
        new.has_rsample = self.has_rsample
        new.logits = self.logits.expand(Size(batch_shape))
        super(StraightThroughBernoulli, new).__init__(Size(batch_shape), Size(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return open_gates(self.logits.expand(self._extended_shape(Size(sample_shape))), self.temperature)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = torch.broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    @property
    def probs(self) -> Tensor:
        """P(the gate is open)."""
        return self.logits.sigmoid()

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (-self.logits).sigmoid()

    @property
    def mode(self) -> Tensor:
        return (self.logits > 0).to(self.logits.dtype)

    def entropy(self) -> Tensor:
        """Entropy in nats."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class SpikeSlab(TorchDistribution):
    r"""A link that is absent (exactly zero) or present with a normal weight.

    .. math:: p(a) = (1 - \rho)\,\delta_0(a) + \rho\,\mathcal N(a; \mu, \sigma^2), \qquad
              \rho = \operatorname{sigmoid}(\text{logits}).

    ``log_prob`` is with respect to an atom at zero plus Lebesgue measure: :math:`\log(1-\rho)` at exactly zero, else
    :math:`\log \rho` plus the normal log-density. A draw is a straight-through gate times a normal draw.

    >>> link = SpikeSlab(torch.tensor(0.0), torch.tensor(2.0), torch.tensor(0.5))
    >>> link.mean.item(), link.variance.item()
    (1.0, 1.125)
    >>> 0.3 < (link.sample((1000,)) == 0).float().mean().item() < 0.7
    True

    :param logits: log-odds that the link is present.
    :param loc: mean of the weight of a present link.
    :param scale: its standard deviation.
    :param temperature: of the gate's relaxed gradient.
    :param validate_args: whether to check arguments and values.
    """

    arg_constraints = {"logits": constraints.real, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        logits: Tensor | float,
        loc: Tensor | float,
        scale: Tensor | float,
        *,
        temperature: float = 0.5,
        validate_args: bool | None = None,
    ) -> None:
        self.logits, self.loc, self.scale = torch.distributions.utils.broadcast_all(logits, loc, scale)
        if wants_validation(validate_args):
            check_positive("temperature", torch.tensor(float(temperature)))
            check_positive("scale", self.scale)
        self.temperature = float(temperature)
        super().__init__(self.logits.shape, Size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> SpikeSlab:
        new = self._get_checked_instance(SpikeSlab, _instance)
        batch_shape = Size(batch_shape)
        new.logits, new.loc, new.scale = (t.expand(batch_shape) for t in (self.logits, self.loc, self.scale))
        new.temperature = self.temperature
        new.has_rsample = self.has_rsample
        super(SpikeSlab, new).__init__(batch_shape, Size(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(Size(sample_shape))
        gate = open_gates(self.logits.expand(shape), self.temperature)
        weight = self.loc + self.scale * torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return gate * weight + 0.0  # adding zero turns -0.0 into 0.0

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        standardized = (value - self.loc) / self.scale
        slab = -0.5 * standardized**2 - self.scale.log() - 0.5 * math.log(2 * math.pi)
        return torch.where(value == 0, logsigmoid(-self.logits), logsigmoid(self.logits) + slab)

    @property
    def probs(self) -> Tensor:
        """P(the link is present)."""
        return self.logits.sigmoid()

    @property
    def mean(self) -> Tensor:
        return self.probs * self.loc

    @property
    def variance(self) -> Tensor:
        return self.probs * (self.scale**2 + (-self.logits).sigmoid() * self.loc**2)


def open_gates(logits: Tensor, temperature: float) -> Tensor:
    """Draw gates: exactly 0 or 1 forward, the relaxed gate under the same noise backward."""
    uniform = torch.rand(logits.shape, dtype=logits.dtype, device=logits.device)
    noise = uniform.log() - (-uniform).log1p()  # a logistic variable
    perturbed = logits + noise
    hard = (perturbed > 0).to(logits.dtype)
    if not torch.is_grad_enabled():
        return hard
    soft = (perturbed / temperature).sigmoid()
    return hard + (soft - soft.detach())


def _gate_kl(q_logits: Tensor, p_logits: Tensor) -> Tensor:
    open_ = q_logits.sigmoid() * (logsigmoid(q_logits) - logsigmoid(p_logits))
    return open_ + (-q_logits).sigmoid() * (logsigmoid(-q_logits) - logsigmoid(-p_logits))


@register_kl(StraightThroughBernoulli, StraightThroughBernoulli)
def _kl_gates(q: StraightThroughBernoulli, p: StraightThroughBernoulli) -> Tensor:
    return _gate_kl(q.logits, p.logits)


@register_kl(SpikeSlab, SpikeSlab)
def _kl_spike_slab(q: SpikeSlab, p: SpikeSlab) -> Tensor:
    ratio = (q.scale / p.scale) ** 2
    slab = 0.5 * (ratio + ((q.loc - p.loc) / p.scale) ** 2 - 1 - ratio.log())
    return _gate_kl(q.logits, p.logits) + q.probs * slab
