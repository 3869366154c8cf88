"""Curves, sheets of draws and effects: what is drawn says what the posterior says, and nothing covers a number."""

import itertools
import sys

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from pyro_pivid import Posterior, plots
from pyro_pivid.inference import FitResult
from pyro_pivid.metrics import ece
from pyro_pivid.plots._style import ORANGE
from pyro_pivid.plots.curves import Reliability
from pyro_pivid.plots.matrices import mean_positions
from pyro_pivid.posterior import Effect
from tests.test_plots import arrows, random_posterior


def test_reliability_bins_add_up_to_the_calibration_error():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(8, 8, generator=generator).fill_diagonal_(0)
    truth = (torch.rand(8, 8, generator=generator) < 0.3).fill_diagonal_(False)
    bins = Reliability.of(probs, truth)
    assert bins.counts.sum() == 56
    error = (bins.counts * np.abs(bins.mean_prob - bins.frequency)).sum() / 56
    assert error == pytest.approx(ece(probs, truth).item())
    ax = plots.plot_reliability(probs, truth).axes[0]
    points = ax.collections[1].get_offsets()
    assert np.allclose(points, np.stack([bins.mean_prob, bins.frequency], -1))
    assert [text.get_text() for text in ax.texts[:-1]] == [str(count) for count in bins.counts]
    assert ax.get_title() == f"expected calibration error {error:.3f}"


@pytest.mark.parametrize("num_bins", [10, 20])
def test_the_counts_cover_nothing(num_bins):
    generator = torch.Generator().manual_seed(0)
    probs, truth = torch.rand(400, 8, 8, generator=generator), torch.ones(8, 8).triu(1)
    figure = plots.plot_reliability(probs, truth, num_bins=num_bins)
    (ax,) = figure.axes
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    top = ax.transData.transform((0, 1.05))[1]  # of the highest point, its size included
    assert min(box.y0 for box in boxes) > top
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert max(box.y1 for box in boxes) < ax.title.get_window_extent().y0


def test_reliability_pools_several_fits():
    truth = torch.tensor([[0, 1], [0, 0]])
    probs = torch.tensor([[[0.0, 0.9], [0.1, 0.0]], [[0.0, 0.7], [0.1, 0.0]]])
    bins = Reliability.of(probs, truth)
    assert (bins.counts.tolist(), bins.frequency.tolist()) == ([2, 1, 1], [0.0, 1.0, 1.0])


def test_elbo_lines_are_the_negative_losses():
    losses = [list(np.linspace(50, 10, 60)), list(np.linspace(70, 12, 60))]
    posterior = Posterior.from_draws(None, torch.zeros(1, 2, 2), info={"restart_losses": losses})
    lines = plots.plot_elbo(posterior).axes[0].lines
    assert [(-line.get_ydata()).tolist() for line in lines[::2]] == losses
    assert len(plots.plot_elbo(Posterior.from_draws(None, torch.zeros(1, 2, 2), info={"losses": [3.0, 1.0]})).axes) == 1
    with pytest.raises(ValueError, match="but draws inference has none"):
        plots.plot_elbo(Posterior.from_draws(None, torch.zeros(1, 2, 2)))


# ---------------------------------------------------------------- samples and effects


def test_sample_graphs_tell_usual_links_from_rare_and_missing_ones():
    edges = torch.zeros(10, 3, 3)
    edges[:9, 0, 1] = 1.0
    edges[9, 1, 0] = 1.0
    posterior = Posterior.from_draws(None, edges, names=list("abc"))
    draws = posterior.sample(12, seed=1).edges != 0
    figure = plots.plot_samples(posterior, num_samples=12, seed=1)
    assert len(figure.axes) == 12
    assert draws[:, 1, 0].any()  # the sheet has both kinds
    for ax, draw in zip(figure.axes, draws, strict=True):
        colors = {gid: to_hex(patch.get_edgecolor()) for gid, patch in arrows(ax).items()}
        assert colors == ({"0->1": "#222222"} if draw[0, 1] else {"0->1": "#9ecae9", "1->0": ORANGE})


def test_sample_matrices_tell_the_same():
    posterior = random_posterior(20)
    figure = plots.plot_samples(posterior, num_samples=4, seed=1)
    order = np.argsort(mean_positions(posterior), kind="stable")
    probable = posterior.edge_probs().to_numpy() > 0.5
    for ax, draw in zip(figure.axes, (posterior.sample(4, seed=1).edges != 0).numpy(), strict=True):
        expected = np.select([draw & probable, draw, probable], [1, 2, 3], 0)[np.ix_(order, order)]
        assert np.array_equal(ax.images[0].get_array(), expected)
    with pytest.raises(ValueError, match="Expected `style`"):
        plots.plot_samples(posterior, style="circle")


def test_effect_pictures_show_its_probability_and_the_draws_that_have_one():
    draws = torch.cat([torch.zeros(25), torch.linspace(1, 3, 75)])
    ax, right = plots.plot_effect(Effect("a", "b", draws, 0.25, "one more unit of 'a'")).axes
    assert ax.patches[1].get_height() == 0.75
    assert sum(patch.get_height() for patch in right.patches) == 75
    assert right.lines[1].get_xdata()[0] == pytest.approx(2.0)
    assert right.lines[0].get_xdata() == pytest.approx([1.1, 2.9])
    told = "if any: mean 2 (point), 90 % between 1.1 and 2.9 (line)"
    assert right.get_xlabel() == f"change in b for one more unit of 'a'\n{told}"
    none = plots.plot_effect([Effect("a", "b", torch.zeros(5), 1.0, "")])
    assert none.axes[1].texts[0].get_text() == "no draw has an effect"
    with pytest.raises(ValueError, match="at least one effect"):
        plots.plot_effect([])


def test_long_names_of_an_effect_stay_on_the_page():
    cause, outcome = "medication_adherence_self_reported_by_patients", "quality_of_life_index_at_the_follow_up_visit"
    figure = plots.plot_effect(Effect(cause, outcome, torch.randn(50) * 1e-5, 0.0, f"'{cause}' from -12.25 to 17.75"))
    figure.draw_without_rendering()
    for ax in figure.axes:
        for text in (ax.title, ax.xaxis.label):
            box = text.get_window_extent()
            assert figure.bbox.x0 <= box.x0, text
            assert box.x1 <= figure.bbox.x1, text
            assert figure.bbox.y0 <= box.y0, text


def test_a_fit_shows_how_it_ended_and_its_elbo(monkeypatch):
    result = FitResult([9.0] * 9 + [4.5, 3.5] + [3.0] * 9, {"a": torch.zeros(2, 3)}, seed=7, stopped_early=True)
    page = result._repr_html_()
    for name, value in {"steps": "20", "stopped early": "yes", "seed": "7", "parameters": "6"}.items():
        assert f"<th>{name}</th><td>{value}</td>" in page
    assert "<td>-3</td>" in page  # the mean over the last two steps
    assert "data:image/png;base64,iVBOR" in page
    assert "<img" not in FitResult([], {}, seed=0, stopped_early=False)._repr_html_()
    monkeypatch.setitem(sys.modules, "pyro_pivid.plots", None)  # as without matplotlib
    assert "<img" not in result._repr_html_()
    assert "<td>-3</td>" in result._repr_html_()
