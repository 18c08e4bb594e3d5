"""All that the reference takes from Baton: who holds what, orders, minibatch places, first weights and coin flips."""

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from baton import clients, datasets, rng
from baton.clients.held import held_back
from baton.setting import Setting
from baton.simulate.engine import Program
from reference.problems import Array, Samples

Places = NDArray[np.int64]


class Given:
    """The draws of one run, and the rows that they point at."""

    def __init__(self, setting: Setting) -> None:
        self.setting = s = setting
        self.program = Program([s], torch.device("cpu"))
        data = datasets.load(s.dataset, s.clients)
        x, y, test_x, test_y = (_array(part) for part in (data.x, data.y, data.test_x, data.test_y))
        weight = np.ones(len(y)) if data.weight is None else _array(data.weight)
        self.train = Samples(x.reshape(len(x), -1), y, weight)
        self.test = Samples(test_x.reshape(len(test_x), -1), test_y, np.ones(len(test_y)))
        self.classes = data.classes
        self.test_owner = None if data.test_owner is None else data.test_owner.numpy()
        self.owned = self.test_owner is not None and s.partition == "natural"
        self.optimum = data.optimum and (_array(data.optimum.x), _array(data.optimum.hessian))
        owner = clients.owners(s.dataset, s.partition, s.clients)
        held = held_back(owner, data.y.numpy(), s.validation) if s.validation else np.zeros(len(y), bool)
        self.rows = [np.flatnonzero((owner == m) & ~held) for m in range(s.clients)]
        self.held_rows = [np.flatnonzero((owner == m) & held) for m in range(s.clients)]

    @cached_property
    def leaves(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter, in the order in which the reference lays them in a row."""
        return self.program.net.sizes()

    def flat(self, leaves: dict[str, torch.Tensor]) -> Array:
        """Return parameters [..., each leaf's shape] as one vector [..., n]."""
        parts = []
        for name, shape in self.leaves.items():
            leaf = np.asarray(leaves[name], dtype=np.float64)
            parts.append(leaf.reshape(*leaf.shape[: leaf.ndim - len(shape)], -1))
        return np.concatenate(parts, -1)

    def first(self) -> Array:
        """Return the first weights."""
        return self.flat({name: leaf[0] for name, leaf in self.program.net.init([self.setting.seed]).items()})

    def order(self, number: int) -> list[int]:
        """Return who takes part in a round."""
        return self.program.order(number)[0].tolist()

    def places(self, number: int, client: int, visit: int) -> Places:
        """Return the rows that a visit draws [steps, b], whichever of them count."""
        return self.program.draw(number, torch.tensor([[client]]), visit).places[0].numpy()

    def pooled_places(self, number: int) -> Places:
        """Return the rows that a leg on everybody's samples draws."""
        return self.program.draw_pool(number).places[0].numpy()

    def coin(self, number: int, client: int, attempt: int, again: int) -> float:
        """Return the number in [0, 1) that a leg is lost by; again: how often its client came earlier in the order."""
        key = rng.bits(self._seed, rng.FAILURE, number, client, attempt)
        return float(rng.uniform(rng.bits(key, again) if again else key))

    def stand_ins(self, number: int, count: int) -> list[int]:
        """Return different clients in random order, to be asked in the place of others."""
        return rng.choose(rng.bits(self._seed, rng.REROUTE, number), self.setting.clients, count).tolist()

    def random_clients(self, number: int) -> list[int]:
        """Return the S clients that the columns train_random_ are measured on."""
        s = self.setting
        return rng.choose(rng.bits(self._seed, rng.EVALUATE, number), s.clients, s.participants).tolist()

    @cached_property
    def _seed(self) -> torch.Tensor:
        return torch.tensor(self.setting.seed)


def _array(x: torch.Tensor) -> Array:
    return x.to(torch.float64).numpy()
