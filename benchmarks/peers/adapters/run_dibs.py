"""Run DiBS with its defaults; its example's 20 particles and 2000 steps, graphs of the particles as the posterior.

DiBS's noise *variance* is 0.1 by default: the data must come in units where that holds (``data_scale``), or
``obs_noise`` be given.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
from dibs.inference import JointDiBS, MarginalDiBS
from dibs.models import BGe, DenseNonlinearGaussian, LinearGaussian
from dibs.target import make_graph_model
from exchange import Fit, serve, with_defaults

LIKELIHOODS = {"dibs-linear": LinearGaussian, "dibs-nonlinear": DenseNonlinearGaussian, "dibs-bge": BGe}
LIKELIHOOD_OPTIONS = ("obs_noise", "mean_edge", "sig_edge", "min_edge", "hidden_layers", "sig_param", "activation")


def prepare(method: str, data: np.ndarray, seed: int, options: dict[str, Any]) -> Fit:
    """Compile a loop of a few steps beforehand, so that the fit itself is timed without compilation."""
    num_nodes = data.shape[1]
    num_particles, num_steps = int(options.pop("num_particles", 20)), int(options.pop("num_steps", 2000))
    graph_prior = options.pop("graph_prior", "er")
    # Its default of 2 links a node would make all pairs of 5 nodes certain, and the log prior infinite.
    edges_per_node = options.pop("edges_per_node", 2 if num_nodes > 5 else 1)
    of_likelihood = {name: options.pop(name) for name in LIKELIHOOD_OPTIONS if name in options}
    if method == "dibs-nonlinear":
        of_likelihood.setdefault("hidden_layers", (5,))
    likelihood = LIKELIHOODS[method](n_vars=num_nodes, **of_likelihood)
    inference = MarginalDiBS if method == "dibs-bge" else JointDiBS
    learner = inference(
        x=jax.numpy.asarray(data),
        graph_model=make_graph_model(n_vars=num_nodes, graph_prior_str=graph_prior, edges_per_node=edges_per_node),
        likelihood_model=likelihood,
        **options,
    )
    chunk = max(size for size in range(1, 11) if num_steps % size == 0)
    key = jax.random.PRNGKey(seed)
    seconds: dict[str, float] = {}

    def sample(steps: int, name: str) -> np.ndarray:
        start = time.process_time()
        latents: list[Any] = []
        answer = learner.sample(
            key=key,
            n_particles=num_particles,
            steps=steps,
            callback=lambda **state: latents.append(state["zs"]),
            callback_every=chunk,
        )
        graphs = np.asarray(answer if method == "dibs-bge" else answer[0])
        seconds[name] = time.process_time() - start
        if not np.isfinite(np.asarray(latents[-1])).all():  # they would pass for empty graphs
            raise FloatingPointError("particles are not finite")
        return graphs

    sample(chunk, "with compile")
    settings = {
        "num_particles": num_particles,
        "num_steps": num_steps,
        "graph_prior": graph_prior,
        "edges_per_node": edges_per_node,
        **with_defaults(LIKELIHOODS[method], of_likelihood),
        **with_defaults(inference, options),
    }
    return Fit(
        lambda: sample(num_steps, "fit"),
        settings,
        lambda: max(0.0, seconds["with compile"] - seconds["fit"] * chunk / num_steps),
    )


if __name__ == "__main__":
    serve(prepare, packages=["dibs-lib", "jax", "jaxlib", "numpy"])
