"""The picture of knowledge: each cell has the colour of what is known of its edge, and tiers stand together."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pyro_pivid.knowledge import Knowledge
from pyro_pivid.knowledge.picture import _FOLLOWS
from pyro_pivid.plots._style import BLUE, ORANGE

KNOWLEDGE = Knowledge(
    required=["age->dose"],
    forbidden=["dose->weight"],
    tiers=[["age"], ["weight", "dose"]],
    link_probs={"age->weight": 0.3},
)


def cells(ax):
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [label.get_text() for label in ax.get_xticklabels()]
    colors = np.asarray(ax.images[0].get_array())
    return {(a, b): colors[i, j] for i, a in enumerate(names) for j, b in enumerate(names)}, names


def test_colours_say_what_is_known():
    ax = KNOWLEDGE.plot(names=["mood", "dose", "weight", "age"]).axes[0]
    color_of, names = cells(ax)
    assert names[0] == "age"
    assert set(names[1:3]) == {"dose", "weight"}
    assert names[3] == "mood"
    np.testing.assert_allclose(color_of["age", "dose"], to_rgb(BLUE))
    np.testing.assert_allclose(color_of["dose", "weight"], to_rgb(ORANGE))
    for edge in (("dose", "age"), ("weight", "age"), ("age", "age")):
        np.testing.assert_allclose(color_of[edge], to_rgb(_FOLLOWS))
    for edge in (("weight", "dose"), ("mood", "age"), ("age", "mood")):
        np.testing.assert_allclose(color_of[edge], (1, 1, 1))
    texts = [text.get_text() for text in ax.texts]
    assert sorted(texts) == sorted(["1", "0", ".3", "tier 1", "tier 2", "no tier"])
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["required", "forbidden", "cannot be, given the rest", "prior probability", "free"]


def test_names_come_from_the_knowledge_or_are_indices():
    assert cells(KNOWLEDGE.plot().axes[0])[1][0] == "age"
    assert cells(Knowledge(required=[(0, 2)]).plot().axes[0])[1] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="mixes names and indices"):
        Knowledge(required=[(0, "b")]).plot()
    with pytest.raises(ValueError, match="nothing is known"):
        Knowledge().plot()


def test_it_draws_into_given_axes():
    figure = Figure()
    ax = figure.subplots()
    assert KNOWLEDGE.plot(ax) is figure
    assert len(ax.images) == 1


def test_everything_is_inside_the_page():
    names = [f"a_long_name_{k}" for k in range(25)]
    figure = Knowledge(tiers=[names[:10], names[10:20]], required=[(0, 12)], forbidden=[(1, 2)]).plot(names=names)
    FigureCanvasAgg(figure).draw()
    ax = figure.axes[0]
    page = figure.bbox
    for text in (*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.get_legend()):
        box = text.get_window_extent()
        assert box.x0 >= page.x0
        assert box.x1 <= page.x1
        assert box.y0 >= page.y0
        assert box.y1 <= page.y1
