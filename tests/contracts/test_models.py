"""Every model: built from a sample's shape, initialised from its seed, a function of its parameters alone."""

import pytest
import torch
from torch.func import vmap

from baton import datasets, models
from baton.datasets import prepared
from baton.legs.plain import gradient
from baton.models import MODELS
from baton.nn import Net
from baton.setting import Setting
from baton.simulate.engine import Program
from contracts.examples import BAD, CPU, data_for, examples, missing, refused
from steps import round_of

EVERY = pytest.mark.parametrize("spec", examples("model"))
SAME_START = {"quadratic"}  # starts at one point whatever the seed: the paper's x = 10


def world(spec: str, dtype: torch.dtype = torch.float64) -> tuple[datasets.Dataset, Net, torch.Tensor, torch.Tensor]:
    data = datasets.load(data_for("model", spec), 12)
    build = models.factory(spec, tuple(data.x.shape[1:]), data.classes)
    net = Net(build, dtype, CPU, prepared(data, data.x[:1], dtype))
    return data, net, prepared(data, data.x[:4], dtype), data.y[:4]


def test_every_name_has_an_example() -> None:
    assert missing("model") == []


@pytest.mark.parametrize("spec", BAD["model"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    dataset = "quadratic" if spec.startswith("quadratic:") else "digits"
    line = refused({"model": spec, "dataset": dataset})
    assert line.startswith("model: ")
    assert "\n" not in line


@pytest.mark.parametrize("model", [m for m in MODELS if m != "quadratic"])
def test_models_of_labelled_samples_do_not_take_quadratics(model: str) -> None:
    assert refused({"model": model, "dataset": "quadratic"}).startswith("model: ")


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_gives_one_output_a_sample_in_the_programs_dtype(spec: str, dtype: torch.dtype) -> None:
    data, net, x, y = world(spec, dtype)
    params = net.init([1, 2])
    assert all(leaf.shape[0] == 2 and leaf.dtype == dtype for leaf in params.values())
    assert net.size() == sum(leaf[0].numel() for leaf in params.values())
    assert net.activations(x[0]) > 0
    one = {name: leaf[0] for name, leaf in params.items()}
    output = net.evaluate(one, x)
    assert output.shape == ((4, data.classes) if data.classes else (4,))
    assert output.dtype == dtype
    assert bool(output.isfinite().all())
    assert data.loss(output, y).shape == (4,)


@EVERY
def test_a_model_is_initialised_from_its_seed(spec: str) -> None:
    _, net, _, _ = world(spec)
    three, again = net.init([1, 2, 1]), net.init([2])
    for name, leaf in three.items():
        assert torch.equal(leaf[0], leaf[2])
        assert torch.equal(leaf[1], again[name][0])
    differ = any(not torch.equal(leaf[0], leaf[1]) for leaf in three.values())
    assert differ != (spec.partition(":")[0] in SAME_START)


@EVERY
def test_a_model_is_a_pure_function_of_parameters_key_and_input(spec: str) -> None:
    _, net, x, _ = world(spec)
    one = {name: leaf[0] for name, leaf in net.init([1]).items()}
    before = {name: leaf.clone() for name, leaf in one.items()}, x.clone()
    state = torch.get_rng_state()
    for call in (lambda: net.train(one, torch.tensor(77), x), lambda: net.evaluate(one, x)):
        assert torch.equal(call(), call())
    assert torch.equal(x, before[1])
    assert all(torch.equal(leaf, before[0][name]) for name, leaf in one.items())
    assert torch.equal(torch.get_rng_state(), state)


@EVERY
def test_a_sample_is_evaluated_alone(spec: str) -> None:
    """Nothing that mixes the samples of a batch: short batches are padded."""
    _, net, x, _ = world(spec)
    one = {name: leaf[0] for name, leaf in net.init([1]).items()}
    key = torch.tensor(5)
    for call in (net.evaluate, lambda params, batch: net.train(params, key, batch)):
        torch.testing.assert_close(call(one, x)[:3], call(one, x[:3]), rtol=1e-12, atol=1e-12)


@EVERY
def test_lanes_of_a_model_are_modules_of_their_own(spec: str) -> None:
    """The batched pass is the ordinary module's, lane by lane, and so is its gradient."""
    data, net, x, y = world(spec)
    params = net.init([1, 2])
    params = {name: leaf + 0.01 * torch.arange(2).view(-1, *[1] * (leaf.dim() - 1)) for name, leaf in params.items()}
    together = vmap(net.evaluate, in_dims=(0, None))(params, x)
    key = torch.arange(2)
    copies = x.expand(2, *x.shape), y.expand(2, -1), torch.ones(2, 4, dtype=x.dtype)
    slope = gradient(net, data._replace(augment=None))
    slopes = slope(params, key, *copies)
    for lane in range(2):
        module = net.build().to(x.dtype).eval()
        module.load_state_dict({name: leaf[lane] for name, leaf in params.items()})
        torch.testing.assert_close(together[lane], module(x).detach(), rtol=1e-12, atol=1e-12)
        own = {name: leaf[lane : lane + 1] for name, leaf in params.items()}
        alone = slope(own, key[lane : lane + 1], *(copy[:1] for copy in copies))
        for name, leaf in alone.items():
            torch.testing.assert_close(slopes[name][lane], leaf[0], rtol=1e-10, atol=1e-12)


@EVERY
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_every_parameter_of_a_model_is_trained(spec: str, algorithm: str) -> None:
    common = {"clients": 4, "participants": 2, "local_steps": 2, "batch_size": 2, "lr": 0.05}
    setting = Setting(dataset=data_for("model", spec), model=spec, algorithm=algorithm, **common)
    program = Program([setting], CPU)
    x = program.net.init([1])
    made = round_of(program, x)
    assert all(not torch.equal(made[name], leaf) for name, leaf in x.items())
    assert all(bool(leaf.isfinite().all()) for leaf in made.values())


@pytest.mark.parametrize(
    ("spec", "shape", "count"),
    [
        ("logistic", (1, 28, 28), 7_850),
        ("mlp", (1, 28, 28), 50_890),
        ("lenet5", (1, 28, 28), 44_426),
        ("cnn", (1, 28, 28), 228_586),
        ("vgg9", (3, 32, 32), 2_308_810),
        ("resnet18", (3, 32, 32), 11_164_362),
    ],
)
def test_the_papers_models_have_the_papers_size(spec: str, shape: tuple[int, ...], count: int) -> None:
    module = models.factory(spec, shape, 10)()
    assert sum(p.numel() for p in module.parameters()) == count
    assert module.eval()(torch.zeros(2, *shape)).shape == (2, 10)
