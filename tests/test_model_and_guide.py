"""Model and guide as plain Pyro callables: shapes, priors of the user's own, handlers, minibatches, devices."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoGuideList, AutoNormal

from pyro_pivid.distributions import MaskedEdges, PlackettLuce, SpikeSlab
from pyro_pivid.edge_families import (
    GateEdges,
    LaplaceEdges,
    NormalEdges,
    SpikeSlabEdges,
    UserEdges,
    make_edge_family,
    sparse_log_odds,
)
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import FitSettings, LeaveOneOutELBO, fit
from pyro_pivid.model import DAGModel, quantize
from pyro_pivid.ops.permutation import matrix_to_order, precedence_mask
from pyro_pivid.sem import LinearSEM, NeuralSEM
from tests.fake_cuda import fake_device


def make_data(num_rows=30, num_nodes=4):
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(num_rows, num_nodes, generator=generator)
    data[:, 1] += 2 * data[:, 0]
    return data


def vectorised_traces(model, guide, data, num_particles):
    def wrap(program):
        def run(*args):
            with pyro.plate("particles", num_particles, dim=-3):
                return program(*args)

        return run

    guide_trace = poutine.trace(wrap(guide)).get_trace(data)
    model_trace = poutine.trace(poutine.replay(wrap(model), guide_trace)).get_trace(data)
    for trace in (guide_trace, model_trace):
        trace.compute_log_prob()
    return model_trace, guide_trace


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("sem", [LinearSEM("equal"), NeuralSEM("equal"), LinearSEM(1.0, noise_family="laplace")])
def test_orders_and_graphs_are_nested(sem, batch_size):
    data = make_data()
    family = GateEdges(10) if isinstance(sem, NeuralSEM) else NormalEdges()
    model = DAGModel(sem, family, num_graphs=3, batch_size=batch_size)
    model_trace, guide_trace = vectorised_traces(model, DAGGuide(model), data, 5)
    order, edges = guide_trace.nodes["order"]["value"], guide_trace.nodes["edges"]["value"]
    assert order.shape == (5, 1, 1, 4, 4)  # five orders, not fifteen
    assert edges.shape == (5, 3, 1, 4, 4)
    allowed = precedence_mask(matrix_to_order(order)).expand(5, 3, 1, 4, 4)
    assert not edges[~allowed].any()
    # Each graph counts for a third, and a minibatch for all rows.
    expected = 1 / 3 * (1 if batch_size is None else 30 / 7)
    assert model_trace.nodes["x"]["scale"] == pytest.approx(expected)
    assert model_trace.nodes["edges"]["scale"] == pytest.approx(1 / 3)
    assert model_trace.nodes["order"]["scale"] == 1


def test_full_data_through_statistics_is_the_sum_over_rows():
    data = make_data()
    through_rows = DAGModel(LinearSEM(0.7), NormalEdges(), batch_size=len(data))
    through_gram = DAGModel(LinearSEM(0.7), NormalEdges())
    assert through_gram.uses_statistics(data)
    assert not through_rows.uses_statistics(data)
    assert not through_gram.uses_statistics(data[:3])  # fewer rows than nodes: rows are cheaper
    guide_trace = poutine.trace(DAGGuide(through_gram)).get_trace(data)
    sums = []
    for model in (through_rows, through_gram):
        trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(data)
        sums.append(trace.log_prob_sum(lambda name, site: name == "x"))
    torch.testing.assert_close(sums[0], sums[1])


def test_handlers_and_condition_work():
    data = make_data()
    model = DAGModel(LinearSEM(1.0), NormalEdges())
    order = torch.eye(4)
    conditioned = pyro.condition(model, data={"order": order})
    trace = poutine.trace(poutine.scale(conditioned, scale=0.5)).get_trace(data)
    trace.compute_log_prob()
    assert torch.equal(trace.nodes["order"]["value"], order)
    torch.testing.assert_close(trace.nodes["order"]["log_prob"], torch.tensor(-0.5 * math.lgamma(5)))
    assert not trace.nodes["edges"]["value"].tril().any()


def test_own_svi_script_with_auto_guide_list():
    """A user's own noise prior beside our sites, covered by an AutoNormal in an AutoGuideList."""
    data = make_data(num_rows=200)

    def model(data):
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        order = pyro.sample("order", PlackettLuce(torch.zeros(4)).as_matrix())
        edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), order))
        with pyro.plate("data", len(data), dim=-1):
            mean = (
                (data.unsqueeze(-2) @ edges.unsqueeze(-3)).squeeze(-2) if edges.dim() == 2 else data @ edges.squeeze(-3)
            )
            pyro.sample("x", dist.Normal(mean, scale.unsqueeze(-1)).to_event(1), obs=data)

    ours = DAGModel(LinearSEM(1.0), NormalEdges())

    def order_and_edges(data):
        order = pyro.sample("order", DAGGuide(ours).order_law(data))
        pyro.sample("edges", MaskedEdges(NormalEdges().posterior(data), order))

    guide = AutoGuideList(model)
    guide.append(order_and_edges)
    guide.append(AutoNormal(poutine.block(model, hide=["order", "edges"])))
    svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.05}), LeaveOneOutELBO(16, max_plate_nesting=1))
    losses = [svi.step(data) for _ in range(150)]
    assert losses[-1] < losses[0]
    assert abs(guide[1].median(data)["scale"].item() - 1) < 0.2  # the noise was simulated with scale one


