"""What a user might bring: factories named by `user_modules:...` where a registered name could stand."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from baton import metrics
from baton.algorithms import Algorithm, State
from baton.datasets import Dataset, base, digits
from baton.datasets.images import Normaliser, crop_and_flip
from baton.metrics import Metric


def tiny(shape: tuple[int, ...], classes: int, *, width: int = 8) -> nn.Module:
    """A perceptron with LayerNorm."""
    return nn.Sequential(nn.Linear(shape[0], width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, classes))


class _Embedded(nn.Module):
    """Pixels as words: an embedding of 17 grey levels, mean over the image, a linear layer."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(17, width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        level = ((x * 0.3761 + 0.3053) * 16).round().long().clamp(0, 16)
        return self.last(self.words(level).mean(1))


def embedded(shape: tuple[int, ...], classes: int, *, width: int = 6) -> nn.Module:  # noqa: ARG001
    return _Embedded(width, classes)


def conv(shape: tuple[int, ...], classes: int, *, width: int = 4) -> nn.Module:  # noqa: ARG001
    """Convolutions, GroupNorm and pooling on 8 x 8 images."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, width, 3, padding=1),
        nn.GroupNorm(2, width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, groups=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(width, classes),
    )


class Tied(nn.Module):
    """A weight used twice, a scalar parameter, a constant buffer and a skip connection."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, inputs, bias=False)
        self.second = nn.Linear(inputs, inputs)
        self.second.weight = self.first.weight
        self.last = nn.Linear(inputs, classes)
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("shift", torch.linspace(-1, 1, inputs))

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.relu(self.second(torch.relu(self.first(x + self.shift))))
        return self.last(x) * self.temperature


