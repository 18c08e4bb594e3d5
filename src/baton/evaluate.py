"""Metrics of each lane. Draws only with its own keys, so that evaluating cannot change training."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import rng
from baton.clients import Clients, members
from baton.datasets import Dataset, Optimum, prepared
from baton.lanes import Lanes, Params
from baton.nn import Net, looped, mapped

Block = tuple[Tensor, Tensor, Tensor]  # x, y, weight
Values = dict[str, NDArray[np.float64]]  # metric -> [L]

COLUMNS = (
    "test_loss",
    "test_accuracy",
    "train_loss",
    "train_accuracy",
    "train_random_loss",
    "train_random_accuracy",
)
EXACT = ("distance", "objective_gap")  # of quadratics, at every round
BLOCK_BYTES = 128 << 20  # what one block of samples may take over all lanes
CACHE_BYTES = 16 << 20  # the same where lanes go one after another: what stays close to the core


class Evaluator:
    """Loss and accuracy on test data, on the participants' and on random clients' training data."""

    def __init__(self, net: Net, data: Dataset, clients: Clients, lanes: Lanes, optima: list[Optimum] | None) -> None:
        self.net, self.clients, self.lanes = net, clients, lanes
        self.data, self.labelled = data, data.classes > 0
        sample = prepared(data, clients.x[:1], net.dtype)[0]
        numbers = 2 * sample.numel() + 2 * net.activations(sample)
        bytes_each = numbers * sample.element_size()
        at_once = CACHE_BYTES // bytes_each if looped(net) else BLOCK_BYTES // (bytes_each * len(lanes.seed))
        self.block = max(1, at_once)
        self.of_lane = clients.dataset[lanes.partition]  # [L]
        self.optimum = _stack(optima, self.of_lane, sample) if optima else None

    def __call__(self, params: Params, round: int, participants: Tensor) -> Values:
        """All of COLUMNS; participants [L, S] are those of the round that ended (of the first one, at round 0)."""
        found = self._named("test", *self._test(params))
        train = self._mean(params, *members(self.clients, self.lanes, participants))
        found |= self._named("train", *train)
        total = self.clients.start.shape[1] - 1
        if participants.shape[1] < total:
            key = rng.bits(self.lanes.seed, rng.EVALUATE, round)
            chosen = rng.choose(key, total, participants.shape[1])
            train = self._mean(params, *members(self.clients, self.lanes, chosen))
        return found | self._named("train_random", *train)  # with S = M random clients are all clients

    def exact(self, params: Params) -> Values:
        """|x - x*| and F(x) - F* where the optimum is known."""
        if self.optimum is None:
            return {}
        away = params["x"] - self.optimum.x  # [L, d]
        gap = torch.einsum("li,lij,lj->l", away, self.optimum.hessian, away) / 2
        return {"distance": _numpy(away.norm(dim=1)), "objective_gap": _numpy(gap)}

    def _named(self, prefix: str, loss: Tensor, accuracy: Tensor) -> Values:
        found = {f"{prefix}_loss": _numpy(loss)}
        return found | ({f"{prefix}_accuracy": _numpy(100 * accuracy)} if self.labelled else {})

    def _test(self, params: Params) -> tuple[Tensor, Tensor]:
        x, y = self.clients.test_x, self.clients.test_y
        if len(x) > 1:  # lanes of several data sets
            x, y = x[self.of_lane], y[self.of_lane]
            ones = torch.ones_like(y, dtype=torch.bool)
            return self._blocks(params, [(x[:, i], y[:, i], ones[:, i]) for i in self._slices(y.shape[1])])
        ones = torch.ones_like(y[0], dtype=torch.bool)
        return self._blocks(params, [(x[0, i], y[0, i], ones[i]) for i in self._slices(y.shape[1])], shared=True)

    def _mean(self, params: Params, index: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        cut = ((index[:, i], weight[:, i]) for i in self._slices(index.shape[1]))
        return self._blocks(params, ((self.clients.x[at], self.clients.y[at], w) for at, w in cut))

    def _slices(self, count: int) -> list[slice]:
        return [slice(i, min(i + self.block, count)) for i in range(0, count, self.block)]

    def _blocks(self, params: Params, blocks: Iterable[Block], shared: bool = False) -> tuple[Tensor, Tensor]:
        """Mean loss and share of right answers over blocks of (x, y, weight), summed in float64: [L], [L]."""

        def one(params: Params, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            output = self.net.evaluate(params, prepared(self.data, x, self.net.dtype))
            loss = torch.where(weight, self.data.loss(output, y), 0.0).double().sum()
            right = (output.argmax(-1) == y) & weight if self.labelled else weight
            return loss, right.sum(), weight.sum()

        run = mapped(one, self.net, shared)
        sums = [torch.stack([part.double() for part in run(params, *block)]) for block in blocks]
        loss, right, count = torch.stack(sums).sum(0)
        return loss / count, right / count


def _stack(optima: list[Optimum], of_lane: Tensor, like: Tensor) -> Optimum:
    x, hessian = (torch.stack([o[i] for o in optima]).to(like.device, like.dtype)[of_lane] for i in (0, 1))
    return Optimum(x, hessian)


def _numpy(x: Tensor) -> NDArray[np.float64]:
    return x.double().cpu().numpy()
