"""Metrics of each lane. Draws only with its own keys, so that evaluating cannot change training."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import rng
from baton.clients import Clients, members
from baton.datasets import Dataset, Optimum
from baton.lanes import Lanes, Params
from baton.legs import Legs

Means = tuple[Tensor, Tensor]  # loss [L], share of right answers [L]
Values = dict[str, NDArray[np.float64]]  # metric -> [L]

BLOCK = 2_000_000  # outputs held at once, over all lanes


class Evaluator:
    """Loss and accuracy on test data, on training data of the participants and of random clients, on held-back data."""

    def __init__(self, legs: Legs, data: Dataset, clients: Clients, lanes: Lanes, optima: list[Optimum] | None) -> None:
        self.legs, self.clients, self.lanes = legs, clients, lanes
        self.data, self.labelled = data, data.classes > 0
        self.of_lane = clients.dataset[lanes.partition]  # [L]
        self.optimum = _stack(optima, self.of_lane, lanes.lr) if optima else None

    def __call__(self, params: Params, round: int, participants: Tensor) -> Values:
        """All of MEASURED; participants [L, S] are those of the round that ended (of the first one, at round 0)."""
        found = self._named("test", *self._test(params))
        if self.clients.held is not None:
            found |= self._named("validation", *self._held(params, self.clients.held))
        train = self._train(params, participants)
        found |= self._named("train", *train)
        total = self.clients.start.shape[1] - 1
        if participants.shape[1] < total:
            key = rng.bits(self.lanes.seed, rng.EVALUATE, round)
            chosen = rng.choose(key, total, participants.shape[1])
            train = self._train(params, chosen)
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

    def _test(self, params: Params) -> Means:
        count = self.clients.test_y.shape[1]
        pool, labels = self.clients.test_x.flatten(0, 1), self.clients.test_y.flatten()
        places = torch.arange(count, device=labels.device)
        if len(labels) > count:  # lanes of several data sets
            places = self.of_lane.unsqueeze(1) * count + places
        return self._mean(params, pool, labels, places, torch.ones_like(places, dtype=torch.bool))

    def _held(self, params: Params, held: Tensor) -> Means:
        places = held[0] if len(held) == 1 else held[self.lanes.partition]
        return self._mean(params, self.clients.x, self.clients.y, places.clamp(min=0), places >= 0)

    def _train(self, params: Params, chosen: Tensor) -> Means:
        places, weight = members(self.clients, self.lanes, chosen)
        return self._mean(params, self.clients.x, self.clients.y, places, weight)

    def _mean(self, params: Params, pool: Tensor, labels: Tensor, places: Tensor, weight: Tensor) -> Means:
        """Mean loss and share of right answers over places [n] or [L, n], summed in float64: [L], [L]."""
        sums, size = [], max(1, BLOCK // len(self.lanes.seed))
        for at, w in zip(torch.split(places, size, -1), torch.split(weight, size, -1), strict=True):
            output = self.legs.outputs(params, pool, at)  # [L, n, ...]
            y = labels[at].expand(output.shape[:2])
            each = self.data.loss(output.flatten(0, 1), y.flatten()).view(y.shape)
            right = (output.argmax(-1) == y) & w if self.labelled else w.expand(y.shape)
            loss = torch.where(w, each, 0.0).double().sum(1)
            sums.append(torch.stack([loss, right.sum(1).double(), w.expand(y.shape).sum(1).double()]))
        loss, right, count = torch.stack(sums).sum(0)
        return loss / count, right / count


def _stack(optima: list[Optimum], of_lane: Tensor, like: Tensor) -> Optimum:
    x, hessian = (torch.stack([o[i] for o in optima]).to(like.device, like.dtype)[of_lane] for i in (0, 1))
    return Optimum(x, hessian)


def _numpy(x: Tensor) -> NDArray[np.float64]:
    return x.double().cpu().numpy()
