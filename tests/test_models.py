"""The paper's models: how they start, and every step against the plain module trained alone in plain PyTorch."""

import math

import pytest
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from baton import clients, datasets, models
from baton.datasets import prepared
from baton.errors import BadInput
from baton.legs.plain import Plain, gradient
from baton.nn.pooling import quicken
from baton.setting import Setting
from baton.simulate.engine import Program
from steps import drawn_at, step_of

CPU = torch.device("cpu")
IMAGES = {
    "logistic": "user_modules:pictures:channels=1,side=28",
    "mlp:dropout=0": "user_modules:pictures:channels=1,side=28",
    "lenet5": "user_modules:pictures:channels=1,side=28",
    "cnn": "user_modules:pictures:channels=1,side=28",
    "vgg9": "user_modules:pictures",
    "resnet18": "user_modules:pictures:side=8",
}


def plain_steps(program: Program, drawn: clients.Batches, lane: int) -> list[dict[str, torch.Tensor]]:
    """The module alone: clip_grad_norm_, torch.optim.SGD; its parameters after each step."""
    s, data = program.setting, datasets.load(program.setting.dataset, program.setting.clients)
    module = program.net.build().to(torch.float64).train()
    start = program.net.init(program.seeds)
    module.load_state_dict({name: leaf[lane] for name, leaf in start.items()})
    lr, clip, decay = (float(x[lane]) for x in (program.lanes.lr, program.lanes.clip, program.lanes.weight_decay))
    optimizer, after = torch.optim.SGD(module.parameters(), lr=lr, weight_decay=decay), []
    for k in range(s.local_steps):
        at = drawn.places[lane, k][drawn.weight[lane, k] > 0]
        optimizer.zero_grad()
        output = module(prepared(data, program.clients.x[at], torch.float64))
        cross_entropy(output, program.clients.y[at]).backward()
        if clip:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        after.append({name: p.detach().clone() for name, p in module.named_parameters()})
    return after


@pytest.mark.parametrize("batched", [False, True], ids=["as on a CPU", "batched as on a GPU"])
@pytest.mark.parametrize("model", IMAGES)
def test_lanes_step_by_step_as_the_plain_module(model: str, batched: bool) -> None:
    common = {"dataset": IMAGES[model], "model": model, "clients": 3, "dtype": "float64", "local_steps": 3}
    rows = [(0.05, 0.0, 0.0, 1), (0.02, 0.5, 1e-2, 2)]  # lr, clip, weight decay, seed
    lanes = [Setting(**common, batch_size=3, lr=lr, clip=c, weight_decay=w, seed=s) for lr, c, w, s in rows]
    program = Program(lanes, CPU)
    if batched:
        program.net.convolutions = False
        program.legs = Plain(program.net, datasets.load(lanes[0].dataset, 3), program.clients)
    drawn = drawn_at(program.clients, program.lanes, 0, torch.tensor([1, 2]), program.setting)
    x = program.net.init(program.seeds)
    wanted = [plain_steps(program, drawn, lane) for lane in (0, 1)]
    for k in range(3):
        one = drawn._replace(places=drawn.places[:, k : k + 1], weight=drawn.weight[:, k : k + 1], key=drawn.key[:, k:])
        x = program.legs.train(x, step_of(program.lanes, one), one)
        for lane in (0, 1):
            for name, leaf in wanted[lane][k].items():
                torch.testing.assert_close(x[name][lane], leaf, rtol=1e-9, atol=1e-11)


