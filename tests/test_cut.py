"""Where a model may be cut: everywhere that one tensor is all that crosses, and nowhere else."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from baton import models
from baton.algorithms import ALGORITHMS
from baton.errors import BadInput
from baton.models import MODELS
from baton.names import canonical
from baton.nn import Net
from baton.nn.cut import Sides, cuts, sides
from contracts.examples import CPU

SHAPES = {"vgg9": (3, 32, 32), "resnet18": (3, 8, 8)}
CUTS = {
    "quadratic": [],
    "logistic": [],
    "mlp": ["1", "2", "3"],
    "lenet5": ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "1", "2", "3", "4", "5"],
    "cnn": [str(i) for i in range(9)],
    "vgg9": [str(i) for i in range(22)],
    "resnet18": [str(i) for i in range(12)],
}


def net_of(build: object, shape: tuple[int, ...]) -> Net:
    return Net(build, torch.float64, CPU, torch.randn(1, *shape, dtype=torch.float64))  # type: ignore[arg-type]


def registered(name: str) -> Net:
    if name == "quadratic":
        return net_of(models.factory(name, (3,), 0), (3,))
    shape = SHAPES.get(name, (1, 28, 28))
    return net_of(models.factory(name, shape, 10), shape)


def through(found: Sides, x: Tensor, params: dict[str, Tensor], key: Tensor) -> Tensor:
    for side in filter(None, found):
        x = side(side.of(params), key, x)
    return x


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_its_legal_cuts(name: str) -> None:
    net = registered(name)
    found = cuts(net)
    assert [cut.name for cut in found] == CUTS[name]
    for cut in found:
        assert cut.client > 0
        assert cut.server > 0
        assert cut.client + cut.server == net.size()
    assert [cut.client for cut in found] == sorted(cut.client for cut in found)


def test_sizes_of_lenet5() -> None:
    by_name = {cut.name: cut for cut in cuts(registered("lenet5"))}
    assert by_name["0.2"] == ("0.2", "MaxPool2d", (6, 12, 12), 156, 44_270)
    assert by_name["1"] == ("1", "Flatten", (256,), 2_572, 41_854)


@pytest.mark.parametrize("name", ["mlp", "lenet5", "resnet18"])
def test_both_sides_one_after_the_other_are_the_model(name: str) -> None:
    net = registered(name)
    params = {n: leaf[0] for n, leaf in net.init([3]).items()}
    x, key = torch.randn(3, *net.sample.shape[1:], dtype=torch.float64), torch.tensor(11)
    for cut in CUTS[name]:
        found = sides(net, cut)
        client, server = found.split(params)
        assert not client.keys() & server.keys()
        assert client.keys() | server.keys() == params.keys()
        assert found.front(client, key, x).shape[1:] == found.front.shape
        torch.testing.assert_close(through(found, x, params, key), net.train(params, key, x), rtol=0, atol=0)


def test_two_cuts_give_three_parts() -> None:
    net = registered("lenet5")
    params = {n: leaf[0] for n, leaf in net.init([3]).items()}
    x, key = torch.randn(3, 1, 28, 28, dtype=torch.float64), torch.tensor(11)
    for cut, head in (("0.2", "3"), ("0.5", "5"), ("0", "6")):  # "0" is the block that ends with "0.5"
        found = sides(net, cut, head)
        client, server = found.split(params)
        assert {*found.back.names} == server.keys()
        assert ("6.weight" in client) == (head != "6")  # behind the last layer there is only the loss
        assert torch.equal(through(found, x, params, key), net.train(params, key, x))


def test_a_cut_behind_a_block_is_the_one_behind_its_last_layer() -> None:
    net = registered("lenet5")
    assert sides(net, "0").front.names == sides(net, "0.5").front.names


def test_flops_are_those_of_the_layers() -> None:
    net = registered("lenet5")
    client, server = sides(net, "0.2").flops(net.sample)
    assert client == 2 * 25 * 6 * 24 * 24
    assert server == 2 * (25 * 6 * 16 * 8 * 8 + 256 * 120 + 120 * 84 + 84 * 10)
    assert net.flops() == client + server == sum(sides(net, "0.5", "4").flops(net.sample))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "quadratic"])
def test_flops_are_those_that_torch_counts(name: str) -> None:
    net = registered(name)
    with FlopCounterMode(display=False) as count, torch.no_grad():
        net.module(net.sample)
    assert net.flops() == count.get_total_flops() > 0


# What cannot be cut


def line(net: Net, cut: str, head: str = "") -> str:
    with pytest.raises(BadInput) as error:
        sides(net, cut, head)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("model", "cut", "head", "said"),
    [
        ("lenet5", "9", "", "cut=9 is not a layer of 'lenet5'; did you mean '5'?"),
        ("lenet5", "0.7", "", "cut=0.7 is not a layer of 'lenet5'; did you mean '0.5'?"),
        ("lenet5", "pool", "", "cut=pool is not a layer of 'lenet5'; did you mean"),
        ("lenet5", "6", "", "cut=6 leaves the server without parameters; did you mean '5'?"),
        ("mlp", "0", "", "cut=0 leaves the client without parameters; did you mean '1'?"),
        ("resnet18", "2.first", "", "cut=2.first lies inside the residual block '2'; did you mean '2'?"),
        ("resnet18", "7.shortcut", "", "cut=7.shortcut lies inside the residual block '7'; did you mean '7'?"),
        ("logistic", "1", "", "model 'logistic' cannot be cut: no layer has parameters both before and behind it"),
        ("quadratic", "x", "", "model 'quadratic' cannot be cut"),
        ("lenet5", "0.5", "9", "head=9 is not a layer of 'lenet5'; did you mean '6'?"),
        ("lenet5", "0.5", "0.2", "head=0.2 lies before the first cut"),
        ("lenet5", "0.5", "1", "head=1 leaves the server without parameters; did you mean '2'?"),
        ("resnet18", "2", "3.first", "head=3.first lies inside the residual block '3'"),
    ],
)
def test_bad_cuts_are_one_line(model: str, cut: str, head: str, said: str) -> None:
    assert line(registered(model), cut, head).startswith(f"algorithm: {said}")


class Skipping(nn.Module):
    """The input comes back at the end: nothing in between may be cut, the last layer's input may."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))) + x)


