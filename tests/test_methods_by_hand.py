"""Methods between the paradigms, EWC and FedNova as their papers write them: plain PyTorch loops over clients."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from baton import cli, clients, datasets, rng
from baton.lanes import Params
from baton.measure.personal import fine_tuned
from baton.setting import Setting
from baton.simulate.engine import Program
from baton.store import Snapshot
from contracts.examples import CPU, finish

DIGITS = {"model": "logistic", "partition": "dirichlet:alpha=0.5", "dtype": "float64", "clients": 6, "lr": 0.05}


class ByHand:
    """The clients of one lane."""

    def __init__(self, s: Setting) -> None:
        self.s, self.program, self.data = s, Program([s], CPU), datasets.load(s.dataset, s.clients)
        self.owner = torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients).copy())
        self.module = self.program.net.build().to(torch.float64)
        self.x = {n: leaf[0] for n, leaf in self.program.net.init([s.seed]).items()}

    def order(self, round: int) -> list[int]:
        return self.program.order(round)[0].tolist()

    def gradient(self, y: Params, at: torch.Tensor) -> Params:
        self.module.load_state_dict(y)
        loss = torch.nn.functional.cross_entropy(self.module(self.data.x[at].to(torch.float64)), self.data.y[at])
        return dict(zip(y, torch.autograd.grad(loss, list(self.module.parameters())), strict=True))

    def whole(self, y: Params, m: int) -> Params:
        return self.gradient(y, (self.owner == m).nonzero().flatten())

    def leg(self, y: Params, m: int, shift: Params | None = None, stiff: Params | None = None) -> Params:
        """K steps with the gradient of all that the client holds."""
        start = y
        for _ in range(self.s.local_steps):
            d = self.whole(y, m)
            if shift:
                d = {n: d[n] + shift[n] for n in d}
            if stiff:
                d = {n: d[n] + stiff[n] * (y[n] - start[n]) for n in d}
            y = {n: y[n] - self.s.lr * d[n] for n in y}
        return y

    def epochs(self, y: Params, m: int, round: int) -> tuple[Params, int]:
        """(the model after E passes over the client's own minibatches, how many steps those took)."""
        s, mine, steps = self.s, (self.owner == m).nonzero().flatten(), 0
        key, count = clients.visit(torch.tensor(s.seed), round, torch.tensor(m)), len(mine)
        passes = rng.passes(key, torch.tensor(count), count * s.epochs, count, count).view(s.epochs, -1)
        v = {n: torch.zeros_like(leaf) for n, leaf in y.items()}
        for one in passes:
            for batch in one.split(s.batch_size):
                g, steps = self.gradient(y, mine[batch]), steps + 1
                v = {n: s.momentum * v[n] + g[n] for n in y}
                y = {n: y[n] - s.lr * v[n] for n in y}
        return y, steps

    def held(self, m: int) -> int:
        return int((self.owner == m).sum())


def mean(models: list[Params], weight: list[float] | None = None) -> Params:
    weight = weight or [1.0] * len(models)
    return {n: sum(w * x[n] for w, x in zip(weight, models, strict=True)) / sum(weight) for n in models[0]}


def minus(a: Params, b: Params, by: float = 1.0) -> Params:
    return {n: (a[n] - b[n]) / by for n in a}


def close(last: Snapshot, x: Params) -> None:
    for name, leaf in x.items():
        torch.testing.assert_close(last.state.model[name][0], leaf, rtol=1e-9, atol=1e-11)


def setting(spec: str, **more: object) -> Setting:
    base = {**DIGITS, "participants": 4, "batch_size": 2000, "rounds": 5, "algorithm": spec}
    base |= {} if "epochs" in more else {"local_steps": 3}
    return Setting(**{**base, "seed": 2, **more})


@pytest.mark.parametrize("every", [1, 3])
def test_chains_that_meet_every_so_many_rounds(every: int) -> None:
    """FedSeqInter (1: FedSeq): the end of a group's chain is where the next group begins."""
    s = setting(f"fedseqinter:groups=2,every={every},weighting=size")
    hand = ByHand(s)
    at, x = [hand.x, hand.x], hand.x
    for round in range(s.rounds):
        order = hand.order(round)
        groups = [order[:2], order[2:]]
        for g, group in enumerate(groups):
            for m in group:
                at[g] = hand.leg(at[g], m)
        x = mean(at, [sum(map(hand.held, group)) for group in groups])
        at = [x, x] if round % every == every - 1 else [at[1], at[0]]
    close(finish([s])[1], x)


@pytest.mark.parametrize(("every", "swap"), [(2, 1), (4, 2)])
def test_models_that_change_clients(every: int, swap: int) -> None:
    """FedDC: each of S models at a client, at others every swap rounds, averaged every so many."""
    s = setting(f"feddc:every={every},swap={swap}")
    hand = ByHand(s)
    at, x, who = [hand.x] * 4, hand.x, []
    for round in range(s.rounds):
        who = hand.order(round) if round % swap == 0 else who
        at = [hand.leg(y, m) for y, m in zip(at, who, strict=True)]
        x = mean(at)
        at = [x] * 4 if round % every == every - 1 else at
    close(finish([s])[1], x)


def test_one_method_then_another() -> None:
    s = setting("switch:first=sequential,then=fedavgm:beta=0.5,after=2")
    hand = ByHand(s)
    x, v = hand.x, {n: torch.zeros_like(leaf) for n, leaf in hand.x.items()}
    for round in range(s.rounds):
        if round < 2:
            for m in hand.order(round):
                x = hand.leg(x, m)
            continue
        end = mean([hand.leg(x, m) for m in hand.order(round)])
        v = {n: 0.5 * v[n] + end[n] - x[n] for n in x}
        x = {n: x[n] + v[n] for n in x}
    close(finish([s])[1], x)


@pytest.mark.parametrize("of", ["parallel", "sequential"])
def test_amplified_every_so_many_rounds(of: str) -> None:
    s = setting(f"amplified:every=2,server_lr=1.5,of={of}")
    hand = ByHand(s)
    x = old = hand.x
    for round in range(s.rounds):
        if of == "parallel":
            x = mean([hand.leg(x, m) for m in hand.order(round)])
        else:
            for m in hand.order(round):
                x = hand.leg(x, m)
        if round % 2 == 1:
            x = old = {n: old[n] + 1.5 * (x[n] - old[n]) for n in x}
    close(finish([s])[1], x)


@pytest.mark.parametrize(("every", "participants"), [(2, 3), (3, 3), (2, 2)])  # room for all, or for who comes
def test_amplified_with_controls_of_a_period(every: int, participants: int) -> None:
    """A client's control is the mean direction of its legs in a period, and counts from the next period on."""
    s = setting(f"amplified_scaffold:every={every},server_lr=1.5", participants=participants, rounds=6)
    hand = ByHand(s)
    none = {n: torch.zeros_like(leaf) for n, leaf in hand.x.items()}
    x = old = hand.x
    own, found = [none] * s.clients, dict[int, list[Params]]()
    for round in range(s.rounds):
        c, ends = mean(own), []
        for m in hand.order(round):
            shift = minus(c, own[m])
            ends.append(hand.leg(x, m, shift))
            found.setdefault(m, []).append(minus(minus(x, ends[-1], s.local_steps * s.lr), shift))
        x = mean(ends)
        if round % every == every - 1:
            x = old = {n: old[n] + 1.5 * (x[n] - old[n]) for n in x}
            own, found = [mean(found[m]) if m in found else own[m] for m in range(s.clients)], {}
    close(finish([s])[1], x)


@pytest.mark.parametrize("strength", [20.0, 500.0])
def test_elastic_weights_along_a_chain(strength: float) -> None:
    """F = keep F + g^2 at the end of each leg; the next leg's steps add strength F (y - where it began)."""
    s = setting(f"ewc:strength={strength},keep=0.8", rounds=3)
    hand = ByHand(s)
    x, f = hand.x, {n: torch.zeros_like(leaf) for n, leaf in hand.x.items()}
    free = x
    for round in range(s.rounds):
        for m in hand.order(round):
            x = hand.leg(x, m, stiff={n: strength * leaf for n, leaf in f.items()})
            f = {n: 0.8 * f[n] + g**2 for n, g in hand.whole(x, m).items()}
            free = hand.leg(free, m)
    close(finish([s])[1], x)
    assert max(float((free[n] - x[n]).abs().max()) for n in x) > 1e-4  # it does something


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_fednova_where_clients_take_different_numbers_of_steps(momentum: float, weighting: str) -> None:
    """x - (sum p a) sum p (x - y) / a; a: the steps, or the norm of (1 - m^tau, ..., 1 - m) / (1 - m) with momentum."""
    s = setting(f"fednova:weighting={weighting}", epochs=2, batch_size=32, momentum=momentum, rounds=3)
    hand, taken = ByHand(s), set[int]()
    x = hand.x
    for round in range(s.rounds):
        order = hand.order(round)
        legs = [hand.epochs(x, m, round) for m in order]
        taken |= {steps for _, steps in legs}
        a = [sum((1 - momentum**k) / (1 - momentum) for k in range(1, steps + 1)) for _, steps in legs]
        p = [hand.held(m) if weighting == "size" else 1 for m in order]
        p = [each / sum(p) for each in p]
        far = sum(each * reach for each, reach in zip(p, a, strict=True))
        way = mean([minus(x, y, reach) for (y, _), reach in zip(legs, a, strict=True)], p)
        x = {n: x[n] - far * way[n] for n in x}
    assert len(taken) > 2
    close(finish([s])[1], x)


def test_fednova_is_fedavg_where_all_take_the_same_number() -> None:
    more = {"epochs": 2, "partition": "iid", "batch_size": 100, "momentum": 0.5}
    one, two = (finish([setting(spec, **more)])[1] for spec in ("fednova", "parallel"))
    close(one, {n: leaf[0] for n, leaf in two.state.model.items()})
    other = finish([setting("fednova:weighting=size", **{**more, "partition": "dirichlet:alpha=0.5"})])[1]
    plain = finish([setting("parallel:weighting=size", **{**more, "partition": "dirichlet:alpha=0.5"})])[1]
    assert not all(torch.allclose(leaf, plain.state.model[n], rtol=1e-3) for n, leaf in other.state.model.items())


def test_models_that_are_trained_further_at_each_site() -> None:
    """As K plain steps from the run's model; each label of the test rows counts as often as the site holds it."""
    s = setting("parallel", local_steps=2, rounds=2)
    program, last = finish([s])
    x = {n: leaf[0] for n, leaf in last.state.model.items()}
    hand, found = ByHand(s), fine_tuned(s, x, CPU, steps=2)
    y, data = hand.data.y, hand.data
    for m in range(s.clients):
        mine = hand.leg(x, m)
        for n, leaf in mine.items():
            torch.testing.assert_close(found.models[n][m], leaf, rtol=1e-9, atol=1e-11)
        for model, share in ((x, found.before), (mine, found.after)):
            hand.module.load_state_dict(model)
            right = hand.module(data.test_x.to(torch.float64)).argmax(1) == data.test_y
            by_label = [right[data.test_y == c].double().mean() for c in range(10)]
            wanted = sum(by_label[c] * (y[hand.owner == m] == c).sum() for c in range(10)) / hand.held(m)
            assert float(share[m]) == pytest.approx(100 * float(wanted), abs=1e-6)
    assert program.net.dtype == torch.float64


def test_sites_metrics_before_and_after(tmp_path: Path) -> None:
    """As a user types it: a line a site, with what the run measures."""
    words = "run --dataset digits --partition dirichlet:alpha=0.3 --model logistic -M 4 -S 4 -K 2 -R 2 --metrics f1"
    words += f" --measure personal --runs {tmp_path}"
    told = CliRunner().invoke(cli.app, words.split())
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:4] == ["site", "samples", "accuracy", "tuned"])
    table = lines[first : first + 5]
    assert table[0].split() == ["site", "samples", "accuracy", "tuned", "f1", "tuned"]
    assert [line.split()[0] for line in table[1:]] == ["0", "1", "2", "3"]
    rows = json.loads(CliRunner().invoke(cli.app, [*words.split(), "--json"]).stdout)["personal"]
    assert all(0 <= row["f1"][when] <= 100 for row in rows for when in ("before", "after"))
    assert sum(row["after"] for row in rows) > sum(row["before"] for row in rows)
