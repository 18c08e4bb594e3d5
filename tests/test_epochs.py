"""Legs of E passes over a client's samples: as plain loops take them, in every way of training, and counted so."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from baton import cli, clients, datasets, rng
from baton.errors import BadInput
from baton.lanes import Lanes, Params
from baton.measure import drift
from baton.setting import Setting
from baton.simulate import memory
from baton.simulate.books import traffic
from baton.simulate.engine import Program
from baton.store import Store
from baton.sweep import plan
from contracts.examples import CPU, finish

UNEVEN = {"partition": "dirichlet:alpha=0.3", "clients": 6, "batch_size": 32, "rounds": 2, "eval_every": 2, "lr": 0.05}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 50), st.booleans())
def test_a_leg_is_so_many_passes_over_all_that_a_client_holds(
    sizes: list[int], epochs: int, batch: int, put_back: bool
) -> None:
    start = torch.tensor([[0, *torch.tensor(sizes).cumsum(0).tolist()]])
    total, held = sum(sizes), torch.tensor(sizes)
    y = torch.zeros(max(1, total), dtype=torch.int64)
    table = clients.Clients(y, y, torch.arange(max(1, total)), start, min(sizes), max(sizes), y, y, y[:1])
    count = len(sizes)
    none = torch.zeros(count)
    lanes = Lanes(torch.arange(count), none, none, none, none, torch.zeros(count, dtype=torch.int64))
    s = Setting(epochs=epochs, batch_size=batch, sampling="replacement" if put_back else "shuffle")
    drawn = clients.batches(table, lanes, torch.arange(count), torch.arange(count), s, epochs)
    samples, steps = clients.taken(held, s, epochs)
    assert drawn.places.shape[1] == clients.slots(s, max(sizes))
    assert torch.equal((drawn.weight.sum(2) > 0).sum(1), steps)
    assert torch.equal(drawn.weight.sum((1, 2)).long(), samples)
    assert steps.tolist() == [epochs * -(-n // batch) for n in sizes]
    for m, n in enumerate(sizes):
        seen = drawn.places[m][drawn.weight[m] > 0].view(-1)
        if n and not put_back:
            passes = seen.view(epochs, n).sort(1).values
            assert torch.equal(passes, (start[0, m] + torch.arange(n)).expand(epochs, n))


def test_passes_are_those_of_a_leg_of_k_steps() -> None:
    """The same minibatches as far as both go: only the count of steps is another."""
    key, n = torch.arange(5), torch.tensor([1, 7, 12, 30, 30])
    assert torch.equal(rng.whole_passes(key, n, 2, 30)[3:], rng.passes(key, n, 60, 1, 30)[3:])
    assert torch.equal(rng.whole_passes(key, n, 2, 30)[1, :14], rng.passes(key, n, 60, 1, 30)[1, :14])


def plain_sgd(p: Program, lane: int, momentum: float) -> Params:
    """Sequential rounds as torch's own loop over shuffled, short-ended batches."""
    data = datasets.load(p.setting.dataset, p.setting.clients)
    module = p.net.build().to(p.net.dtype)
    module.load_state_dict({name: leaf[lane] for name, leaf in p.net.init(p.seeds).items()})
    loss = torch.nn.CrossEntropyLoss()
    for round in range(p.setting.rounds):
        for client in p.order(round)[lane].tolist():
            optimizer = torch.optim.SGD(module.parameters(), lr=float(p.lanes.lr[lane]), momentum=momentum)
            first, end = p.clients.start[lane, client], p.clients.start[lane, client + 1]
            mine, key = p.clients.samples[first:end], clients.visit(p.lanes.seed[lane], round, torch.tensor(client))
            many = len(mine) * p.setting.epochs
            order = rng.passes(key, torch.tensor(len(mine)), many, len(mine), len(mine)).view(p.setting.epochs, -1)
            for one in order:
                for batch in one.split(p.setting.batch_size):
                    at = mine[batch]
                    optimizer.zero_grad()
                    loss(module(data.x[at].to(p.net.dtype)), data.y[at]).backward()
                    optimizer.step()
    return {name: leaf.detach() for name, leaf in module.named_parameters()}


