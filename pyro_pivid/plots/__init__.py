"""Pictures of a posterior over DAGs; matplotlib, an extra, is imported nowhere else.

Every function returns a matplotlib ``Figure``, which ``.savefig("name.png")`` writes and a notebook shows; nothing
opens a window. Those of a single picture draw into given axes with ``ax=``.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("Pictures need matplotlib. Install it with: pip install pyro-pivid[plot]") from error

from pyro_pivid.plots.choice import PICTURES, plot
from pyro_pivid.plots.curves import plot_elbo, plot_reliability
from pyro_pivid.plots.effects import plot_effect
from pyro_pivid.plots.graph import plot_graph
from pyro_pivid.plots.matrices import plot_order, plot_uncertainty
from pyro_pivid.plots.notebook import posterior_html
from pyro_pivid.plots.samples import plot_samples

__all__ = [
    "PICTURES",
    "plot",
    "plot_effect",
    "plot_elbo",
    "plot_graph",
    "plot_order",
    "plot_reliability",
    "plot_samples",
    "plot_uncertainty",
    "posterior_html",
]
