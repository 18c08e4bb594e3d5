"""The field's methods against what they did not write: exact limits, closed forms, plain PyTorch."""

import pytest
import torch
from torch import Tensor

from baton import clients, datasets
from baton.lanes import Params
from baton.setting import Setting
from baton.simulate.engine import Program, first
from baton.store import Snapshot
from contracts.examples import CPU, finish

WORLDS = {
    "digits": {"model": "mlp:hidden=6", "clients": 12, "partition": "dirichlet:alpha=0.5", "dtype": "float64"},
    "in C": {"model": "mlp:hidden=6", "clients": 12, "partition": "dirichlet:alpha=0.5", "dtype": "float32"},
    "quadratics": {"dataset": "quadratic_random:dim=3,sigma=1", "clients": 12},
}
EVERYWHERE = pytest.mark.parametrize("world", WORLDS)


def trained(spec: str, world: str, **more: object) -> Snapshot:
    base = {"participants": 6, "local_steps": 3, "rounds": 4, "lr": 0.05, "clip": 1.0, "weight_decay": 0.01}
    return finish([Setting(**{**WORLDS[world], **base, "seed": s, "algorithm": spec, **more}) for s in (1, 2)])[1]


def same(one: Snapshot, two: Snapshot, rounding: float = 0.0) -> None:
    scale = max(float(leaf.abs().max()) for leaf in one.state.model.values())
    for name, leaf in one.state.model.items():
        assert (two.state.model[name] - leaf).abs().max() <= rounding * scale, name


# --- limits


@EVERYWHERE
@pytest.mark.parametrize(
    ("spec", "limit", "rounding"),
    [
        ("fedprox:mu=0", "parallel", 0.0),
        ("fedprox:mu=0,weighting=size", "parallel:weighting=size", 0.0),
        ("fedseq:groups=1", "sequential", 0.0),
        ("fedseq:groups=6", "parallel:weighting=size", 0.0),
        ("fedseq:groups=6,weighting=uniform", "parallel", 0.0),
        ("fedavgm:beta=0", "parallel", 1e-15),  # x + (mean - x) is rounded
        ("fedavgm:beta=0,server_lr=0.5", "parallel:server_lr=0.5", 1e-15),
    ],
)
def test_limits(spec: str, limit: str, rounding: float, world: str) -> None:
    unit = 5e8 if WORLDS[world].get("dtype") == "float32" else 1.0
    same(trained(spec, world), trained(limit, world), 20 * rounding * unit)


@EVERYWHERE
def test_scaffold_begins_as_fedavg(world: str) -> None:
    """c = c_i = 0: its first round is parallel's, and only its first."""
    unit = 1e-6 if WORLDS[world].get("dtype") == "float32" else 1e-14
    same(trained("scaffold", world, rounds=1), trained("parallel", world, rounds=1), unit)
    with pytest.raises(AssertionError):
        same(trained("scaffold", world), trained("parallel", world), 1e-3)


@EVERYWHERE
@pytest.mark.parametrize("spec", ["fedprox:mu=0.5", "fedavgm", "scaffold", "fedseq:groups=2", "fedseq:groups=3"])
def test_they_are_not_their_limits(spec: str, world: str) -> None:
    for limit in ("parallel", "sequential"):
        with pytest.raises(AssertionError):
            same(trained(spec, world), trained(limit, world), 1e-4)


@EVERYWHERE
def test_a_strong_pull_stays_at_the_anchor(world: str) -> None:
    """lr mu = 1: each step goes back to where the leg began, and one gradient step from there."""
    pulled = trained("fedprox:mu=20", world, lr=0.05, rounds=1, clip=0.0, weight_decay=0.0)
    at = first(Program([Setting(**WORLDS[world], seed=s) for s in (1, 2)], CPU)).state.model
    free = trained("parallel", world, lr=0.05, rounds=1, clip=0.0, weight_decay=0.0)
    moved = {n: (pulled.state.model[n] - leaf).norm() for n, leaf in at.items()}
    assert all(moved[n] < (free.state.model[n] - leaf).norm() for n, leaf in at.items())


# --- against plain PyTorch