def test_plain_trace_elbo_runs_on_model_and_guide():
    data = make_data()
    model = DAGModel(LinearSEM("per-node"), NormalEdges(), num_graphs=2)
    guide = DAGGuide(model, order_gradient="pathwise")
    loss = Trace_ELBO(4, vectorize_particles=True, max_plate_nesting=2)
    svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.02}), loss)
    losses = [svi.step(data) for _ in range(100)]
    assert sum(losses[-10:]) < sum(losses[:10])


def quick_fit(model, data, num_steps=400, **options):
    settings = FitSettings(num_steps=num_steps, progress_bar=False, learning_rate=0.05)
    loss = LeaveOneOutELBO(32, max_plate_nesting=2)
    return fit(model, DAGGuide(model), data, loss=loss, settings=settings, **options)


def test_laplace_prior_is_in_the_loss_and_fits():
    """The divergence of normal links from Laplace ones against draws, and a fit that finds the one strong link."""
    data = make_data(num_rows=400)
    q, p = NormalEdges().posterior(data), LaplaceEdges(0.5).prior(data)
    draws = q.sample((100_000,))
    difference = (q.log_prob(draws) - p.log_prob(draws)).detach()
    error = (difference.mean(0) - torch.distributions.kl_divergence(q, p)).abs()
    assert (error < 5 * difference.std(0) / 100_000**0.5).all()  # fails once in 1e5 seeds
    pyro.clear_param_store()
    fitted = quick_fit(DAGModel(LinearSEM(1.0), LaplaceEdges(0.5)), data, num_steps=200).params["guide.edge_loc"]
    assert abs(fitted[0, 1] - 2) < 0.15
    assert fitted[2:, :2].abs().max() < 0.3


def test_horseshoe_scales_are_fitted_by_an_autoguide():
    data = make_data(num_rows=400)

    def horseshoe(num_nodes):
        overall = pyro.sample("overall", dist.HalfCauchy(torch.tensor(0.1)))
        local = pyro.sample("local", dist.HalfCauchy(torch.ones(num_nodes, num_nodes)).to_event(2))
        return dist.Normal(torch.zeros(num_nodes, num_nodes), overall[..., None, None] * local)

    model = DAGModel(LinearSEM(1.0), UserEdges(horseshoe))
    result = quick_fit(model, data, num_steps=400)
    start = quick_fit(model, data, num_steps=1)
    for name in ("AutoNormal.locs.overall", "AutoNormal.locs.local"):
        assert (result.params[name] - start.params[name]).abs().max() > 0.3
    local = result.params["AutoNormal.locs.local"]
    present = (
        local[0, 1] if result.params["guide.order_scores"][0] > result.params["guide.order_scores"][1] else local[1, 0]
    )
    assert present > local.flatten().median()  # the one strong link needs a wide local scale


def test_latent_mean_of_the_links_has_its_known_posterior():
    """All links have weight near one and the prior N(mean, 0.1²): the guide's mean and scale are conjugate updates."""
    torch.manual_seed(0)
    noise = torch.randn(4000, 3)
    data = torch.zeros(4000, 3)
    for node in range(3):
        data[:, node] = data[:, :node].sum(-1) + noise[:, node]

    def links(num_nodes):
        mean = pyro.sample("mean", dist.Normal(torch.tensor(0.0), 10.0))
        return dist.Normal(mean[..., None, None].expand(*mean.shape, num_nodes, num_nodes), 0.1)

    result = quick_fit(DAGModel(LinearSEM(1.0), UserEdges(links)), data, num_steps=700)
    precision = 3 / 0.1**2 + 1 / 10**2
    fitted = result.params["guide.edge_loc"][torch.ones(3, 3).triu(1).bool()].mean()
    assert abs(result.params["AutoNormal.locs.mean"] - fitted) < 0.02
    assert abs(fitted - 1) < 0.05
    assert result.params["AutoNormal.scales.mean"].item() == pytest.approx(precision**-0.5, rel=0.1)