def tied(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Tied(shape[0], classes)


def inplace(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Layers that write over what they are given."""
    return nn.Sequential(nn.Linear(shape[0], 8), nn.ReLU(inplace=True), nn.Linear(8, classes))


def batch_normed(shape: tuple[int, ...], classes: int, *, track: bool = True) -> nn.Module:
    return nn.Sequential(
        nn.Linear(shape[0], 8), nn.BatchNorm1d(8, track_running_stats=track), nn.ReLU(), nn.Linear(8, classes)
    )


def two_dropouts(shape: tuple[int, ...], classes: int, *, p: float = 0.5) -> nn.Module:  # noqa: ARG001
    """Puts out its input, masked twice."""
    return nn.Sequential(nn.Dropout(p), nn.Sequential(nn.Identity(), nn.Dropout(p)))


def channel_dropout(shape: tuple[int, ...], classes: int) -> nn.Module:  # noqa: ARG001
    return nn.Sequential(nn.Unflatten(1, (4, 4, 4)), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(64, classes))


def conv_dropout(shape: tuple[int, ...], classes: int) -> nn.Module:  # noqa: ARG001
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(144, classes)
    )


def alpha_dropout(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.SELU(), nn.AlphaDropout(0.5), nn.Linear(8, classes))


class Functional(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(dropout(x, 0.5, self.training))


def functional_dropout(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Functional(shape[0], classes)


def reversed_sequential(*, skip: int = 0) -> Algorithm:
    """Sequential from the last participant to the first."""

    def round(state, order, sites):
        x = state.model
        for client in order[::-1][skip:]:
            x = sites.train(x, client).x
        return State(x)

    return Algorithm(round)


def round_robin(seed: Tensor, round: Tensor, clients: int, participants: int, *, stride: int = 1) -> Tensor:  # noqa: ARG001
    """Not random at all: promises nothing."""
    return (torch.arange(participants, device=round.device) + stride * round.unsqueeze(1)) % clients


def falling(round: int, *, over: int | None = None, word: bool = False) -> float | str:
    """A straight line to 0, and on."""
    return "much" if word else 1 - round / (over or 0)


def by_label(labels: np.ndarray, clients: int, *, drop: int = 0) -> np.ndarray:
    """Class c at client c; class `drop` at nobody."""
    return np.where(labels == drop, -1, labels % clients)


def _loss(output: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(output, target, reduction="none")


def blobs(clients: int, *, spread: float = 0.1) -> Dataset:
    """Three Gaussian blobs in the plane, each with its own clients by nature."""
    draw = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = np.stack([np.cos(2.1 * y), np.sin(2.1 * y)], 1) + spread * draw.standard_normal((60, 2))
    data, label = torch.tensor(x, dtype=torch.float32), torch.tensor(y)

    owner = torch.arange(60) * clients // 60
    return Dataset(data, label, data[:9], label[:9], classes=3, loss=_loss, owner=owner)


def pictures(clients: int, *, channels: int = 3, side: int = 32) -> Dataset:  # noqa: ARG001
    """A dozen images of noise, stored as bytes."""
    x = np.random.default_rng(1).integers(0, 256, (12, channels, side, side), dtype=np.uint8)
    data, label = torch.from_numpy(x), torch.arange(12) % 4

    def prepare(stored: Tensor, dtype: torch.dtype) -> Tensor:
        return stored.to(dtype) / 128 - 1

    return Dataset(data, label, data[:4], label[:4], classes=4, loss=_loss, prepare=prepare)


def stored_digits(clients: int) -> Dataset:
    """The digits as bytes, normalised on the fly."""
    ready = digits.load(clients)

    def byte(x: Tensor) -> Tensor:
        return ((x * 0.3761 + 0.3053) * 16).round().to(torch.uint8)

    def prepare(stored: Tensor, dtype: torch.dtype) -> Tensor:
        return ((stored.float() / 16 - 0.3053) / 0.3761).to(dtype)

    return ready._replace(x=byte(ready.x), test_x=byte(ready.test_x), prepare=prepare)


def photos(clients: int, *, channels: int = 3, side: int = 32, augment: bool = False) -> Dataset:  # noqa: ARG001
    """Images of noise around one mean a class, stored as bytes, normalised like the image data sets."""
    draw = np.random.default_rng(2)
    label = np.arange(240) % 10
    centre = draw.integers(40, 215, (10, channels, side, side))
    x = np.clip(centre[label] + draw.normal(0, 40, (240, channels, side, side)), 0, 255).astype(np.uint8)
    data, y = torch.from_numpy(x), torch.from_numpy(label)
    ready = Normaliser((0.5, 0.45, 0.4)[:channels], (0.25, 0.3, 0.2)[:channels])
    crop = crop_and_flip if augment else None
    return Dataset(data, y, data[:50], y[:50], 10, base.cross_entropy, augment=crop, prepare=ready)


def uneven(clients: int) -> Dataset:  # noqa: ARG001
    """The same blobs from three sites of very different sizes, the last one of one class."""
    made = blobs(3)
    order = torch.cat([(made.y != 0).nonzero()[:, 0], (made.y == 0).nonzero()[:, 0]])
    owner = torch.repeat_interleave(torch.arange(3), torch.tensor([40, 15, 5]))
    return made._replace(x=made.x[order], y=made.y[order], owner=owner)


def hospitals(clients: int, *, classes: int = 2, sites: int = 4, unowned: bool = False, seed: int = 0) -> Dataset:  # noqa: ARG001
    """Rows of four hospitals, whose patients differ; the test rows belong to them too."""
    draw, n = torch.Generator().manual_seed(seed), 240
    x, owner = torch.randn(2 * n, 5, generator=draw), torch.randint(0, sites, (2 * n,), generator=draw)
    score = x[:, 0] + 0.6 * (owner - 1.5) * x[:, 2] + 0.5 * torch.randn(2 * n, generator=draw)
    y = (score > 0).long() if classes == 2 else torch.bucketize(score, torch.linspace(-1.2, 1.2, classes - 1))
    more = {} if unowned else {"test_owner": owner[n:], "names": ("Basel, CH", "Lyon", "Turin", "Graz")[:sites]}
    return Dataset(x[:n], y[:n], x[n:], y[n:], classes, base.cross_entropy, owner=owner[:n], **more)


def one_logit(shape: tuple[int, ...], classes: int, *, width: int = 1) -> nn.Module:  # noqa: ARG001
    return nn.Linear(shape[0], width)


def confident(task, *, above: float = 0.5):  # noqa: ARG001
    """A metric of one's own: the share of rows whose likeliest class has more than so much."""
    return lambda outputs, labels: float((outputs.softmax(-1).amax(-1) > above).double().mean())  # noqa: ARG005


def unsure(task, *, above: float = 0.5):
    """The same of the other rows, of which less is better."""
    return Metric(lambda outputs, labels: 1 - confident(task, above=above)(outputs, labels), best="min")


def alone() -> Algorithm:
    """Every client trains a model of its own; what all are handed stays as it is."""

    def server(x, now):
        return {n: leaf.unsqueeze(1).repeat(1, now.clients, *[1] * (leaf.dim() - 1)) for n, leaf in x.items()}

    def round(state, order, sites):
        lanes = torch.arange(len(order.index)).unsqueeze(1)
        made = sites.train({n: leaf[lanes, order.index] for n, leaf in state.server.items()}, order).x
        kept = {n: leaf.index_put((lanes, order.index), made[n]) for n, leaf in state.server.items()}
        return State(state.model, kept)

    return Algorithm(round, server=server, personal=lambda state: state.server)


def widest(task) -> metrics.Metric:  # noqa: ARG001
    """A metric of one's own: the largest output of all rows; of no row is there a number."""
    return metrics.Metric(lambda outputs, labels, weight: outputs.flatten(1).amax(1).double(), "max")  # noqa: ARG005
