"""The field's methods against what they did not write: exact limits, closed forms, plain PyTorch."""

from functools import cache

import pytest
import torch
from torch import Tensor

from baton import clients, datasets
from baton.lanes import Params
from baton.seam import Cohort
from baton.setting import Setting
from baton.simulate.engine import Program, first
from baton.simulate.simulation import Simulation
from baton.store import Snapshot
from contracts.examples import CPU, finish

WORLDS = {
    "digits": {"model": "mlp:hidden=6", "clients": 12, "partition": "dirichlet:alpha=0.5", "dtype": "float64"},
    "in C": {"model": "mlp:hidden=6", "clients": 12, "partition": "dirichlet:alpha=0.5", "dtype": "float32"},
    "quadratics": {"dataset": "quadratic_random:dim=3,sigma=1", "clients": 12},
}
EVERYWHERE = pytest.mark.parametrize("world", WORLDS)


@cache  # a limit is compared with many
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
        ("fedseq:groups=6,weighting=size", "parallel:weighting=size", 0.0),
        ("fedseq:groups=6", "parallel", 0.0),
        ("fedavgm:beta=0", "parallel", 1e-15),  # x + (mean - x) is rounded
        ("fedavgm:beta=0,server_lr=0.5", "parallel:server_lr=0.5", 1e-15),
        ("fedavgm:beta=0,of=sequential", "sequential", 1e-15),
        ("fednova", "parallel", 0.0),  # equal tau
        ("fednova:weighting=size", "parallel:weighting=size", 0.0),
        ("sequential:mu=0,decay=1,ema=0", "sequential", 0.0),
        ("fedseqinter:groups=3,every=1", "fedseq:groups=3", 0.0),
        ("fedseqinter:groups=6,every=1", "parallel", 0.0),
        ("feddc:every=1", "parallel", 0.0),
        ("switch:after=0,then=fedprox:mu=0.3", "fedprox:mu=0.3", 0.0),
        ("switch:after=4,first=sequential", "sequential", 0.0),
        ("switch:after=0,then=scaffold", "scaffold", 1e-15),
        ("switch:after=4,first=feddyn,then=scaffold", "feddyn", 1e-15),
        ("amplified:every=3", "parallel", 0.0),
        ("amplified:every=3,of=sequential", "sequential", 0.0),
        ("amplified:every=1,server_lr=0.7", "parallel:server_lr=0.7", 0.0),
        ("amplified_scaffold:every=1,server_lr=0.7", "scaffold:server_lr=0.7", 1e-14),
        ("amplified_scaffold:every=1,weighting=size", "scaffold:weighting=size", 1e-14),
        ("ewc:strength=0", "sequential", 0.0),
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
@pytest.mark.parametrize(
    "spec",
    [
        *("fedprox:mu=0.5", "fedavgm", "scaffold", "fedseq:groups=2", "fedseq:groups=3", "sequential:mu=3"),
        *(
            "feddyn",
            "fedadam",
            "fedyogi",
            "fedadagrad",
            "fedseqinter:groups=3,every=3",
            "feddc:every=3",
            "switch:after=2",
        ),
        *("amplified:every=2,server_lr=1.5", "sequential:last=3", "sequential:ema=0.5", "sequential:decay=0.5"),
        *("scaffold:of=sequential", "fedavgm:of=sequential", "ewc:strength=20"),
    ],
)
def test_they_are_not_their_limits(spec: str, world: str) -> None:
    more = {}
    if spec.startswith("feddc") and world == "quadratics":  # with one Hessian for all it is parallel: see below
        more = {"dataset": "quadratic:zeta=10,delta=1", "clients": 2, "participants": 2, "clip": 0.0}
    for limit in ("parallel", "sequential"):
        with pytest.raises(AssertionError):
            same(trained(spec, world, **more), trained(limit, world, **more), 1e-8 if more else 1e-4)


def test_with_one_hessian_for_all_feddc_is_parallel() -> None:
    """Then steps commute with averages; with unlike Hessians they do not."""
    both = {"clients": 2, "participants": 2, "clip": 0.0}
    for delta, alike in ((0, True), (1, False)):
        more = {**both, "dataset": f"quadratic:zeta=10,delta={delta}"}
        one, two = (trained(spec, "quadratics", **more).state.model["x"] for spec in ("feddc:every=3", "parallel"))
        assert torch.allclose(one, two, rtol=1e-12) == alike


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


