"""Graphs and matrices: what is drawn says what the posterior says, and no name is cut off or covered."""

import itertools
import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch

from pyro_pivid import PIVID, Posterior, plots
from pyro_pivid.datasets import random_dag, simulate
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.ops.permutation import all_orders
from pyro_pivid.plots._style import BLUE, ORANGE
from pyro_pivid.plots.graph import Sheet
from pyro_pivid.plots.layout import causal_layers, layered_layout
from pyro_pivid.plots.matrices import mean_positions, position_probs
from pyro_pivid.posterior import VariationalSource


def random_posterior(num_nodes, *, num_draws=30, seed=0, names=None):
    """Draws around one random DAG: each of its links is there in about 8 of 10; some weights are negative."""
    generator = torch.Generator().manual_seed(seed)
    links = random_dag("er", num_nodes=num_nodes, num_edges=int(1.4 * num_nodes), seed=seed).bool()
    keep = torch.rand(num_draws, num_nodes, num_nodes, generator=generator) < 0.8
    weights = torch.randn(num_nodes, num_nodes, generator=generator)
    return Posterior.from_draws(None, torch.where(keep & links, weights, 0.0), names=names)


def arrows(ax):
    return {patch.get_gid(): patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)}


def boxes_of_texts(figure):
    figure.canvas.draw()
    return [text.get_window_extent() for text in figure.axes[0].texts]


# ---------------------------------------------------------------- graph


def test_arrows_have_the_probability_as_opacity_and_the_sign_as_colour():
    edges = torch.zeros(4, 3, 3)
    edges[:, 0, 1] = 2.0
    edges[:3, 1, 2] = -1.0
    edges[3, 2, 1] = 1.0
    posterior = Posterior.from_draws(None, edges, names=["a", "b", "c"])
    drawn = arrows(plots.plot_graph(posterior).axes[0])
    assert {gid: patch.get_alpha() for gid, patch in drawn.items()} == {"0->1": 1.0, "1->2": 0.75, "2->1": 0.25}
    assert {gid: to_hex(patch.get_edgecolor()) for gid, patch in drawn.items()} == {
        "0->1": BLUE,
        "1->2": ORANGE,
        "2->1": BLUE,
    }
    assert drawn["2->1"].get_linestyle() == "--"  # against the layers
    assert drawn["1->2"].get_linestyle() == "-"
    assert set(arrows(plots.plot_graph(posterior, min_prob=0.3).axes[0])) == {"0->1", "1->2"}


@pytest.mark.parametrize("num_nodes", [7, 16, 40])
def test_names_are_all_there_inside_the_picture_and_apart(num_nodes):
    names = [f"a_rather_long_name_{k}" if k % 3 else f"n{k}" for k in range(num_nodes)]
    figure = plots.plot_graph(random_posterior(num_nodes, names=names))
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(shown) == sorted(names)
    boxes = boxes_of_texts(figure)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    page = figure.bbox
    assert all(box.x0 >= page.x0 and box.x1 <= page.x1 and box.y0 >= page.y0 and box.y1 <= page.y1 for box in boxes)
    assert min(text.get_size() for text in figure.axes[0].texts) >= 8
    legend = figure.axes[0].get_legend().get_window_extent()
    assert legend.x0 >= page.x0
    assert legend.x1 <= page.x1
    assert not any(box.overlaps(legend) for box in boxes)


@pytest.mark.parametrize("num_nodes", [7, 16, 40])
def test_links_run_over_no_other_node(num_nodes):
    links = random_dag("er", num_nodes=num_nodes, num_edges=int(1.4 * num_nodes), seed=num_nodes)
    pairs = [tuple(pair) for pair in links.nonzero().tolist()]
    back = [(j, i) for i, j in pairs[::5]]
    layout = layered_layout(num_nodes, pairs, pairs + back)
    sheet = Sheet(layout, [f"node {k}" for k in range(num_nodes)], 9.0)
    for link in pairs + back:
        line = sheet._path(link).to_polygons(closed_only=False)[0]
        for node in set(range(num_nodes)) - set(link):
            x, y = sheet.place(node)
            inside = (np.abs(line[:, 0] - x) < sheet.widths[node] / 2) & (np.abs(line[:, 1] - y) < 0.13)
            assert not inside.any(), (link, node)