def test_the_recorded_gradient_is_vmaps_to_the_bit() -> None:
    program = Program([Setting(model="mlp", seed=seed) for seed in range(5)], CPU)
    data = datasets.load("digits", 10)

    def loss(
        params: dict[str, torch.Tensor], key: torch.Tensor, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        each = data.loss(program.net.train(params, key, x), y)
        return (each * weight).sum() / weight.sum().clamp(min=1)

    x, recorded = program.net.init(program.seeds), gradient(program.net, data)
    for round in range(3):  # recorded in the first, replayed in the others
        drawn = drawn_at(program.clients, program.lanes, round, torch.arange(5), program.setting)
        at = drawn.places[:, 0]
        inputs = (drawn.key[:, 0], program.clients.x[at], program.clients.y[at], drawn.weight[:, 0])
        found, wanted = recorded(x, *inputs), vmap(grad(loss))(x, *inputs)
        assert all(torch.equal(found[name], wanted[name]) for name in x)


def made(model: str, shape: tuple[int, ...]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return models.factory(model, shape, 10)()


def spread(weights: torch.Tensor, std: float) -> bool:
    """Whether weights look like N(0, std^2): within five standard errors."""
    weights = weights.detach()
    error = std / math.sqrt(2 * weights.numel())
    return abs(float(weights.std()) - std) < 5 * error and abs(float(weights.mean())) < 5 * std / weights.numel() ** 0.5


def test_vgg9_starts_kaiming_normal_fan_out() -> None:
    module = made("vgg9", (3, 32, 32))
    convolutions = [m for m in module.modules() if isinstance(m, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [32, 64, 128, 128, 256, 256, 256, 256]
    for layer in convolutions:
        assert spread(layer.weight, math.sqrt(2 / (layer.out_channels * 9)))
        assert not layer.bias.any()
    last = module[-1]
    assert spread(last.weight, 0.01)
    assert not last.bias.any()


def test_cnn_starts_kaiming_normal_but_for_its_last_layer() -> None:
    layers = [m for m in made("cnn", (1, 28, 28)).modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert [tuple(m.weight.shape) for m in layers] == [(32, 1, 5, 5), (32, 32, 5, 5), (128, 1568), (10, 128)]
    for layer in layers[:-1]:
        assert spread(layer.weight, math.sqrt(2 / layer.weight[0].numel()))
        assert not layer.bias.any()
    assert layers[-1].bias.any()
    assert float(layers[-1].weight.detach().abs().max()) <= 1 / math.sqrt(128)


def test_resnet18_has_no_normalisation_and_no_bias_but_the_last() -> None:
    module = models.factory("resnet18", (3, 32, 32), 10)()
    kinds = {type(m).__name__ for m in module.modules()}
    assert not [kind for kind in kinds if "Norm" in kind]
    biased = [name for name, _ in module.named_parameters() if name.endswith("bias")]
    assert len(biased) == 1
    assert sum(isinstance(m, nn.Conv2d) for m in module.modules()) == 1 + 16 + 3


def test_mlp_drops_before_its_relu() -> None:
    order = [type(m).__name__ for m in models.factory("mlp", (64,), 10)()]
    assert order == ["Flatten", "Linear", "Dropout", "ReLU", "Linear"]


@pytest.mark.parametrize("shape", [(2, 3, 8, 6), (1, 2, 7, 9), (4, 1, 2, 2), (1, 1, 1, 5)])
def test_quick_pooling_is_torchs(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    x.view(-1)[0] = math.nan
    found = quicken(nn.Sequential(nn.MaxPool2d(2)))(x)
    if min(shape[2:]) >= 2:
        assert torch.equal(found.nan_to_num(7.0), nn.functional.max_pool2d(x, 2).nan_to_num(7.0))
    other = nn.Sequential(
        nn.MaxPool2d(3), nn.MaxPool2d(2, 1), nn.MaxPool2d(2, padding=1), nn.MaxPool2d(2, ceil_mode=True)
    )
    assert all(type(layer) is nn.MaxPool2d for layer in quicken(other))


@pytest.mark.parametrize("model", ["lenet5", "cnn", "vgg9", "resnet18"])
def test_models_of_images_refuse_rows(model: str) -> None:
    with pytest.raises(BadInput, match=r"takes images of shape \(channels, height, width\), not \(64,\)"):
        Program([Setting(model=model)], CPU)


def test_an_image_too_small_is_one_line() -> None:
    with pytest.raises(BadInput, match=r"model: .*vgg9.* shape \(3, 8, 8\)") as error:
        Program([Setting(dataset="user_modules:pictures:side=8", model="vgg9", clients=3)], CPU)
    assert "\n" not in str(error.value)