def plain(spec: str, s: Setting, x: Params) -> Params:
    """The other methods as their papers write them, with whole-client gradients of one lane, in plain PyTorch."""
    name, _, words = spec.partition(":")
    given = dict(word.split("=") for word in words.split(",") if word)
    number = {k: float(v) for k, v in given.items() if v.replace(".", "").isdecimal()}
    p = Program([s], CPU)
    data = datasets.load(s.dataset, s.clients)
    owner = torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients).copy())
    module = p.net.build().to(torch.float64)
    none = {n: torch.zeros_like(leaf) for n, leaf in x.items()}
    own, c, m_, h = [dict(none) for _ in range(s.clients)], dict(none), dict(none), dict(none)
    v = {n: torch.full_like(leaf, number.get("tau", 0.001) ** 2) for n, leaf in x.items()}

    def gradient(y: Params, m: int) -> Params:
        module.load_state_dict(y)
        output = module(data.x[owner == m].to(torch.float64))
        loss = torch.nn.functional.cross_entropy(output, data.y[owner == m]) if data.classes else output.mean()
        return dict(zip(y, torch.autograd.grad(loss, list(module.parameters())), strict=True))

    def leg(y: Params, m: int, more, rate: float = 1.0) -> Params:
        for _ in range(s.local_steps):
            g = gradient(y, m)
            y = {n: y[n] - s.lr * rate * (g[n] + more(y, n)) for n in y}
        return y

    chain = given.get("of") == "sequential" or name == "sequential"
    for round in range(s.rounds):
        order, ends, changes, y = p.order(round)[0].tolist(), [], [], x
        for i, m in enumerate(order):
            start = y if chain else x
            if name == "scaffold":
                y = leg(start, m, lambda _, n, m=m: c[n] - own[m][n])  # noqa: B023
                told = {n: (start[n] - y[n]) / (s.local_steps * s.lr) + own[m][n] - c[n] for n in x}
                new = gradient(x, m) if given.get("option") == "1" else told
                changes.append({n: new[n] - own[m][n] for n in x})
                own[m] = new
            elif name == "feddyn":
                a = number["alpha"]
                y = leg(x, m, lambda y, n, m=m: a * (y[n] - x[n]) - own[m][n])  # noqa: B023
                own[m] = {n: own[m][n] - a * (y[n] - x[n]) for n in x}
            elif name == "sequential":
                mu, rate = number.get("mu", 0.0), number.get("decay", 1.0) ** i
                y = leg(start, m, lambda y, n, start=start: mu * (y[n] - start[n]), rate)  # noqa: B023
            else:
                y = leg(start, m, lambda _, n: 0.0)  # noqa: ARG005
            ends.append(y)
        mean = {n: torch.stack([y[n] for y in ends]).mean(0) for n in x}
        end = y if chain else mean
        if name == "scaffold":
            c = {n: c[n] + sum(change[n] for change in changes) / s.clients for n in x}
            x = end
        elif name == "feddyn":
            h = {n: h[n] - number["alpha"] / s.clients * sum(y[n] - x[n] for y in ends) for n in x}
            x = {n: mean[n] - h[n] / number["alpha"] for n in x}
        elif name == "sequential" and "last" in number:
            x = {n: torch.stack([y[n] for y in ends[-int(number["last"]) :]]).mean(0) for n in x}
        elif name == "sequential" and "ema" in number:
            for y in ends:
                x = {n: number["ema"] * x[n] + (1 - number["ema"]) * y[n] for n in x}
        elif name == "sequential":
            x = end
        else:  # Adagrad, Adam, Yogi
            way, b1 = {n: end[n] - x[n] for n in x}, 0.0 if name == "fedadagrad" else 0.9
            m_ = {n: b1 * m_[n] + (1 - b1) * way[n] for n in x}
            square = {n: d**2 for n, d in way.items()}
            seconds = {
                "fedadagrad": {n: v[n] + square[n] for n in x},
                "fedadam": {n: 0.99 * v[n] + 0.01 * square[n] for n in x},
                "fedyogi": {n: v[n] - 0.01 * square[n] * torch.sign(v[n] - square[n]) for n in x},
            }
            v = seconds[name]
            x = {n: x[n] + number["server_lr"] * m_[n] / (v[n].sqrt() + 0.001) for n in x}
    return x


