"""The dense evidence with forbidden links, against multivariate normal densities, enumeration and the plain one."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior
from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.collapsed.dense_cut_terms import CutDenseTerms
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.order_terms import make_terms
from pyro_pivid.collapsed.order_windows import Windows
from pyro_pivid.collapsed.sources import ExactSource
from pyro_pivid.regimes import sum_statistics

NOISES: list[float | str] = [0.7, "equal", "per-node"]
ORDERS = torch.tensor(list(permutations(range(4))))


def make_data(num_rows: int = 12) -> torch.Tensor:
    values = torch.randn(num_rows, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    values[:, 2] += 0.8 * values[:, 0] - 0.5 * values[:, 3]
    return values


def make_evidence(noise: float | str, pairs: list[tuple[int, int]], *, set_by_hand: bool = False) -> CutDenseEvidence:
    forbidden = torch.zeros(4, 4, dtype=torch.bool)
    for pair in pairs:
        forbidden[pair] = True
    interventions = None
    if set_by_hand:
        interventions = torch.rand(12, 4, generator=torch.Generator().manual_seed(6)) < 0.3
    return CutDenseEvidence(sum_statistics(make_data(), interventions=interventions), noise=noise, forbidden=forbidden)


PAIRS = [(0, 2), (3, 1), (1, 3)]


@pytest.mark.parametrize("noise", NOISES)
def test_without_forbidden_links_it_is_the_plain_evidence(noise: float | str) -> None:
    plain, cut = DenseEvidence.from_data(make_data(), noise=noise), make_evidence(noise, [])
    torch.testing.assert_close(cut.log_evidence(ORDERS), plain.log_evidence(ORDERS))
    for mine, its in zip(cut.edge_moments(ORDERS), plain.edge_moments(ORDERS), strict=True):
        torch.testing.assert_close(mine, its)
    probs = [evidence.edge_probs_given_order(ORDERS, threshold=0.3) for evidence in (cut, plain)]
    torch.testing.assert_close(*probs)


def test_known_noise_against_multivariate_normal_densities() -> None:
    evidence, values = make_evidence(0.7, PAIRS), make_data()
    for order in ORDERS[::5].tolist():
        total = 0.0
        for place, node in enumerate(order):
            parents = [i for i in order[:place] if (i, node) not in PAIRS]
            covariance = 0.49 * torch.eye(12).double() + values[:, parents] @ values[:, parents].mT
            law = torch.distributions.MultivariateNormal(torch.zeros(12).double(), covariance)
            total += law.log_prob(values[:, node]).item()
        assert evidence.log_evidence(torch.tensor(order)).item() == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("set_by_hand", [False, True])
@pytest.mark.parametrize("noise", NOISES)
def test_exact_posterior_against_enumeration(noise: float | str, set_by_hand: bool) -> None:
    evidence = make_evidence(noise, PAIRS, set_by_hand=set_by_hand)
    exact = ExactPosterior(evidence)
    probs = evidence.log_evidence(ORDERS).softmax(0)
    torch.testing.assert_close(exact.log_prob(ORDERS).exp(), probs, atol=1e-8, rtol=0)
    for threshold in (0.0, 0.3):
        edges = torch.einsum("s,sij->ij", probs, evidence.edge_probs_given_order(ORDERS, threshold=threshold))
        torch.testing.assert_close(exact.edge_probs(threshold=threshold), edges, atol=1e-6, rtol=0)
        assert all(exact.edge_probs(threshold=threshold)[pair] == 0 for pair in PAIRS)


@pytest.mark.parametrize("noise", NOISES)
def test_draws_have_the_moments_and_no_forbidden_link(noise: float | str) -> None:
    # 20,000 draws: a standard error of at most 0.007 for a share, 0.03 is four of them; 12 pairs, one in 2,000 runs.
    evidence = make_evidence(noise, PAIRS)
    order = torch.tensor([3, 0, 1, 2])
    edges = evidence.sample_edges(order.expand(20_000, 4), torch.Generator().manual_seed(0))
    assert all((edges[(slice(None), *pair)] == 0).all() for pair in PAIRS)
    shares = (edges.abs() > 0.3).double().mean(0)
    torch.testing.assert_close(shares, evidence.edge_probs_given_order(order, threshold=0.3), atol=0.03, rtol=0)
    torch.testing.assert_close(edges.mean(0), evidence.edge_moments(order)[0], atol=0.03, rtol=0)


@pytest.mark.parametrize("noise", [0.7, "per-node"])
def test_terms_are_differences_of_the_evidence(noise: float | str) -> None:
    evidence = make_evidence(noise, PAIRS, set_by_hand=True)
    terms = CutDenseTerms(evidence)
    order = torch.tensor([[3, 0, 1, 2], [2, 1, 0, 3]])
    for place in range(3):
        swapped = order.clone()
        swapped[:, [place, place + 1]] = order[:, [place + 1, place]]
        gain = evidence.log_evidence(swapped) - evidence.log_evidence(order)
        torch.testing.assert_close(terms.swap_gains(order, torch.Generator())[:, place], gain)
    rest = torch.tensor([[3, 0, 2]])
    placed = torch.tensor([[1, 3, 0, 2], [3, 1, 0, 2], [3, 0, 1, 2], [3, 0, 2, 1]])
    scores = terms.insertion_scores(rest, torch.tensor([1]))[0]
    values = evidence.log_evidence(placed)
    torch.testing.assert_close(scores - scores[0], values - values[0])
    windows = Windows(order, 1, 3)
    nodes = windows.nodes
    inside = terms.window_scores(windows, torch.Generator())(nodes[:, :-1], nodes[:, -1])
    for place in range(3):
        moved = torch.cat([nodes[:, :place], nodes[:, -1:], nodes[:, place:-1]], -1)
        gain = evidence.log_evidence(windows.put(moved)) - evidence.log_evidence(order)
        torch.testing.assert_close(inside[:, place] - inside[:, -1], gain)


@pytest.mark.parametrize("set_by_hand", [False, True])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("pairs", [PAIRS, []], ids=["cut", "plain"])
def test_evidence_and_single_swaps_are_those_of_full_evaluations(
    noise: float | str, set_by_hand: bool, pairs: list[tuple[int, int]]
) -> None:
    evidence: DenseEvidence = make_evidence(noise, pairs, set_by_hand=set_by_hand)
    if not pairs:
        evidence = DenseEvidence(evidence.statistics, noise=noise)
    log_evidence, gains = make_terms(evidence).evidence_and_gains(ORDERS)
    torch.testing.assert_close(log_evidence, evidence.log_evidence(ORDERS), atol=1e-8, rtol=0)
    for place in range(3):
        swapped = ORDERS.clone()
        swapped[:, [place, place + 1]] = ORDERS[:, [place + 1, place]]
        torch.testing.assert_close(gains[:, place], evidence.log_evidence(swapped) - log_evidence, atol=1e-8, rtol=0)


def test_windows_with_shared_noise_keep_to_the_posterior() -> None:
    # 4,000 exact draws, moved: a standard error of at most 0.008 for each of 24 probabilities, 0.04 is five of them.
    evidence, generator = make_evidence("equal", PAIRS), torch.Generator().manual_seed(1)
    probs = evidence.log_evidence(ORDERS).softmax(0)
    starts = ORDERS[torch.multinomial(probs, 4000, replacement=True, generator=generator)]
    moved = OrderChains(evidence).insert_in_windows(Windows(starts, 0, 3), 2, generator)
    assert (moved != starts).any(-1).double().mean() > 0.1
    shares = (moved.unsqueeze(1) == ORDERS).all(-1).double().mean(0)
    torch.testing.assert_close(shares, probs, atol=0.04, rtol=0)


def test_chains_with_shared_noise_keep_to_the_posterior() -> None:
    # 4,000 chains: a standard error of at most 0.008 for each of 24 probabilities, 0.04 is five of them.
    evidence = make_evidence("equal", PAIRS)
    start = torch.arange(4).expand(4000, 4)
    last = OrderChains(evidence).run(start, torch.Generator().manual_seed(1), num_warmup=19, num_sweeps=1)[:, 0]
    shares = (last.unsqueeze(1) == ORDERS).all(-1).double().mean(0)
    torch.testing.assert_close(shares, evidence.log_evidence(ORDERS).softmax(0), atol=0.04, rtol=0)


def test_required_links_are_read_as_present_however_small() -> None:
    required = torch.zeros(4, 4, dtype=torch.bool)
    required[1, 0] = True
    evidence = CutDenseEvidence(
        sum_statistics(make_data()), noise=0.7, forbidden=torch.zeros_like(required), required=required
    )
    source = ExactSource(ExactPosterior(evidence, before=required), link_threshold=5.0)
    torch.manual_seed(0)
    assert (source.draw(100)[1][:, 1, 0] != 0).all()
    assert source.edge_probs()[1, 0] == 1
    assert (source.edge_probs()[~required] < 0.5).all()


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="booleans of shape"):
        CutDenseEvidence(sum_statistics(make_data()), noise=1.0, forbidden=torch.zeros(3, 3, dtype=torch.bool))
