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
from baton.metrics import predicted
from baton.metrics.base import lost_rows
from baton.simulate import personal as own
from baton.simulate.asked import Asked, HeldRows
from baton.store.sites import Measured

Values = dict[str, NDArray[np.float64]]  # metric -> [L]; of sites [L, k]

BLOCK = 2_000_000  # outputs held at once, over all lanes


class Evaluator:
    """Loss and accuracy: test data, held-back data, participants' and random clients' training data; what is asked."""

    def __init__(
        self,
        legs: Legs,
        data: Dataset,
        clients: Clients,
        lanes: Lanes,
        optima: list[Optimum] | None,
        asked: Asked | None = None,
    ) -> None:
        self.legs, self.clients, self.lanes, self.asked = legs, clients, lanes, asked
        self.data, self.labelled = data, data.classes > 0
        self.of_lane = clients.dataset[lanes.partition]  # [L]
        self.optimum = _stack(optima, self.of_lane, lanes.lr) if optima else None

    def __call__(self, params: Params, round: int, participants: Tensor, personal: Params | None = None) -> Values:
        """All of MEASURED, and what is asked.

        participants [L, S]: those of the round that ended (of the first one, at round 0); personal: the model that each
        client uses [L, M, ...], where it is not the same for all.
        """
        found = self.on_test(params, personal)
        if self.clients.held is not None:
            found |= self.on_held(params, self.clients.held, personal)
        train = self._train(params, participants, personal)
        found |= self._named("train", train)
        total = self.clients.start.shape[1] - 1
        if participants.shape[1] < total:
            key = rng.bits(self.lanes.seed, rng.EVALUATE, round)
            chosen = rng.choose(key, total, participants.shape[1])
            train = self._train(params, chosen, personal)
        else:  # random clients are all clients, as are those who took part, if none came twice
            every = torch.arange(total, device=participants.device)
            once = (participants.sort(1).values == every).all(1, keepdim=True)
            if not bool(once.all()):
                train = self._train(params, torch.where(once, participants, every), personal)
        return found | self._named("train_random", train)

    def exact(self, params: Params) -> Values:
        """|x - x*| and F(x) - F* where the optimum is known."""
        if self.optimum is None:
            return {}
        away = params["x"] - self.optimum.x  # [L, d]
        gap = torch.einsum("li,lij,lj->l", away, self.optimum.hessian, away) / 2
        return {"distance": _numpy(away.norm(dim=1)), "objective_gap": _numpy(gap)}

    def on_test(self, params: Params, personal: Params | None = None) -> Values:
        """Loss, accuracy and what is asked, of the test set."""
        asked = self.asked
        if personal is not None and asked is not None:
            if asked.owner is None:
                return own.by_class(self.legs, personal, self.clients, self.data, asked)
            given = own.answers(self.legs, personal, self.clients, asked.owner, asked.of_lane)
            return self._answered(*given) | asked.of(*given)
        outputs: list[Tensor] | None = None if asked is None else []
        found = self._named("test", self._test(params, outputs))
        return found if asked is None or outputs is None else found | asked.of(torch.cat(outputs, 1))

    def on_held(self, params: Params, held: Tensor, personal: Params | None = None) -> Values:
        """Loss, accuracy and what is asked, of the samples [P, T] that clients hold back, and how many they are."""
        outputs: list[Tensor] | None = None if self.asked is None else []
        sums = self._held(params, held, personal, outputs)
        found = self._named("validation", sums) | {"validation_rows": _numpy(sums[2])}
        if self.asked is None or outputs is None or self.clients.held_by is None:
            return found
        rows = HeldRows(held.cpu(), self.clients.held_by.cpu(), self.clients.y)
        return found | self.asked.of_held(torch.cat(outputs, 1), rows)

    @property
    def measured(self) -> Measured | None:
        """The sites whose metrics are taken; None: none are."""
        return self.asked.measured if self.asked else None

    def _named(self, prefix: str, sums: Tensor) -> Values:
        loss, right, count = sums
        found = {f"{prefix}_loss": _numpy(loss / count)}
        return found | ({f"{prefix}_accuracy": _numpy(100 * (right / count))} if self.labelled else {})

    def _test(self, params: Params, keep: list[Tensor] | None) -> Tensor:
        count = self.clients.test_y.shape[1]
        pool, labels = self.clients.test_x.flatten(0, 1), self.clients.test_y.flatten()
        places = torch.arange(count, device=labels.device)
        if len(labels) > count:  # lanes of several data sets
            places = self.of_lane.unsqueeze(1) * count + places
        return self._sums(params, pool, labels, places, torch.ones_like(places, dtype=torch.bool), keep)

    def _answered(self, outputs: Tensor, known: Tensor) -> Values:
        """Of outputs [L, n, ...] that are there already; known [D, n]: rows that count."""
        of_lane = self.of_lane.cpu()
        return self._named("test", self._add(outputs, self.clients.test_y.cpu()[of_lane], known[of_lane]))

    def _held(self, params: Params, held: Tensor, personal: Params | None, keep: list[Tensor] | None = None) -> Tensor:
        """Of samples held back [P, T], each told by the model that its client uses; keep: takes the outputs."""
        own_rows, pool = held[0] if len(held) == 1 else held[self.lanes.partition], self.clients
        places, there = own_rows.clamp(min=0), own_rows >= 0
        if personal is None or pool.held_by is None:
            return self._sums(params, pool.x, pool.y, places, there, keep)
        whose, every = pool.held_by[self.lanes.partition], torch.arange(len(self.lanes.seed), device=held.device)
        each, outputs = [], None
        for m in range(pool.start.shape[1] - 1):
            model, mine = own.of_client(personal, every, torch.full_like(every, m)), whose == m
            blocks: list[Tensor] | None = None if keep is None else []
            each.append(self._sums(model, pool.x, pool.y, places, mine, blocks))
            if blocks:
                made = torch.cat(blocks, 1)
                outputs = (
                    made if outputs is None else made.where(mine.view(*mine.shape, *[1] * (made.dim() - 2)), outputs)
                )
        if keep is not None and outputs is not None:
            keep.append(outputs)
        return torch.stack(each).sum(0)

    def _train(self, params: Params, chosen: Tensor, personal: Params | None) -> Tensor:
        if personal is None:
            places, weight = members(self.clients, self.lanes, chosen)
            return self._sums(params, self.clients.x, self.clients.y, places, weight)
        total, every = torch.zeros(3, len(chosen), dtype=torch.float64, device=chosen.device), torch.arange(len(chosen))
        for client in chosen.unbind(1):
            places, weight = members(self.clients, self.lanes, client.unsqueeze(1))
            mine = own.of_client(personal, every, client)
            total += self._sums(mine, self.clients.x, self.clients.y, places, weight)
        return total

    def _sums(
        self,
        params: Params,
        pool: Tensor,
        labels: Tensor,
        places: Tensor,
        weight: Tensor,
        keep: list[Tensor] | None = None,
    ) -> Tensor:
        """Loss, right answers and rows over places [n] or [L, n], in float64: [3, L]; keep: takes the outputs."""
        sums, size = [], max(1, BLOCK // len(self.lanes.seed))
        for at, w in zip(torch.split(places, size, -1), torch.split(weight, size, -1), strict=True):
            output = self.legs.outputs(params, pool, at)  # [L, n, ...]
            sums.append(self._add(output, labels[at].expand(output.shape[:2]), w))
            if keep is not None:
                keep.append(output)
        return torch.stack(sums).sum(0)

    def _add(self, output: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """[L, n, ...], [L, n], [n] or [L, n] -> [3, L]."""
        each = self.data.loss(output.flatten(0, 1), y.flatten()).view(y.shape)
        right = predicted(output) == y if self.labelled else torch.ones_like(w.expand(y.shape))
        told = torch.where(lost_rows(output), torch.nan, right.double())  # no class is predicted by nan
        loss, told = (torch.where(w, x, 0.0).double().sum(1) for x in (each, told))
        return torch.stack([loss, told, w.expand(y.shape).sum(1).double()])


def _stack(optima: list[Optimum], of_lane: Tensor, like: Tensor) -> Optimum:
    x, hessian = (torch.stack([o[i] for o in optima]).to(like.device, like.dtype)[of_lane] for i in (0, 1))
    return Optimum(x, hessian)


def _numpy(x: Tensor) -> NDArray[np.float64]:
    return x.double().cpu().numpy()