@pytest.mark.parametrize("world", ["digits", "quadratics"])
@pytest.mark.parametrize(
    "spec",
    [
        *("scaffold:option=1", "scaffold:of=sequential", "feddyn:alpha=0.2", "fedadagrad:server_lr=0.01"),
        *("fedadam:server_lr=0.01", "fedyogi:server_lr=0.01", "fedadam:server_lr=0.01,of=sequential"),
        *("sequential:mu=0.7", "sequential:decay=0.8", "sequential:last=2", "sequential:ema=0.4"),
    ],
)
def test_more_rounds_are_those_of_a_plain_loop(spec: str, world: str) -> None:
    base = {**WORLDS[world], "clients": 6, "participants": 4, "local_steps": 3, "batch_size": 2000, "rounds": 4}
    base |= {"model": "logistic"} if world == "digits" else {"dataset": "quadratic_random:dim=3"}
    s = Setting(**base, lr=0.05, seed=2, algorithm=spec)
    program, last = finish([s])
    begin = {n: leaf[0] for n, leaf in program.net.init([s.seed]).items()}
    for name, leaf in plain(spec, s, begin).items():
        torch.testing.assert_close(last.state.model[name][0], leaf, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("method", ["scaffold", "feddyn"])
def test_corrected_methods_end_where_the_sum_is_smallest(method: str, option: int) -> None:
    """Everybody in every round, no noise: the fixed point is the direct solve of the mean of all quadratics."""
    if method == "feddyn" and option == 1:
        return
    spec = f"scaffold:option={option}" if method == "scaffold" else "feddyn:alpha=2"
    base = {"dataset": "quadratic_random:dim=3,zeta=5", "clients": 4, "local_steps": 5, "rounds": 600, "lr": 0.02}
    program, last = finish([Setting(**base, algorithm=spec, eval_every=600)])
    rows = program.clients.x
    a, slope = rows[:, :9].view(-1, 3, 3).mean(0), rows[:, 9:12].mean(0)
    best = torch.linalg.solve((a + a.T) / 2, -slope)
    torch.testing.assert_close(last.state.model["x"][0], best, rtol=1e-7, atol=1e-8)


def test_fedprox_contracts_to_its_own_fixed_point() -> None:
    """On quadratics a round is affine, x -> P x + q: its fixed point is solved for, its factors are P's eigenvalues."""
    lr, steps, mu = 0.03, 4, 0.5
    base = {"dataset": "quadratic_random:dim=2,zeta=5", "clients": 3, "local_steps": steps, "lr": lr}

    def end(rounds: int) -> tuple[Program, Tensor]:
        s = Setting(**base, rounds=rounds, algorithm=f"fedprox:mu={mu}", eval_every=rounds)
        program, last = finish([s])
        return program, last.state.model["x"][0]

    program, there = end(1500)
    one = torch.eye(2, dtype=torch.float64)
    p, q = torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for row in program.clients.x:
        a, c = row[:4].view(2, 2), row[4:6]
        step = one * (1 - lr * mu) - lr * (a + a.T) / 2
        matrix, shift = one, torch.zeros(2, dtype=torch.float64)  # y = matrix x + shift
        for _ in range(steps):
            matrix, shift = step @ matrix + lr * mu * one, step @ shift - lr * c
        p, q = p + matrix / 3, q + shift / 3
    best = torch.linalg.solve(one - p, q)
    torch.testing.assert_close(there, best, rtol=1e-9, atol=1e-10)
    factor, way = torch.linalg.eigh(p)
    assert factor.abs().max() < 1
    before, after = ((end(rounds)[1] - best) @ way for rounds in (5, 6))  # along P's axes
    torch.testing.assert_close(after / before, factor, rtol=1e-9, atol=0.0)


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


@pytest.mark.parametrize(("groups", "sizes"), [(3, [2, 2, 1]), (4, [2, 1, 1, 1]), (2, [3, 2])])
def test_groups_may_differ_by_one(groups: int, sizes: list[int]) -> None:
    """Each chain by itself, then an average by samples."""
    s = Setting(
        algorithm=f"fedseq:groups={groups},weighting=size",
        model="mlp:hidden=6",
        clients=9,
        participants=5,
        partition="dirichlet:alpha=0.5",
        local_steps=2,
        rounds=1,
        dtype="float64",
    )
    program = Program([s], CPU)
    at, order = first(program), program.order(0)
    sites = Simulation(program, program.now(0, program.rate(0)), order)
    made = program.algorithm.round(at.state, Cohort.whole(order), sites)
    plain = Simulation(program, program.now(0, program.rate(0)), order)
    every, total, mean = iter(Cohort.whole(order)), 0.0, {n: torch.zeros_like(x) for n, x in at.state.model.items()}
    for size in sizes:
        x, weight = at.state.model, 0.0
        for _ in range(size):
            reply = plain.train(x, next(every))
            x, weight = reply.x, weight + float(reply.samples)
        total, mean = total + weight, {n: leaf + weight * x[n] for n, leaf in mean.items()}
    for n, leaf in made.model.items():
        torch.testing.assert_close(leaf, mean[n] / total, rtol=1e-12, atol=1e-13)