@pytest.mark.parametrize("algorithm", ["sequential", "ssl:cut=1"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounds_are_those_of_a_plain_loop(algorithm: str, dtype: str) -> None:
    """In C and in PyTorch, whole and in split form; lanes of partitions whose largest clients differ."""
    base = {**UNEVEN, "algorithm": algorithm, "epochs": 2, "model": "mlp:hidden=6,dropout=0", "dtype": dtype}
    lanes = [
        Setting(**{**base, "partition": f"dirichlet:alpha={a}"}, momentum=0.5, seed=s) for s, a in ((1, 0.3), (2, 9))
    ]
    p, last = finish(lanes)
    assert p.clients.start.diff(dim=1).amax(1).unique().numel() == 2
    close = {"rtol": 1e-10, "atol": 1e-12} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-5}
    for lane in (0, 1):
        for name, leaf in plain_sgd(p, lane, 0.5).items():
            torch.testing.assert_close(last.state.model[name][lane], leaf, **close)


@pytest.mark.parametrize("algorithm", ["parallel", "scaffold", "splitfed:cut=1,version=2", "fedseq:groups=2"])
def test_ways_of_training_agree(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = [Setting(**UNEVEN, algorithm=algorithm, epochs=1, model="mlp:hidden=6", momentum=0.3, clip=1.0)]
    p, quick = finish(lanes)
    assert p.legs.way == "C"
    monkeypatch.setenv("BATON_NATIVE", "0")
    p, slow = finish(lanes)
    assert p.legs.way.startswith("PyTorch")
    torch.testing.assert_close(quick.state.model, slow.state.model, rtol=1e-4, atol=1e-5)


def test_on_quadratics_an_epoch_is_one_step() -> None:
    base = {"dataset": "quadratic_random:dim=3,sigma=1", "rounds": 5, "lr": 0.01, "momentum": 0.4}
    for more in ({}, {"clip": 1.0}):
        one, other = (finish([Setting(**base, **more, **n)])[1] for n in ({"epochs": 3}, {"local_steps": 3}))
        torch.testing.assert_close(one.state.model, other.state.model, rtol=1e-12, atol=1e-12)


def test_control_variates_know_how_many_steps_a_client_took() -> None:
    """On equal clients epochs are K steps, by another rule for the server's c."""
    base = {**UNEVEN, "partition": "iid", "clients": 5, "algorithm": "scaffold", "dtype": "float64", "momentum": 0.2}
    data = Program([Setting(**base)], CPU).clients
    each = -(-data.largest // 32)
    assert each == -(-data.smallest // 32)
    one, other = (finish([Setting(**base, **n)])[1] for n in ({"epochs": 1}, {"local_steps": each}))
    torch.testing.assert_close(one.state, other.state, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(dict(one.clients), dict(other.clients), rtol=1e-9, atol=1e-12)


def test_what_counts_steps_counts_those() -> None:
    s = Setting(**UNEVEN, epochs=2, algorithm="ssl:cut=1", model="mlp:hidden=6")
    p = Program([s], CPU)
    held = p.clients.start.diff(dim=1)[0]
    assert clients.sizes(s).tolist() == held.tolist()
    assert clients.steps(s) == 2 * int((2 * ((held + 31) // 32)).sum())
    smashed = p.terms.price.sample_up
    assert traffic(p, range(2))["bytes_up"][0] == 2 * 2 * int(held.sum()) * smashed
    few = Setting(**{**s.model_dump(), "participants": 3})
    assert clients.steps(few) == clients.steps(s) // 2


def test_drift_is_over_the_steps_that_are_taken() -> None:
    s = Setting(dataset="quadratic_random:dim=2,sigma=0", algorithm="parallel", epochs=1, lr=0.1)
    assert drift.measure(s, [0], CPU, draws=2)[0][0].total == 0.0  # one step each, and it begins where the round does
    with pytest.raises(BadInput, match="epochs: 1; the drift lemmas"):
        drift.bounds(s, [], CPU, lambda *_: None)


def test_long_legs_are_drawn_one_after_another_and_counted_so(tmp_path: Path) -> None:
    """A round of them ahead would take S times the memory; which way changes nothing."""
    long = Setting(**{**UNEVEN, "rounds": 1}, epochs=60, model="mlp:hidden=4")
    short = Setting(**{**UNEVEN, "rounds": 1}, epochs=2, model="mlp:hidden=4")
    assert not Program([long], CPU).foreseen
    assert Program([short], CPU).foreseen
    beside = Setting(**{**long.model_dump(), "algorithm": "parallel"})
    chain, side = (memory.per_lane([s], 1 << 50, CPU) for s in (long, beside))
    assert side > 4 * chain
    assert memory.measured(long, CPU) / 3 < chain < 3 * memory.measured(long, CPU)
    found = plan([long], Store(tmp_path), CPU, None)
    assert len(found.chunks) == 1


BAD = [
    ({"epochs": 2, "local_steps": 5}, "epochs: 2 and local_steps: 5"),
    ({"epochs": -1}, "epochs: -1"),
    ({"epochs": 0.5}, "epochs: 0.5"),
    ({"local_steps": 0}, "local_steps: 0"),
    ({"epochs": 1, "algorithm": "ssl:cut=1,passes=2"}, "one of them is right"),
]


@pytest.mark.parametrize(("values", "line"), BAD)
def test_refused_in_one_line(values: dict[str, object], line: str) -> None:
    with pytest.raises(BadInput) as error:
        Setting(**values)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_setting_with_epochs_is_itself_again() -> None:
    s = Setting(epochs=2)
    assert (s.local_steps, s.length) == (0, "E = 2")
    assert Setting.from_json(s.to_json()) == s == Setting(**s.model_dump())


def test_as_typed(tmp_path: Path) -> None:
    words = [
        "run",
        "--epochs",
        "1",
        "-R",
        "2",
        "-M",
        "4",
        "-p",
        "dirichlet:alpha=0.5",
        "--runs",
        str(tmp_path),
        "--json",
    ]
    shown = json.loads(CliRunner().invoke(cli.app, words, catch_exceptions=False).stdout)
    assert (shown["setting"]["epochs"], shown["setting"]["local_steps"]) == (1, 0)
    with pytest.raises(BadInput, match="epochs: 1 and local_steps: 3"):
        CliRunner().invoke(cli.app, [*words, "-K", "3"], catch_exceptions=False)


STUDY = """
[base]
rounds = 2
clients = 4

[axes]
algorithm = ["sequential", "parallel"]
lr = [0.1, 0.3]

[groups]
steps = {local_steps = 3}
passes = {epochs = 2}

[tune]
over = ["lr"]
"""


def test_a_leg_is_shown_with_k_or_e_and_never_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.toml").write_text(STUDY)

    def typed(line: str) -> str:
        return CliRunner().invoke(cli.app, line.split(), catch_exceptions=False).stdout

    searched, plan = typed("tune mixed.toml --dry-run"), typed("sweep mixed.toml --dry-run")
    assert "\nsteps, parallel, K = 3\n" in searched
    assert "\npasses, parallel, E = 2\n" in searched
    shown = typed("run --epochs 2 -M 4 -R 2")
    assert "E = 2 passes in batches of 20" in shown.replace("\n          ", " ")
    assert "  baton run -M 4 --epochs 2 -R 2 -a parallel\n" in shown
    assert "K=3" in plan
    assert "E=2" in plan
    assert "E=2" in typed("list runs --where E=2")
    typed("tune mixed.toml -q")
    typed("report mixed.toml --out page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<code>K = 3</code>" in page
    assert "<code>E = 2</code>" in page
    for text in (searched, plan, shown, page):
        assert "K = 0" not in text
        assert "K=0" not in text or text is page  # scripts have it
        assert "E = 0" not in text
