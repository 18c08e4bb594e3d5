"""A network's losses, gradients and Hessian products in float32, by blocks of samples, a block a core.

Blocks are added up in float64, in their order. On a CPU each core takes the next block: that stays quick where cores
are wanted elsewhere too, and a second thread inside one block does not.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from baton.constants.objective import Objective
from baton.constants.work import GRADIENT, PRODUCT
from baton.datasets.base import prepared
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate.arithmetic import cores
from baton.simulate.memory import readable
from baton.simulate.program import net_of

T = TypeVar("T")

BLOCK, GPU_BLOCK = 32, 128  # samples
KEPT = 6  # times what the layers put out: what differentiating twice keeps of a sample


Part = tuple[Tensor, Tensor]  # places [n] in the pool, and what each counts


class Graph(NamedTuple):
    """A block's gradient that can be differentiated again."""

    leaves: list[Tensor]
    slopes: list[Tensor]


class Blocks:
    """Sums over samples at a point x [d] in float64; `weight` [n] says what each sample counts."""

    def __init__(self, objective: Objective, memory: int, spend: Callable[[float], None]) -> None:
        """memory: bytes that blocks may take at once, and what is kept of them. spend: told of forward passes."""
        self.objective, self.memory, self.spend = objective, memory, spend
        setting = Setting(**{**objective.setting.model_dump(), "dtype": "float32"})
        self.net = net_of(setting, objective.data, objective.device)
        sample = prepared(objective.data, objective.table.x[:1], torch.float32)[0]
        self.each = 4 * (2 * sample.numel() + KEPT * self.net.activations(sample))
        own = self.each + 8 * self.net.size()  # of a block of one sample
        if memory < own + 8 * 16 * self.net.size():
            need = own + 8 * 16 * self.net.size()
            raise BadInput(f"memory: {readable(memory)}; this model takes {readable(need)} at least")
        gpu = objective.device.type == "cuda"
        self.block = max(1, min(GPU_BLOCK if gpu else BLOCK, memory // 4 // self.each))
        fits = max(1, memory // 4 // (self.block * self.each + 8 * self.net.size()))
        self.threads = 1 if gpu else min(cores(), fits)
        self._pool = ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,))

    def close(self) -> None:
        """Blocks that were not begun are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def cut(self, places: Tensor, weight: Tensor) -> list[Part]:
        """Samples [n] as blocks of about equal size."""
        blocks = -(-len(places) // self.block)
        return list(zip(places.tensor_split(blocks), weight.tensor_split(blocks), strict=True))

    def each_of(
        self, function: Callable[..., T], given: Sequence[Part], passes: float, *more: Sequence[Any]
    ) -> Iterator[T]:
        """function of each block, and what `more` has for it, in order; passes: forward passes of one sample."""
        made = self._pool.map(lambda part, *own: function(*part, *own), given, *more)
        for (places, _), found in zip(given, made, strict=True):
            self.spend(passes * len(places))
            yield found

    # One block

    def _leaves(self, x: Tensor) -> list[Tensor]:
        """A point as parameters that can be differentiated by."""
        return [leaf.to(torch.float32).requires_grad_() for leaf in self.objective.leaves(x.detach()).values()]

    def _losses(self, leaves: list[Tensor], places: Tensor) -> Tensor:
        o = self.objective
        params = dict(zip(o.shapes, leaves, strict=True))
        output = self.net.evaluate(params, prepared(o.data, o.table.x[places], torch.float32))
        found: Tensor = o.data.loss(output, o.table.y[places])
        return found

    def slope(self, x: Tensor, places: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [n], and the gradient of their weighted sum [d] in float32."""
        leaves = self._leaves(x)
        losses = self._losses(leaves, places)
        found = torch.autograd.grad((losses * weight.to(losses.dtype)).sum(), leaves, materialize_grads=True)
        return losses.detach().to(torch.float64), _flat(found)

    def graph(self, x: Tensor, places: Tensor, weight: Tensor) -> Graph:
        """The same, to be differentiated again."""
        leaves = self._leaves(x)
        total = (self._losses(leaves, places) * weight.to(torch.float32)).sum()
        return Graph(leaves, list(torch.autograd.grad(total, leaves, create_graph=True, materialize_grads=True)))

    # Sums

    def gradient(self, x: Tensor, places: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [n], and the gradient of their weighted sum [d] in float64."""
        losses, total = [], torch.zeros_like(x)
        for loss, slope in self.each_of(partial(self.slope, x), self.cut(places, weight), GRADIENT):
            losses.append(loss)
            total += slope
        return torch.cat(losses), total


class Curvature:
    """The Hessian at x of the weighted sum of some samples' losses: its products. Graphs are kept where they fit."""

    def __init__(self, blocks: Blocks, x: Tensor, places: Tensor, weight: Tensor) -> None:
        self.blocks, self.x, self.samples = blocks, x, blocks.cut(places, weight)
        fits = len(places) * blocks.each + 4 * len(self.samples) * len(x) <= blocks.memory // 2
        made = blocks.each_of(partial(blocks.graph, x), self.samples, GRADIENT) if fits else iter(())
        self._kept: list[Graph] = list(made)

    def gradient(self) -> Tensor:
        """Of the same sum [d]."""
        if not self._kept:
            return self.blocks.gradient(self.x, *map(torch.cat, zip(*self.samples, strict=True)))[1]
        total = torch.zeros_like(self.x)
        for graph in self._kept:
            total += _flat([slope.detach() for slope in graph.slopes])
        return total

    def products(self, vectors: Tensor) -> Tensor:
        """The Hessian times each of these [k, d] -> [k, d], in float64."""
        parts = [self._split(vector) for vector in vectors.to(torch.float32)]
        total = torch.zeros_like(vectors)
        passes = PRODUCT * len(parts) + (0 if self._kept else GRADIENT)
        kept: Sequence[Graph | None] = self._kept or [None] * len(self.samples)
        for found in self.blocks.each_of(partial(self._block, parts), self.samples, passes, kept):
            for row, image in zip(total, found, strict=True):
                row += image
        return total

    def _split(self, vector: Tensor) -> list[Tensor]:
        return list(self.blocks.objective.leaves(vector).values())

    def _block(self, parts: list[list[Tensor]], places: Tensor, weight: Tensor, kept: Graph | None) -> list[Tensor]:
        graph = kept or self.blocks.graph(self.x, places, weight)
        bent = [i for i, slope in enumerate(graph.slopes) if slope.requires_grad]
        slopes = [graph.slopes[i] for i in bent]
        return [
            _flat(
                torch.autograd.grad(
                    slopes, graph.leaves, [part[i] for i in bent], retain_graph=True, materialize_grads=True
                )
            )
            for part in parts
        ]


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])
