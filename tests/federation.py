"""Sites in this process with their own samples, and what goes wrong with them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from baton import clients, datasets
from baton.algorithms import ALGORITHMS
from baton.deploy.coordinator import Coordinator
from baton.deploy.policy import Policy
from baton.deploy.rules import Desk, Rules
from baton.deploy.site import Samples, Site
from baton.deploy.transport import InProcess, Lost
from baton.setting import Setting
from baton.store import Store

CLIENTS = 5
Bend = Callable[[str, bytes, bytes], bytes]  # (site, what it was asked, what it says) -> what arrives


def setting(spec: str, **more: object) -> Setting:
    """A small run over five very unequal sites."""
    base = {"model": "mlp:hidden=6", "clients": CLIENTS, "participants": 4, "partition": "dirichlet:alpha=0.5"}
    numbers = {"local_steps": 3, "batch_size": 16, "rounds": 3, "lr": 0.07, "clip": 0.8, "weight_decay": 0.01}
    return Setting(**{**base, **numbers, "seed": 5, "algorithm": spec, "eval_every": 3, "failures": "real", **more})


def simulated(s: Setting) -> Setting:
    """The same run, as it is simulated."""
    return Setting(**{**s.model_dump(), "failures": "none"})


def samples(s: Setting) -> list[Samples]:
    """What each site holds; test samples are dealt out."""
    data = datasets.load(s.dataset, s.clients)
    owner = torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients).copy())
    turn = torch.arange(len(data.test_y)) % s.clients
    return [
        Samples(data.x[owner == m], data.y[owner == m], data.test_x[turn == m], data.test_y[turn == m])
        for m in range(s.clients)
    ]


class Field(InProcess):
    """Sites in this process; each call is counted, and may be lost or bent on its way."""

    def __init__(self, s: Setting, folder: Path, policy: Policy | None = None) -> None:
        held, self.folder = samples(s), folder
        self.policy = policy or Policy(least_samples=0, algorithms=list(ALGORITHMS))  # split methods too
        self.held = {f"site-{m}": mine for m, mine in enumerate(held)}
        self.calls: list[str] = []
        self.losing: Callable[[str, int], bool] = lambda _site, _number: False
        self.late: Callable[[str, int], bool] = lambda _site, _number: False  # trained there, and nobody hears of it
        self.bend: Bend | None = None
        super().__init__({site: self.new(site).handle for site in self.held})

    def new(self, site: str) -> Site:
        """As after a restart: what it kept is on its disk."""
        place = self.folder / site
        place.mkdir(parents=True, exist_ok=True)
        return Site(self.held[site], self.policy, place)

    def restart(self, site: str) -> None:
        self.sites[site] = self.new(site).handle

    def call(self, site: str, frame: bytes, seconds: float) -> bytes:
        number = len(self.calls)
        self.calls.append(site)
        if self.losing(site, number):
            raise Lost(site)
        got = super().call(site, frame, seconds)
        if self.late(site, number):
            raise Lost(site)
        return self.bend(site, frame, got) if self.bend else got


def rules(field: Field, **more: object) -> Rules:
    return Rules(tuple(field.sites), ping=0.01)._replace(**more)


def train(s: Setting, field: Field, store: Store, desk: Desk | None = None, **more: object) -> None:
    Coordinator(s, rules(field, **more), field, store, desk).run()


def fields(specs: list[str], folder: Path) -> Iterator[tuple[Setting, Field, Store]]:
    """One a spec."""
    for i, spec in enumerate(specs):
        s = setting(spec)
        yield s, Field(s, folder / f"field-{i}"), Store(folder / f"runs-{i}")