@pytest.mark.parametrize("seed", range(5))
def test_layers_point_every_probable_link_to_the_right(seed):
    links = random_dag("er", num_nodes=20, num_edges=30, seed=seed)
    pairs = [tuple(pair) for pair in links.nonzero().tolist()]
    layers = causal_layers(20, pairs)
    assert all(layers[i] < layers[j] for i, j in pairs)
    assert min(layers) == 0
    with pytest.raises(ValueError, match="acyclic"):
        causal_layers(2, [(0, 1), (1, 0)])


def test_a_tree_is_drawn_without_crossings():
    pairs = [(0, 4), (0, 1), (1, 6), (4, 3), (4, 2), (1, 5)]  # numbered so that index order would cross
    layout = layered_layout(7, pairs, pairs)
    spans = [(layout.rows[i], layout.rows[j], layout.layers[i]) for i, j in pairs]
    for (a, b, layer), (c, d, other) in itertools.combinations(spans, 2):
        assert layer != other or (a - c) * (b - d) >= 0


def test_nodes_without_links_stand_below_in_grey():
    edges = torch.zeros(2, 4, 4)
    edges[:, 0, 1] = 1.0
    ax = plots.plot_graph(Posterior.from_draws(None, edges, names=list("abcd"))).axes[0]
    height = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert min(height["c"], height["d"]) > max(height["a"], height["b"])  # the axis points down
    color = {text.get_text(): text.get_color() for text in ax.texts}
    assert color["c"] == color["d"] != color["a"]
    nothing = plots.plot_graph(Posterior.from_draws(None, torch.zeros(1, 5, 5)))
    assert len(nothing.axes[0].texts) == 5
    assert not arrows(nothing.axes[0])


def legend_of(posterior, **options):
    legend = plots.plot_graph(posterior, **options).axes[0].get_legend()
    return [text.get_text() for text in legend.get_texts()], legend.get_title().get_text()


def test_the_legend_names_every_colour_and_the_links_left_out():
    edges = torch.zeros(4, 3, 3)
    edges[:, 0, 1] = 2.0
    edges[:3, 1, 2] = -1.0
    shades = ["P = 0.25", "P = 0.5", "P = 1"]
    entries, title = legend_of(Posterior.from_draws(None, edges))
    assert entries == [*shades, "positive weight", "negative weight"]
    assert "P ≤ 0.1 are left out" in title
    assert legend_of(Posterior.from_draws(None, edges), min_prob=0.8)[0] == [*shades, "positive weight"]
    assert legend_of(Posterior.from_draws(None, edges, linear=False))[0] == shades  # sizes without a sign


def test_a_graph_shrinks_to_given_axes():
    figure = matplotlib.figure.Figure(figsize=(3, 2))
    ax = figure.add_subplot()
    assert plots.plot_graph(random_posterior(16), ax=ax) is figure
    boxes = boxes_of_texts(figure)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_long_names_are_shortened_and_dollars_are_no_formula():
    names = ["a" * 60, "$price$", "c"]
    edges = torch.zeros(1, 3, 3)
    edges[0, 0, 1] = edges[0, 1, 2] = 1.0
    figure = plots.plot_graph(Posterior.from_draws(None, edges, names=names))
    assert {len(text.get_text()) for text in figure.axes[0].texts} == {24, len(r"\$price\$"), 1}
    boxes_of_texts(figure)  # a formula that is none would fail here


# ---------------------------------------------------------------- matrices


def test_uncertainty_shows_truth_probabilities_and_entropy():
    posterior = random_posterior(6)
    truth = (torch.rand(6, 6) < 0.3) & ~torch.eye(6, dtype=torch.bool)
    figure = plots.plot_uncertainty(posterior, truth)
    order = np.argsort(mean_positions(posterior), kind="stable")
    probs = posterior.edge_probs().to_numpy()
    safe = probs.clip(1e-300, 1 - 1e-16)
    entropy = np.where((probs > 0) & (probs < 1), -safe * np.log2(safe) - (1 - safe) * np.log2(1 - safe), 0)
    for ax, expected in zip(figure.axes, (truth.numpy(), probs, entropy), strict=False):
        assert np.allclose(ax.images[0].get_array(), expected[np.ix_(order, order)], atol=1e-12)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [posterior.names[node] for node in order]
    assert len(plots.plot_uncertainty(posterior).axes) == 4  # two pictures and their bars


