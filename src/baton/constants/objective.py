"""The paper's objective F = (1/M) sum_m F_m of a setting, its gradients and its Hessians' products, in float64.

F_m is the mean loss of client m's samples, without dropout and augmentation, plus (weight_decay / 2) |x|^2: weight
decay is added to every gradient, so it is a term of every F_m. Clients count alike, however many samples they hold.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad, vjp, vmap

from baton import clients, datasets
from baton.constants.work import GRADIENT, PRODUCT
from baton.datasets.base import cross_entropy, prepared
from baton.errors import BadInput
from baton.lanes import Params
from baton.models.quadratic import Quadratic
from baton.nn import looped, traced
from baton.setting import Setting
from baton.simulate.program import net_of

BLOCK_BYTES = 128 << 20  # what samples may take at once, with all that is kept to differentiate


class Group(NamedTuple):
    """Weighted sums of losses, side by side: some clients, or all of them as one."""

    places: Tensor  # [C, n] in the pool
    weight: Tensor  # [C, n] 0 where a short one is padded


class Objective:
    """A point is one vector x [d]: the model's parameters in their order."""

    def __init__(self, setting: Setting, device: torch.device) -> None:
        if setting.sampling == "balanced":
            right = "minibatches are not those of a client's mean loss; shuffle or replacement is right"
            raise BadInput(f"sampling: balanced; its {right}")
        self.setting = Setting(**{**setting.model_dump(), "dtype": "float64"})
        self.data = datasets.load(setting.dataset, setting.clients)
        self.table, _ = clients.build([self.setting], torch.float64, device)
        self.net = net_of(self.setting, self.data, device)
        self.shapes = self.net.sizes()
        self.size, self.decay, self.clients, self.device = (
            self.net.size(),
            setting.weight_decay,
            setting.clients,
            device,
        )
        self.sizes = self.table.start[0].diff()  # [M] samples of each client
        empty = int((self.sizes == 0).sum())
        if empty:
            right = "a partition in which every client holds some is right"
            raise BadInput(f"partition: {setting.partition!r} leaves {empty} clients without samples; {right}")
        sample = prepared(self.data, self.table.x[:1], torch.float64)[0]
        self._bytes_each = 8 * (2 * sample.numel() + 4 * self.net.activations(sample))
        self.room = BLOCK_BYTES
        self.spend: Callable[[float], None] = lambda passes: None  # noqa: ARG005 told of forward passes of a sample
        self.linear = self._linear()
        self.quadratic = type(self.net.module) is Quadratic and int(self.sizes.max()) == 1
        functions = _functions(self)
        self._losses, self._gradients, self._products, self._squares = (traced(f) for f in functions)

    def _linear(self) -> bool:
        """Whether this is logistic regression: one linear layer under cross-entropy, so every F_m is convex."""
        layers = self.net.layers() or []
        kinds = [layer.kind for layer in layers if layer.kind != "flatten"]
        return kinds == ["linear"] and self.data.loss is cross_entropy

    @property
    def convex(self) -> bool:
        """Whether every F_m is known to be."""
        return self.quadratic or self.linear

    # Points

    def flat(self, params: Params, lane: int = 0) -> Tensor:
        """One lane's parameters as a point."""
        return torch.cat([params[name][lane].flatten() for name in self.shapes]).to(torch.float64)

    def leaves(self, x: Tensor) -> Params:
        """A point as the model takes it."""
        parts = torch.split(x, [torch.Size(shape).numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def start(self) -> Tensor:
        """x0, where the setting's run begins."""
        return self.flat(self.net.init([self.setting.seed]))

    # Samples

    def groups(self, chosen: Sequence[int]) -> Iterator[tuple[list[int], Group]]:
        """Clients side by side, those of about equal size together, as many as a block of samples may hold."""
        size = self.sizes.tolist()
        left = sorted(chosen, key=lambda m: size[m])
        while left:
            most = max(1, self.room // (self._bytes_each * max(1, size[left[0]])))
            some, left = (left[:1], left[1:]) if looped(self.net) else (left[:most], left[most:])
            yield some, self._group(some)

    def _group(self, some: list[int]) -> Group:
        first, count = self.table.start[0, some].unsqueeze(1), self.sizes[some].unsqueeze(1)
        place = torch.arange(int(count.max()), device=self.device)
        inside = place < count
        at = self.table.samples[(first + place).clamp(max=len(self.table.samples) - 1)]
        return Group(at, inside / count.to(torch.float64))

    def together(self, chosen: Sequence[int]) -> Group:
        """The mean of some F_m as one function; of all of them, F itself: samples weighted by 1 / (clients n_m)."""
        size = self.sizes[list(chosen)]
        first = self.table.start[0, list(chosen)] - (size.cumsum(0) - size)
        place = torch.arange(int(size.sum()), device=self.device) + first.repeat_interleave(size)
        weight = (1.0 / (len(chosen) * size.to(torch.float64))).repeat_interleave(size)
        return Group(self.table.samples[place].unsqueeze(0), weight.unsqueeze(0))

    # Functions of a point: each a sum over blocks of samples

    def losses(self, x: Tensor, group: Group) -> Tensor:
        """F_m(x) of each: [C]."""
        found = self._summed(lambda *block: self._losses(x, *block), group, 1, 1)
        return found + self.decay / 2 * x.square().sum()

    def gradients(self, x: Tensor, group: Group) -> Tensor:
        """Gradients of F_m at x: [C, d]."""
        return self._summed(lambda *block: self._gradients(x, *block), group, 1, GRADIENT) + self.decay * x

    def products(self, x: Tensor, v: Tensor, group: Group) -> Tensor:
        """Each Hessian at x times its own vectors: v [C, s, d] -> [C, s, d]."""
        count = v.shape[1]
        found = self._summed(lambda *block: self._products(x, v, *block), group, 1 + count, GRADIENT + count * PRODUCT)
        return found + self.decay * v

    def squares(self, x: Tensor, group: Group) -> Tensor:
        """The mean of |grad|^2 over each one's samples, loss only: [C]."""
        width = 1 + 8 * self.size // self._bytes_each
        return self._summed(lambda *block: self._squares(x, *block), group, width, GRADIENT)

    def _summed(self, function: Callable[..., Tensor], group: Group, copies: int, passes: int) -> Tensor:
        """Blocks of equal shape, so that each function is recorded once: the last is filled up with weight 0.

        passes: forward passes that one sample takes.
        """
        lanes, count = group.places.shape
        most = max(1, self.room // (self._bytes_each * lanes * copies))
        blocks = -(-count // most)
        size = -(-count // blocks)
        total: Tensor | float = 0.0
        for i in range(blocks):
            places, weight = (field[:, i * size : (i + 1) * size] for field in group)
            if places.shape[1] < size:
                more = size - places.shape[1]
                places = torch.cat([places, places[:, :1].expand(-1, more)], 1)
                weight = torch.cat([weight, weight.new_zeros(lanes, more)], 1)
            total = total + function(self.table.x[places], self.table.y[places], weight)
            self.spend(passes * places.numel())
        assert isinstance(total, Tensor)
        return total


def _functions(objective: Objective) -> tuple[Callable[..., Tensor], ...]:
    """Loss, gradient, products of the Hessian, mean |grad|^2: functions of x [d] and the samples of clients [C]."""
    net, data, leaves = objective.net, objective.data, objective.leaves

    def each(x: Tensor, samples: Tensor, labels: Tensor) -> Tensor:
        return data.loss(net.evaluate(leaves(x), prepared(data, samples, torch.float64)), labels)

    def loss(x: Tensor, samples: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        return (each(x, samples, labels) * weight).sum()

    def product(x: Tensor, v: Tensor, samples: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        pull = vjp(lambda at: grad(loss)(at, samples, labels, weight), x)[1]
        found: Tensor = vmap(pull)(v)[0]  # the Hessian is its own transpose, so pulling back is multiplying
        return found

    def square(x: Tensor, samples: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        def one(at: Tensor, sample: Tensor, label: Tensor) -> Tensor:
            return each(at, sample.unsqueeze(0), label.unsqueeze(0)).sum()

        found: Tensor = vmap(grad(one), (None, 0, 0))(x, samples, labels)  # [n, d]
        return (found.square().sum(1) * weight).sum()

    shared = (None, 0, 0, 0)
    return vmap(loss, shared), vmap(grad(loss), shared), vmap(product, (None, 0, 0, 0, 0)), vmap(square, shared)
