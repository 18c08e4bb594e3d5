"""The leg in split form: client and server run their own sides of the model, and all else they know crosses a wire.

A local step is the paper's: (1) the client's forward pass, smashed data and labels up; (2, 3) the server's forward and
backward pass, the loss's slope at the smashed data down; (4) the client's backward pass. Cut twice, labels stay at the
client: its head finds the loss, and two more tensors cross.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset, prepared
from baton.lanes import Params, norm
from baton.legs.base import Legs, Step, repeated
from baton.legs.plain import begun, rates, sgd
from baton.nn import Net, forwards, gradients
from baton.nn.cut import Side, Sides
from baton.seam import Split

INPUT = "<input>"  # what came over the wire, among a side's parameters: what the loss's slope is wanted at too

TINY = 1e-12  # a root has no slope at 0, where a sample's smashed data may all be


class Wire:
    """All that crosses between clients and server, as it is: tensors [L, ...]."""

    listen: Callable[[str, str, Tensor], None] | None = None  # is told which way, what it is, and the tensor

    def up(self, what: str, x: Tensor) -> Tensor:
        """From the clients to the server."""
        return self._cross("up", what, x)

    def down(self, what: str, x: Tensor) -> Tensor:
        """From the server to the clients."""
        return self._cross("down", what, x)

    def _cross(self, way: str, what: str, x: Tensor) -> Tensor:
        if self.listen is not None:
            self.listen(way, what, x)
        return x


class Slope(NamedTuple):
    """What a backward pass gives a side."""

    params: Params  # its own gradient
    input: Tensor  # [L, b, ...] the loss's slope at what came in


class Client:
    """Holds the samples and the first part of the model; behind a second cut the labels and the last part too."""

    def __init__(self, net: Net, data: Dataset, sides: Sides, noise: float, threads: int) -> None:
        self.front, self.data, self.dtype, self.noise = sides.front, data, net.dtype, noise
        self.forward = forwards(self._sent, net, threads)  # (params, key [L], x [L, b, ...]) -> smashed [L, b, ...]
        self.backward = gradients(self._along, net, threads)  # (params, key, x, slope [L, b, ...]) -> gradient
        self.head = Last(net, data, sides.head, threads) if sides.head else None

    def _sent(self, params: Params, key: Tensor, x: Tensor) -> Tensor:
        """One lane's smashed data as the server gets it: with noise, where that is asked for."""
        if self.data.augment is not None:
            x = self.data.augment(x, rng.bits(key, rng.AUGMENT))
        smashed = self.front(params, key, prepared(self.data, x, self.dtype))
        return noisy(key, smashed, self.noise) if self.noise else smashed

    def _along(self, params: Params, key: Tensor, x: Tensor, slope: Tensor) -> Tensor:
        """Its gradient is the backward pass: what was sent has its own slope, along the one that came down."""
        return (self._sent(params, key, x) * slope).sum()


def noisy(key: Tensor, smashed: Tensor, share: float) -> Tensor:
    """One lane's smashed data [b, ...] with Gaussian noise, keyed by the step.

    share: its deviation, as a share of the root mean square of each sample's own numbers. Smashed data that grow get
    more noise, and the backward pass knows it; noise of a fixed size is soon outgrown.
    """
    place = torch.arange(smashed.numel(), device=smashed.device).view(smashed.shape)
    size = (smashed.reshape(len(smashed), -1).square().mean(1) + TINY).sqrt()  # [b]
    size = size.view(-1, *[1] * (smashed.dim() - 1))
    return smashed + share * size * rng.normal(rng.bits(key, rng.SMASH, place), smashed.dtype)