def test_a_truth_by_name_is_put_in_order():
    posterior = Posterior.from_draws(None, torch.zeros(1, 2, 2), names=["b", "a"])
    truth = pd.DataFrame([[0, 1], [0, 0]], index=["a", "b"], columns=["a", "b"])  # a → b
    (x,), (y,) = np.nonzero(plots.plot_uncertainty(posterior, truth).axes[0].images[0].get_array())
    order = [label.get_text() for label in plots.plot_uncertainty(posterior, truth).axes[0].get_yticklabels()]
    assert (order[x], order[y]) == ("a", "b")
    with pytest.raises(ValueError, match="Expected a DataFrame with rows and columns"):
        plots.plot_uncertainty(posterior, truth.rename(columns={"a": "z"}))


def plackett_luce_posterior():
    scores = torch.tensor([0.5, -1.0, 1.5, 0.0])
    links = torch.distributions.Normal(torch.zeros(4, 4), 1.0)
    return Posterior(VariationalSource(scores, links, link_threshold=0.5), names=list("abcd")), scores


def test_positions_are_those_of_an_enumeration():
    posterior, scores = plackett_luce_posterior()
    orders = all_orders(4)
    probs = PlackettLuce(scores).log_prob(orders).exp()
    expected = np.zeros((4, 4))
    for order, prob in zip(orders.tolist(), probs.tolist(), strict=True):
        for position, node in enumerate(order):
            expected[node, position] += prob
    found = position_probs(posterior, num_samples=100_000, seed=1)
    # 100,000 draws: a standard error of at most 0.0016, so 0.01 is six of them: fails by chance once in 10^7.
    assert np.abs(found - expected).max() < 0.01
    assert found.sum(0) == pytest.approx(1)
    assert found.sum(1) == pytest.approx(1)


def test_the_order_picture_holds_the_positions():
    posterior, _ = plackett_luce_posterior()
    ax = plots.plot_order(posterior).axes[0]
    rows = [label.get_text() for label in ax.get_yticklabels()]
    assert rows == ["c", "a", "d", "b"]  # by score
    places = [posterior.names.index(name) for name in rows]
    assert np.allclose(ax.images[0].get_array(), position_probs(posterior)[places])


# ---------------------------------------------------------------- the package


def test_a_picture_by_its_name():
    data, truth = simulate(num_nodes=4, num_edges=4, num_rows=100, weights="uniform", seed=2)
    posterior = PIVID(noise="equal").fit(data, progress_bar=False)
    options = {
        "uncertainty": {"truth": truth},
        "reliability": {"truth": truth},
        "effect": {"cause": "X1", "outcome": "X2"},
        "elbo": None,
    }
    for kind in plots.PICTURES:
        if options.get(kind, {}) is not None:
            assert plots.plot(posterior, kind, **options.get(kind, {})).axes, kind
    with pytest.raises(ValueError, match="Expected `kind` to be one of .*'graph'.*, but got 'pie'"):
        plots.plot(posterior, "pie")
    with pytest.raises(ValueError, match="Expected the names of `cause` and `outcome`"):
        plots.plot(posterior, "effect")


def test_a_notebook_gets_the_table_and_the_picture():
    posterior = random_posterior(5, names=["<a>", "b", "c", "d", "e"])
    page = plots.posterior_html(posterior)
    first = posterior.edge_table().iloc[0]
    assert f"{first['probability']:.3g}" in page
    assert "data:image/png;base64,iVBOR" in page
    assert "<a>" not in page
    assert plots.plot_graph(posterior)._repr_png_().startswith(b"\x89PNG")


def test_no_picture_opens_a_window():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()  # of other tests of the same process
    plots.plot_graph(random_posterior(4))
    plots.plot_order(random_posterior(4))
    assert plt.get_fignums() == before


def test_without_matplotlib_the_error_says_what_to_install():
    script = """
import sys
sys.modules["matplotlib"] = None
import pyro_pivid
try:
    import pyro_pivid.plots
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "Pictures need matplotlib. Install it with: pip install pyro-pivid[plot]", done.stderr