class Shared(nn.Module):
    """One weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x)))


class Twice(nn.Module):
    """One layer, and one dropout, used twice; a scale that is a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop, self.last = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.last(self.drop(self.layer(self.layer(x) * self.scale))))


class Asking(nn.Module):
    """Looks at numbers on its way, which no graph can."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        return self.b(x if x.sum() > 0 else -x)


@pytest.mark.parametrize(
    ("module", "legal"), [(Skipping, []), (Shared, ["second"]), (Twice, []), (Asking, [])], ids=lambda m: str(m)
)
def test_modules_of_the_users_own(module: type[nn.Module], legal: list[str]) -> None:
    assert [cut.name for cut in cuts(net_of(module, (4,)))] == legal


def test_reasons_for_the_users_own() -> None:
    assert "cannot be cut: no layer" in line(net_of(Skipping, (4,)), "first")
    assert "cut=first has 'first.weight' on both sides; 'second' is right" in line(net_of(Shared, (4,)), "first")
    assert "its forward pass cannot be followed" in line(net_of(Asking, (4,)), "a")


@pytest.mark.parametrize(
    ("spec", "spelled"),
    [
        ("ssl:cut=0.10", "ssl:cut=0.10"),
        ("ssl:relay=server,head=1/3,cut=007,clip=joint", "ssl:cut=007,head=1/3,relay=server"),
    ],
)
def test_layers_whose_names_look_like_numbers_keep_them(spec: str, spelled: str) -> None:
    """0.10 is the eleventh layer of a block, not the second."""
    assert canonical("algorithm", spec, ALGORITHMS) == spelled