class Last:
    """The last part of the model, where the labels are: at the server, or behind a second cut at the client."""

    def __init__(self, net: Net, data: Dataset, side: Side, threads: int) -> None:
        self.side, self.data = side, data
        self.slopes = gradients(self._loss, net, threads)

    def __call__(self, params: Params, key: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Slope:
        """Forward, loss and backward: x [L, b, ...], y [L, b], weight [L, b]."""
        return _slope(params, self.slopes({**self.side.of(params), INPUT: x}, key, y, weight))

    def _loss(self, given: Params, key: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        params, x = _apart(given)
        each = self.data.loss(self.side(params, key, x), y)
        return (each * weight).sum() / weight.sum().clamp(min=1)


class Middle:
    """The server's part of a model that is cut twice: it never sees a label."""

    def __init__(self, net: Net, side: Side, threads: int) -> None:
        self.side = side
        self.forward = forwards(side, net, threads)  # (params, key, x) -> what goes down to the client's head
        self.slopes = gradients(self._along, net, threads)

    def backward(self, params: Params, key: Tensor, x: Tensor, slope: Tensor) -> Slope:
        """From the slope at what it put out."""
        return _slope(params, self.slopes({**self.side.of(params), INPUT: x}, key, slope))

    def _along(self, given: Params, key: Tensor, slope: Tensor) -> Tensor:
        params, x = _apart(given)
        return (self.side(params, key, x) * slope).sum()


def _apart(given: Params) -> tuple[Params, Tensor]:
    return {name: leaf for name, leaf in given.items() if name != INPUT}, given[INPUT]


def _slope(params: Params, found: Params) -> Slope:
    """A parameter that no layer reads has no slope."""
    own = {name: found[name] if name in found else torch.zeros_like(leaf) for name, leaf in params.items()}
    return Slope(own, found[INPUT])


class SplitLegs:
    """Legs of a model cut in two. `whole` only answers for the model in evaluation; it trains nothing."""

    way = "PyTorch, split"

    def __init__(
        self,
        net: Net,
        data: Dataset,
        clients: Clients,
        form: Split,
        sides: Sides,
        whole: Legs,
        clipped: bool = True,
        threads: int = 1,
    ) -> None:
        self.clients, self.sides, self.wire, self.outputs = clients, sides, Wire(), whole.outputs
        self.clipped, self.joint = clipped, form.clip == "joint"
        self.client = Client(net, data, sides, form.noise, threads)
        self.server = Middle(net, sides.back, threads) if sides.head else Last(net, data, sides.back, threads)

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """tau_m <= K steps, each side's with its own part of anchor, shift and velocity."""
        x = repeated(x, len(step.lr))
        client, server = self.sides.split(x)
        step, v, its_v = begun(step, x), None, None
        for k, lr in enumerate(rates(step, batches.weight)):
            at, key, weight = batches.places[:, k], batches.key[:, k], batches.weight[:, k]
            own, its = self._slopes(client, server, key, self.clients.x[at], self.clients.y[at], weight)
            size, its_size = self._sizes(own, its) if self.clipped else (None, None)
            client, v = sgd(client, own, step._replace(lr=lr), size, v)
            server, its_v = sgd(server, its, step._replace(lr=lr), its_size, its_v)
        return {name: client[name] if name in client else server[name] for name in x}

    def _slopes(
        self, client: Params, server: Params, key: Tensor, x: Tensor, y: Tensor, weight: Tensor
    ) -> tuple[Params, Params]:
        """One step: the gradients of both sides, (client's, server's)."""
        front, last = self.client.front.of(client), Params()
        smashed = self.wire.up("smashed data", self.client.forward(front, key, x))
        if isinstance(self.server, Last):
            its = self.server(server, key, smashed, self.wire.up("labels", y), weight)
        else:
            assert self.client.head is not None
            features = self.wire.down("features", self.server.forward(self.server.side.of(server), key, smashed))
            last, slope = self.client.head(self.client.head.side.of(client), key, features, y, weight)
            its = self.server.backward(server, key, smashed, self.wire.up("slope of the features", slope))
        slope = self.wire.down("slope", its.input)
        return self.client.backward(front, key, x, slope) | last, its.params

    def _sizes(self, own: Params, its: Params) -> tuple[Tensor, Tensor]:
        """The norm that each side clips by [N]: its own, or one over both, for which each tells the other its own."""
        if not self.joint:
            return norm(own), norm(its)
        both = torch.hypot(self.wire.up("norm", norm(own)), self.wire.down("norm", norm(its)))
        return both, both