@pytest.mark.parametrize("as_function", [False, True])
def test_informative_order_scores_decide_where_data_do_not(as_function):
    torch.manual_seed(2)
    data = torch.randn(100, 2)  # independent columns: nothing in them tells a direction
    scores = torch.tensor([-3.0, 3.0])

    def prior(num_nodes):
        shift = pyro.sample("shift", dist.Normal(torch.zeros(num_nodes), 0.1).to_event(1))
        return PlackettLuce(scores + shift)

    model = DAGModel(LinearSEM("per-node"), NormalEdges(), order_prior=prior if as_function else scores)
    fitted = quick_fit(model, data, num_steps=200).params["guide.order_scores"]
    flat = quick_fit(DAGModel(LinearSEM("per-node"), NormalEdges()), data, num_steps=200).params["guide.order_scores"]
    assert fitted[1] - fitted[0] > 2
    assert abs(flat[1] - flat[0]) < 2


def test_order_priors_follow_the_dtype_of_the_data():
    data = make_data().float()
    for prior in (
        torch.zeros(4, dtype=torch.float64),
        PlackettLuce(torch.zeros(4, dtype=torch.float64)),
        lambda n: torch.zeros(n),
    ):
        law = DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=prior).order_law(data)
        assert law.logits.dtype == torch.float32
    matrix, logits = torch.eye(4, dtype=torch.float32), torch.zeros(4, dtype=torch.float64)
    assert PlackettLuce(logits).as_matrix().log_prob(matrix) == pytest.approx(-math.lgamma(5))


def test_order_scores_may_be_lists_and_arrays():
    data = make_data()
    for prior in ([3, 2, 1, 0], torch.tensor([3, 2, 1, 0]), torch.tensor([3.0, 2, 1, 0]).numpy()):
        law = DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=prior).order_law(data)
        assert law.mode.tolist() == [0, 1, 2, 3]


def test_other_data_are_scored_by_their_own_rows():
    data = make_data()
    model = DAGModel(LinearSEM(0.7), NormalEdges())
    law = poutine.trace(model).get_trace(data).nodes["x"]["fn"]
    other = 3 * data
    rows = law.sem.log_prob(other, law.edges, law.parameters).sum(-1)
    torch.testing.assert_close(law.log_prob(other), rows)
    before = law.log_prob(data)
    data.mul_(2)  # in place: the statistics are of the old values
    changed = poutine.trace(model).get_trace(data).nodes["x"]["fn"]
    assert changed.statistics is not law.statistics
    assert before.shape == (1, 1)


def test_a_transposed_view_of_the_edges_is_not_taken_for_them():
    data = make_data()
    linear = LinearSEM(1.0)
    model = DAGModel(lambda rows, edges: linear(rows, edges.mT), NormalEdges())
    guide = DAGGuide(model)
    pyro.param("guide.edge_loc", torch.randn(4, 4))
    exact = LeaveOneOutELBO(4000, max_plate_nesting=2).loss(model, guide, data)
    sampled = LeaveOneOutELBO(4000, expected_likelihood=False, max_plate_nesting=2).loss(model, guide, data)
    assert exact == pytest.approx(sampled, rel=0.05)


def test_one_guide_in_two_fits_starts_anew():
    data = make_data()

    def links(num_nodes):
        scale = pyro.sample("scale", dist.LogNormal(torch.tensor(0.0), 1.0))
        return dist.Normal(torch.zeros(num_nodes, num_nodes), scale[..., None, None])

    model = DAGModel(LinearSEM(1.0), UserEdges(links))
    guide = DAGGuide(model)
    settings = FitSettings(num_steps=20, progress_bar=False)
    first, second = (
        fit(model, guide, data, loss=LeaveOneOutELBO(8, max_plate_nesting=2), settings=settings) for _ in range(2)
    )
    assert first.losses == second.losses


def test_latent_sites_inside_a_sem_are_refused_with_a_way_out():
    def sem(rows, edges):
        sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
        pyro.sample("x", dist.Normal(rows @ edges.squeeze(-3), sigma[..., None]).to_event(1), obs=rows)

    with pytest.raises(ValueError, match="'sigma' is sampled inside.*pyro.param"):
        DAGGuide(DAGModel(sem, NormalEdges()))(make_data())