def by_hand(spec: str, s: Setting, x: Params) -> Params:
    """FedProx, FedAvgM and SCAFFOLD as their papers write them, with whole-client gradients of one lane."""
    name, _, words = spec.partition(":")
    options = {k: float(v) for k, _, v in (word.partition("=") for word in words.split(",") if word)}
    p = Program([s], CPU)
    data = datasets.load(s.dataset, s.clients)
    owner = torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients).copy())
    module = p.net.build().to(torch.float64)
    v = {n: torch.zeros_like(leaf) for n, leaf in x.items()}
    c = {n: torch.zeros_like(leaf) for n, leaf in x.items()}
    own = [{n: torch.zeros_like(leaf) for n, leaf in x.items()} for _ in range(s.clients)]

    def gradient(y: Params, m: int) -> Params:
        module.load_state_dict(y)
        mine = owner == m
        output = module(data.x[mine].to(torch.float64))
        loss = torch.nn.functional.cross_entropy(output, data.y[mine]) if data.classes else output.mean()
        return dict(zip(y, torch.autograd.grad(loss, list(module.parameters())), strict=True))

    for round in range(s.rounds):
        ends, changes = [], []
        for m in p.order(round)[0].tolist():
            y = {n: leaf.clone() for n, leaf in x.items()}
            for _ in range(s.local_steps):
                g = gradient(y, m)
                for n in y:
                    more = options.get("mu", 0.0) * (y[n] - x[n]) + (c[n] - own[m][n] if name == "scaffold" else 0.0)
                    y[n] = y[n] - s.lr * (g[n] + more)
            ends.append(y)
            if name == "scaffold":
                new = {n: own[m][n] - c[n] + (x[n] - y[n]) / (s.local_steps * s.lr) for n in x}
                changes.append({n: new[n] - own[m][n] for n in x})
                own[m] = new
        mean = {n: torch.stack([y[n] for y in ends]).mean(0) for n in x}
        if name == "fedavgm":
            v = {n: options["beta"] * v[n] + mean[n] - x[n] for n in x}
            x = {n: x[n] + options["server_lr"] * v[n] for n in x}
            continue
        if name == "scaffold":
            share = len(ends) / s.clients
            c = {n: c[n] + share * torch.stack([change[n] for change in changes]).mean(0) for n in x}
        rate = options.get("server_lr", 1.0)
        x = {n: x[n] + rate * (mean[n] - x[n]) for n in x}
    return x


@pytest.mark.parametrize("world", ["digits", "quadratics"])
@pytest.mark.parametrize(
    "spec", ["fedprox:mu=0.3", "fedavgm:beta=0.7,server_lr=0.8", "scaffold", "scaffold:server_lr=0.6"]
)
def test_rounds_are_those_of_a_plain_loop(spec: str, world: str) -> None:
    base = {**WORLDS[world], "clients": 6, "participants": 4, "local_steps": 3, "batch_size": 2000, "rounds": 5}
    base |= {"model": "logistic"} if world == "digits" else {"dataset": "quadratic_random:dim=3"}
    settings = [Setting(**base, lr=0.05, seed=s, algorithm=spec) for s in (1, 2)]
    program, last = finish(settings)
    for lane, s in enumerate(settings):
        begin = {n: leaf[0] for n, leaf in program.net.init([s.seed]).items()}
        for name, leaf in by_hand(spec, s, begin).items():
            torch.testing.assert_close(last.state.model[name][lane], leaf, rtol=1e-11, atol=1e-12)


# --- what SCAFFOLD is for


def test_scaffold_takes_the_drift_out() -> None:
    """Two quadratics, everybody in every round, no noise, K > 1: it converges to the optimum; FedAvg does not."""
    base = {"dataset": "quadratic:zeta=10,delta=1", "clients": 2, "local_steps": 10, "rounds": 400, "lr": 0.02}
    found = {
        spec: finish([Setting(**base, algorithm=spec, eval_every=400)])[1].history["distance"][-1][1][0]
        for spec in ("scaffold", "parallel")
    }
    assert found["scaffold"] < 1e-10
    assert found["parallel"] > 1e-2


def test_what_clients_keep_is_their_own_mean_direction() -> None:
    """After SCAFFOLD's first visit c_i is the mean of the leg's gradients: (x - y) / (K lr)."""
    s = Setting(**WORLDS["quadratics"], participants=4, local_steps=3, rounds=1, lr=0.05, algorithm="scaffold")
    program, last = finish([s])
    x, order = program.net.init([s.seed]), program.order(0)[0].tolist()
    for m in range(s.clients):
        held: Tensor = last.clients["x"][0, m]
        if m not in order:
            assert not held.any()
            continue
        alone = program.legs.train(x, *_leg(program, m))
        torch.testing.assert_close(held, (x["x"] - alone["x"])[0] / (3 * 0.05), rtol=1e-12, atol=1e-12)


def _leg(program: Program, client: int):
    from baton.legs.base import Step

    lanes = program.lanes
    return Step(lanes.lr, lanes.clip, lanes.weight_decay), program.draw(0, torch.tensor([[client]]))
