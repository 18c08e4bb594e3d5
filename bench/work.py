"""The work that every side does: the paper's rounds, 500 clients, S = 10, K = 5, b = 20, without evaluation."""

import sys
from functools import lru_cache
from typing import NamedTuple

import torch

from baton import clients, datasets
from baton.datasets import Dataset
from baton.datasets.find import find
from baton.errors import BadInput
from baton.setting import Setting

DATA = {
    "logistic": "mnist",
    "mlp": "mnist",
    "lenet5": "mnist",
    "cnn": "fashion_mnist",
    "vgg9": "cifar10",
    "resnet18": "cifar10",
}
CLIENTS = 500
NEVER = 10**9  # rounds, and rounds between evaluations


@lru_cache
def here(name: str) -> str:
    """The data set's spec: its own, or that of noise in its shape where the files are not found."""
    try:
        find(name)
    except BadInput as missing:
        print(f"{missing}; noise stands for {name}, the work is the same", file=sys.stderr)
        return f"noise:{name}"
    return name


def load(dataset: str) -> Dataset:
    """The samples of a spec."""
    return datasets.load(dataset, CLIENTS)


class Work(NamedTuple):
    """What is trained, but for the number of lanes."""

    model: str
    algorithm: str = "sequential"
    clip: float = 0.0
    weight_decay: float = 0.0
    device: torch.device = torch.device("cpu")

    @property
    def dataset(self) -> str:
        """The spec of the model's data set."""
        return here(DATA[self.model])

    def setting(self, lane: int) -> Setting:
        """One run. Lanes differ in seed and learning rate, which is so small that none diverges."""
        return Setting(
            dataset=self.dataset,
            partition="exdir:C=1,alpha=10",
            model=self.model,
            algorithm=self.algorithm,
            clients=CLIENTS,
            participants=10,
            local_steps=5,
            batch_size=20,
            rounds=NEVER,
            eval_every=NEVER,
            lr=0.001 * (1 + lane / 1000),
            clip=self.clip,
            weight_decay=self.weight_decay,
            seed=1 + lane,
        )

    def held(self) -> list[torch.Tensor]:
        """Each client's samples, as places in the data set."""
        s = self.setting(0)
        owner = torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients))
        return [(owner == m).nonzero().squeeze(1) for m in range(s.clients)]