def test_link_families():
    data = torch.zeros(100, 5)
    assert type(make_edge_family("spike-slab")) is SpikeSlabEdges
    prior = GateEdges(10).prior(data)
    torch.testing.assert_close(prior.logits[0, 1].item(), sparse_log_odds(5) - 5 * math.log(100))
    assert SpikeSlabEdges(2.0).prior(data).scale[0, 0] == 2
    assert UserEdges(dist.StudentT(3.0, 0.0, 1.0)).prior(data).batch_shape == (5, 5)
    probability = SpikeSlabEdges().prior(torch.zeros(9, 21)).probs[0, 1]
    assert probability * 21 * 20 / 2 == pytest.approx(21)  # as many links as nodes, on average
    assert sparse_log_odds(5) == pytest.approx(0.0)
    assert sparse_log_odds(21) == pytest.approx(math.log(0.1 / 0.9))


def test_quantising_is_straight_through():
    edges = torch.tensor([0.2, -0.9, 0.5], requires_grad=True)
    value = quantize(edges, 0.5)
    assert value.tolist() == [0.0, pytest.approx(-0.9), 0.0]
    value.sum().backward()
    assert edges.grad.tolist() == [1.0, 1.0, 1.0]


def test_own_sem_as_a_pyro_function():
    data = make_data(num_rows=300)

    def sem(rows, edges):
        mean = rows @ edges.squeeze(-3)
        pyro.sample("x", dist.StudentT(4.0, mean, 1.0).to_event(1), obs=rows)

    result = quick_fit(DAGModel(sem, NormalEdges()), data)
    assert abs(result.params["guide.edge_loc"][0, 1] - 2) < 0.2


@pytest.mark.parametrize("sem", [LinearSEM(1.0), NeuralSEM(1.0)])
@pytest.mark.parametrize("batch_size", [None, 10])
def test_traces_stay_on_the_device(sem, batch_size):
    """Model and guide on a pretended GPU, their parameters given as plain tensors (autograd needs a real one)."""
    with fake_device("cuda") as device:
        data = torch.zeros(30, 4, device=device)
        family = GateEdges(10) if isinstance(sem, NeuralSEM) else NormalEdges()
        model = DAGModel(sem, family, batch_size=batch_size)
        assert family.prior(data).mean.device.type == "cuda"
        edges = torch.zeros(5, 1, 1, 4, 4, device=device)
        parameters = {"noise_scale": torch.ones((), device=device)}
        if isinstance(sem, NeuralSEM):
            parameters.update(
                hidden_weight=torch.zeros(4, 4, 10, device=device),
                hidden_bias=torch.zeros(4, 10, device=device),
                output_weight=torch.zeros(4, 10, device=device),
                output_bias=torch.zeros(4, device=device),
            )
        assert sem.log_prob(data, edges.squeeze(-3), parameters).device.type == "cuda"
        assert model.order_law(data).logits.device.type == "cuda"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: make_edge_family("cauchy"), ValueError, "`edge_prior`.*'cauchy'"),
        (lambda: make_edge_family(3.0), TypeError, "`edge_prior`.*float"),
        (lambda: make_edge_family("normal", prior_scale=-1.0), ValueError, "`prior_scale`.*-1.0"),
        (lambda: UserEdges(lambda: 3).prior(torch.zeros(2, 2)), TypeError, "return a distribution.*int"),
        (lambda: UserEdges(dist.Gamma(1.0, 1.0)).prior(torch.zeros(2, 2)), ValueError, "real line"),
        (lambda: UserEdges(SpikeSlab(0.0, 0.0, 1.0)).prior(torch.zeros(2, 2)), ValueError, "SpikeSlab.*spike-slab"),
        (
            lambda: UserEdges(dist.Normal(torch.zeros(7, 2, 2), 1.0)).prior(torch.zeros(5, 2)),
            ValueError,
            r"got \(7, 2, 2\).*scale\[..., None, None\]",
        ),
        (lambda: DAGModel(LinearSEM(1.0), NormalEdges(), batch_size=0), ValueError, "`batch_size`.*0"),
        (
            lambda: DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=torch.zeros(3)).order_law(torch.zeros(5, 2)),
            ValueError,
            "scores of 2 nodes.*3 nodes",
        ),
        (
            lambda: DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=lambda: "x").order_law(torch.zeros(5, 2)),
            ValueError,
            "`order_prior`.*str|str.*order_prior",
        ),
        (lambda: DAGGuide(DAGModel(LinearSEM(1.0), NormalEdges()), order_gradient="x"), ValueError, "`order_gradient`"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
