"""Legs that do not come back: how they are drawn, whom to ask instead, and what is left of a round."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from baton import algorithms, cli, failures
from baton.algorithms import Cohort, State
from baton.api import run
from baton.errors import BadInput
from baton.failures import NOBODY, Failing, Policy, lost, tries, walked
from baton.lanes import Params
from baton.setting import Setting
from baton.simulate.engine import Program, advance
from baton.simulate.kept import Kept, laid_out
from baton.simulate.simulation import Simulation
from baton.store import Snapshot, Store
from baton.store.snapshot import named
from contracts.examples import CPU, cases, examples, finish, stages, still
from test_sweep import BASE, files
from test_sweep import finish as swept

SURE = 1e-3  # what is drawn is fixed: a test passes always or never
SEEDS = torch.arange(100, 120)


def everyone(lanes: int, clients: int, times: int = 1) -> Tensor:
    """[L, M, T]: everybody is asked, so many times."""
    return torch.arange(clients).view(1, -1, 1).expand(lanes, clients, times)


# Draws


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.93])
def test_the_share_of_lost_legs_is_p(p: float) -> None:
    """In every seed, round, client and attempt: no word of the key makes it more or less."""
    gone = torch.stack([lost(Failing(p), SEEDS, round, everyone(20, 30, 4)) for round in range(25)])
    for axis in range(4):
        count = gone.movedim(axis, 0).flatten(1).sum(1).numpy()
        each = gone.numel() // len(count)
        chi = ((count - p * each) ** 2 / (p * (1 - p) * each)).sum()
        assert stats.chi2.sf(chi, len(count)) > SURE


@pytest.mark.parametrize("axis", range(4))
def test_one_loss_says_nothing_about_the_next(axis: int) -> None:
    """Of the next round, seed, client or attempt."""
    gone = torch.stack([lost(Failing(0.3), SEEDS, round, everyone(20, 30, 4)) for round in range(25)])
    one, other = gone.narrow(axis, 0, gone.shape[axis] - 1), gone.narrow(axis, 1, gone.shape[axis] - 1)
    table = [[int((one.eq(a) & other.eq(b)).sum()) for b in (False, True)] for a in (False, True)]
    assert stats.chi2_contingency(table).pvalue > SURE


def test_a_loss_depends_on_seed_round_client_and_attempt_alone() -> None:
    failing, asked = Failing(0.5), everyone(20, 30, 3)
    gone = lost(failing, SEEDS, 7, asked)
    assert torch.equal(gone, lost(failing, SEEDS, 7, asked))
    assert torch.equal(gone, lost(failing, SEEDS, torch.tensor(7), asked))  # where rounds are recorded
    some, order = torch.tensor([4, 2, 19]), torch.randperm(30, generator=torch.Generator().manual_seed(1))
    assert torch.equal(lost(failing, SEEDS[some], 7, asked[some]), gone[some])
    assert torch.equal(lost(failing, SEEDS, 7, asked[:, order]), gone[:, order])
    assert torch.equal(lost(failing, SEEDS, 7, asked[:, 3:5, :2]), gone[:, 3:5, :2])
    for other in (lost(failing, SEEDS + 20, 7, asked), lost(failing, SEEDS, 8, asked)):
        assert 0.4 < float((other != gone).float().mean()) < 0.6


def test_none_or_all() -> None:
    asked = everyone(20, 30, 3)
    assert not lost(failures.failing("none"), SEEDS, 0, asked).any()
    assert not lost(failures.failing("share:p=0"), SEEDS, 0, asked).any()
    assert lost(failures.failing("share:p=1"), SEEDS, 0, asked).all()


def test_by_client_only_those() -> None:
    asked = everyone(20, 30, 3)
    sometimes, always = failures.failing("clients:who=3+7+11,p=0.5"), failures.failing("clients:who=3+7+11")
    theirs = torch.zeros(30, dtype=torch.bool)
    theirs[[3, 7, 11]] = True
    gone = lost(sometimes, SEEDS, 2, asked)
    assert not gone[:, ~theirs].any()
    assert torch.equal(gone[:, theirs], lost(Failing(0.5), SEEDS, 2, asked)[:, theirs])
    assert torch.equal(lost(always, SEEDS, 2, asked), theirs.view(1, -1, 1).expand(20, 30, 3))


# Whom to ask


POLICIES = {name: failures.policy(name) for name in ("skip", "abort", "retry:times=1", "retry:times=3")}
ELSEWHERE = {name: failures.policy(name) for name in ("reroute:times=1", "reroute:times=3")}


def orders(lanes: int, clients: int, participants: int, round: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(round)
    return torch.stack([torch.randperm(clients, generator=draw)[:participants] for _ in range(lanes)])


@given(
    clients=st.integers(1, 12),
    share=st.floats(0, 1),
    round=st.integers(0, 50),
    p=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    policy=st.sampled_from(list((POLICIES | ELSEWHERE).values())),
    who=st.booleans(),
)
def test_a_leg_is_walked_as_a_person_would(
    clients: int, share: float, round: int, p: float, policy: Policy, who: bool
) -> None:
    """One after another, until somebody answers or nobody is left."""
    order = orders(5, clients, max(1, int(share * clients)), round)
    failing = Failing(p, tuple(range(0, clients, 2)) if who else ())
    seed = torch.arange(5)
    found = walked(failing, policy, seed, round, order, order, clients)
    asked = tries(policy, seed, round, order, order, clients)
    assert asked.shape == (*order.shape, 1 + policy.tries)
    for lane in range(5):
        for leg, meant in enumerate(order[lane].tolist()):
            hand_overs, answered = 0, None
            for attempt, client in enumerate(asked[lane, leg].tolist()):
                if client == NOBODY:
                    break
                hand_overs += 1
                alone = torch.full((1, 1, attempt + 1), client)
                if not lost(failing, seed[lane : lane + 1], round, alone)[0, 0, attempt]:
                    answered = client
                    break
            assert int(found.tried[lane, leg]) == hand_overs
            assert bool(found.came[lane, leg]) == (answered is not None)
            assert int(found.client[lane, leg]) == (meant if answered is None else answered)


def test_the_same_client_is_asked_again() -> None:
    order = orders(20, 9, 4)
    for policy in POLICIES.values():
        asked = tries(policy, SEEDS, 3, order, order, 9)
        assert torch.equal(asked, order.unsqueeze(2).expand(20, 4, 1 + policy.tries))


@pytest.mark.parametrize(
    ("clients", "participants", "times"), [(40, 5, 3), (10, 5, 1), (7, 5, 2), (6, 5, 3), (5, 5, 2)]
)
def test_others_are_asked_who_are_not_in_the_round(clients: int, participants: int, times: int) -> None:
    """Nobody twice, and nobody who takes part; as many as there are, the first tries first."""
    order, policy = orders(20, clients, participants), failures.policy(f"reroute:times={times}")
    asked = tries(policy, SEEDS, 3, order, order, clients)
    assert torch.equal(asked[..., 0], order)
    for mine, own in zip(order, asked[..., 1:], strict=True):
        real = own[own != NOBODY].tolist()
        assert len(real) == len(set(real)) == min(clients - participants, participants * times)
        assert not set(real) & set(mine.tolist())
        assert all(0 <= client < clients for client in real)
        before_after = own.T.flatten() != NOBODY  # everybody's first, everybody's second, ...
        assert before_after[: len(real)].all()
    assert torch.equal(asked, tries(policy, SEEDS, torch.tensor(3), order, order, clients))
    assert torch.equal(
        asked[:, 2:4], tries(policy, SEEDS, 3, order[:, 2:4], order, clients)
    )  # legs that are asked for later
    if clients > 10:
        assert not torch.equal(asked, tries(policy, SEEDS, 4, order, order, clients))


def test_any_other_client_is_as_likely() -> None:
    order = torch.tensor([[1, 4, 6]]).expand(4000, 3)
    asked = tries(failures.policy("reroute:times=2"), torch.arange(4000), 0, order, order, 12)[..., 1:]
    for leg in range(3):
        for attempt in range(2):
            count = torch.bincount(asked[:, leg, attempt], minlength=12)
            assert not count[[1, 4, 6]].any()
            assert stats.chisquare(count[count > 0].numpy()).pvalue > SURE
            assert (count > 0).sum() == 9


# What is left of a round


# where all samples are in one place there is no leg to lose
SPECS = [*(spec for spec in examples("algorithm") if spec != "pooled"), "fedseq:groups=2", "fedseq:groups=4"]
SHORT = ("sequential", "parallel:weighting=size", "fedavgm", "scaffold", "fedseq:groups=2", "splitfed:cut=1")
CASES = cases(SPECS, SHORT)
EVERY = pytest.mark.parametrize("spec", CASES)


def setting(spec: str = "parallel", **more: object) -> Setting:
    base = {"model": "mlp:hidden=6", "clients": 12, "participants": 4, "partition": "dirichlet:alpha=0.5"}
    numbers = {"dtype": "float64", "local_steps": 2, "rounds": 5, "eval_every": 5, "lr": 0.1, "weight_decay": 0.01}
    return Setting(**{**base, **numbers, "algorithm": spec, "seed": 3, **more})


def walk(program: Program, number: int, order: Tensor | None = None) -> failures.Walked:
    order = program.order(number) if order is None else order
    return walked(program.failing, program.policy, program.lanes.seed, number, order, order, program.setting.clients)


def order_of(program: Program, at: Snapshot) -> Tensor:
    """Who takes part in the round after a snapshot, by the schedule or as the algorithm chooses."""
    drawn, choose = program.order(at.round), program.algorithm.order
    return choose(at.state, drawn, program.now(at.round, program.rate(at.round))) if choose else drawn


def without(s: Setting) -> Program:
    """The same run, where every leg comes back."""
    return Program([Setting(**{**s.model_dump(), "failures": "none", "on_failure": "skip"})], CPU)


def by_hand(program: Program, at: Snapshot, clients: Tensor) -> tuple[State, Params]:
    """A round of these clients [1, C] from a snapshot; all come back."""
    tables = laid_out({name: leaf.clone() for name, leaf in at.clients.items()}, None)
    kept = Kept(tables)
    now = program.now(at.round, program.rate(at.round))
    made = program.algorithm.round(at.state, Cohort(clients), Simulation(program, now, clients, kept=kept))
    kept.settle(None)
    return made, tables


def close(one: Params, other: Params, tolerance: float = 1e-12) -> None:
    assert one.keys() == other.keys()
    for name, leaf in one.items():
        torch.testing.assert_close(leaf, other[name], rtol=tolerance, atol=tolerance)


def same(one: Params, other: Params) -> bool:
    return one.keys() == other.keys() and all(torch.equal(leaf, other[name]) for name, leaf in one.items())


def timeless(server: Params) -> Params:
    """What the server keeps, but for which period it is and whether a switch's second method has begun."""
    return {name: leaf for name, leaf in server.items() if name.rpartition(".")[2] not in ("period", "begun")}


PLACES = (
    "feddc",
    "pairgrab",
    "flgrab",
    "ewc",
    "sequential:mu=0.3,decay",
    "sequential:ema",
)  # a place counts all the same
CLOCKS = ("fedavgm", "fedad", "fedyogi", "feddc", "pairgrab", "flgrab")  # what the server keeps goes on with rounds


@pytest.mark.parametrize(
    "spec",
    cases([s for s in SPECS if (not s.startswith("fedseq") or "groups=1" in s) and not s.startswith(PLACES)], SHORT),
)
def test_what_does_not_come_back_might_as_well_not_take_part(spec: str) -> None:
    """A chain hands on what was there, an average is over what came, server and clients learn from what came."""
    spec = spec.replace("amplified_scaffold:every=2", "amplified_scaffold:every=3")  # 3 S = M: a sum a client
    s = setting(spec, failures="share:p=0.6", on_failure="retry:times=1" if "weighting" in spec else "skip")
    program, seen = stages([s])
    plain, some = without(s), 0
    for at, after in pairwise(seen):
        came, order = walk(program, at.round).came[0], program.order(at.round)
        if not came.any():
            continue
        some += int((~came).sum())
        made, tables = by_hand(plain, at, order[:, came])
        close(named(after.state, after.clients), named(made, tables), 1e-10)
    assert some > 2


@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_an_average_is_over_what_came(weighting: str) -> None:
    s = setting(f"parallel:weighting={weighting}", failures="share:p=0.5")
    program, seen = stages([s])
    plain, parts = without(s), set()
    for at, after in pairwise(seen):
        came, order = walk(program, at.round).came[0].tolist(), program.order(at.round)
        parts.add(sum(came))
        sites = Simulation(plain, plain.now(at.round, plain.rate(at.round)), order)
        total, models = 0.0, {name: torch.zeros_like(leaf) for name, leaf in at.state.model.items()}
        for client, there in zip(Cohort.whole(order), came, strict=True):
            reply = sites.train(at.state.model, client)
            weight = float(reply.samples) if weighting == "size" else 1.0
            total += weight * there
            models = {name: leaf + weight * there * reply.x[name] for name, leaf in models.items()}
        mean = {name: leaf / total for name, leaf in models.items()} if total else at.state.model
        close(after.state.model, mean)
    assert {1, 2, 3} & parts


@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_chains_hand_on_and_count_by_who_came(weighting: str) -> None:
    s = setting(f"fedseq:groups=2,weighting={weighting}", failures="share:p=0.4", rounds=10, eval_every=10)
    program, seen = stages([s])
    plain = without(s)
    for at, after in pairwise(seen):
        came, order = walk(program, at.round).came[0].tolist(), program.order(at.round)
        sites = Simulation(plain, plain.now(at.round, plain.rate(at.round)), order)
        every, ends, weights = list(Cohort.whole(order)), [], []
        for chain in (0, 1):
            x, weight = at.state.model, 0.0
            for place in (2 * chain, 2 * chain + 1):
                if came[place]:
                    reply = sites.train(x, every[place])
                    x, weight = reply.x, weight + (float(reply.samples) if weighting == "size" else 1.0)
            ends.append(x)
            weights.append(weight)
        if sum(weights):
            made = {n: sum(w * x[n] for w, x in zip(weights, ends, strict=True)) / sum(weights) for n in ends[0]}
            close(after.state.model, made)


@pytest.mark.parametrize(
    ("spec", "on_failure"),
    [
        *cases([(spec, "skip") for spec in SPECS], [(spec, "skip") for spec in SHORT]),
        *(("scaffold", name) for name in ("retry:times=1", "reroute:times=2", "abort")),
    ],
)
def test_where_nobody_came_nothing_changed(spec: str, on_failure: str) -> None:
    _, seen = stages([setting(spec, failures="share:p=1", on_failure=on_failure, rounds=2)])
    for at in seen[1:]:
        close(at.state.model, seen[0].state.model, 1e-14)
        if not spec.startswith(CLOCKS):
            assert same(timeless(at.state.server), timeless(seen[0].state.server))
        assert same(at.clients, seen[0].clients)


@EVERY
def test_where_some_try_succeeds_the_run_is_the_one_without_failures(spec: str) -> None:
    """To the bit: a client that is asked again draws what it drew before. SCAFFOLD's c is summed in another way."""
    settings = [
        [setting(spec, seed=seed, **more) for seed in (1, 2)]
        for more in ({}, {"failures": "share:p=0.5", "on_failure": "retry:times=40"})
    ]
    (_, plain), (program, again) = (finish(each) for each in settings)
    assert any(int(walk(program, r).tried.max()) > 2 for r in range(5))
    assert all(bool(walk(program, r).came.all()) for r in range(5))
    if spec == "scaffold" or "first=scaffold" in spec:
        close(named(again.state, again.clients), named(plain.state, plain.clients), 1e-12)
        return
    assert same(named(again.state, again.clients), named(plain.state, plain.clients))
    metrics = [name for name in plain.history if not name.startswith("bytes")]
    for name in metrics:
        assert all((a == b).all() for (_, a), (_, b) in zip(plain.history[name], again.history[name], strict=True))


@EVERY
def test_another_client_trains_in_the_place_of_one_that_fails(spec: str) -> None:
    """With its own samples, draws, and what it keeps; what the first one keeps stays."""
    if not algorithms.build(spec).sends:
        with pytest.raises(BadInput, match="sends nothing elsewhere: skip, retry or abort is right"):
            setting(spec, failures="share:p=0.4", on_failure="reroute:times=4", clients=40)
        return
    s = setting(spec, failures="share:p=0.4", on_failure="reroute:times=4", clients=40)
    program, seen = stages([s])
    plain, others = without(s), 0
    for at, after in pairwise(seen):
        order = order_of(program, at)
        found = walk(program, at.round, order)
        assert bool(found.came.all())
        others += int((found.client != order).sum())
        made, tables = by_hand(plain, at, found.client)
        close(named(after.state, after.clients), named(made, tables), 1e-10)
    assert others > 2


def test_where_all_take_part_nobody_is_left_to_ask() -> None:
    common = {"clients": 4, "failures": "share:p=0.4"}
    _, skipped = finish([setting(**common)])
    _, rerouted = finish([setting(**common, on_failure="reroute:times=3")])
    assert same(rerouted.state.model, skipped.state.model)


@EVERY
def test_a_round_that_is_aborted_leaves_everything_as_it_was(spec: str) -> None:
    """In its own lane: model, and what server and clients keep. Where all came, it is the round without failures."""
    settings = [setting(spec, failures="share:p=0.15", on_failure="abort", seed=seed) for seed in (1, 2, 3)]
    program, seen = stages(settings)
    plain = without(settings[1])
    aborted = went_on = 0
    for at, after in pairwise(seen):
        order = order_of(program, at)
        for lane, all_came in enumerate(walk(program, at.round, order).came.all(1).tolist()):
            before, now = (
                {name: leaf[lane : lane + 1] for name, leaf in named(each.state, each.clients).items()}
                for each in (at, after)
            )
            if not all_came:
                assert same(before, now)
                aborted += 1
            elif lane == 1:
                began = at._replace(
                    state=State(*({n: leaf[1:2] for n, leaf in drawer.items()} for drawer in at.state)),
                    clients={n: leaf[1:2] for n, leaf in at.clients.items()},
                )
                made, tables = by_hand(plain, began, order[1:2])
                close(now, named(made, tables), 1e-10)
                went_on += 1
    assert aborted
    assert went_on


def test_a_round_that_is_aborted_does_not_diverge() -> None:
    """What it would have come to is thrown away."""
    common = {"dataset": "quadratic", "lr": 1e200, "rounds": 5}
    _, gone = finish([Setting(**common)])
    assert int(gone.diverged[0]) > 0
    _, stayed = finish([Setting(**common, failures="clients:who=1", on_failure="abort")])
    assert int(stayed.diverged[0]) == -1
    assert float(stayed.history.last("distance")[1][0]) == 10.0


def test_a_client_that_was_not_heard_of_keeps_what_it_had() -> None:
    """In each round: rows of others than those who came are untouched, theirs are new."""
    s = setting("scaffold", failures="share:p=0.5", rounds=12, eval_every=12)
    program, seen = stages([s])
    again = 0
    for at, after in pairwise(seen):
        came, order = walk(program, at.round).came[0], program.order(at.round)[0]
        for name, leaf in after.clients.items():
            changed = (leaf != at.clients[name]).flatten(2).any(2)[0]
            assert changed.nonzero().flatten().tolist() == sorted(order[came].tolist())
            if name == next(iter(after.clients)):
                held = at.clients[name].flatten(2).any(2)[0]
                again += int(held[order[~came]].sum())  # had something to lose
    assert again


# Runs


@pytest.mark.parametrize(
    "on_failure", cases(["skip", "retry:times=1", "reroute:times=2", "abort"], ["skip", "reroute:times=2"])
)
@pytest.mark.parametrize("spec", ["sequential", "parallel", "scaffold", "fedseq:groups=2", "splitfed:cut=1,version=2"])
def test_a_lane_does_not_see_its_neighbours(spec: str, on_failure: str) -> None:
    settings = [
        setting(spec, failures="share:p=0.3", on_failure=on_failure, seed=seed, lr=0.05 * (1 + seed))
        for seed in range(4)
    ]
    _, whole = finish(settings)
    for lane in (0, 3):
        _, alone = finish([settings[lane]])
        every = named(whole.state, whole.clients)
        for name, leaf in named(alone.state, alone.clients).items():
            torch.testing.assert_close(every[name][lane], leaf[0], rtol=1e-10, atol=1e-12)
        for name in alone.history:
            assert alone.history.last(name)[1][0] == pytest.approx(whole.history.last(name)[1][lane], rel=1e-8)


@pytest.mark.parametrize("on_failure", ["skip", "retry:times=1", "reroute:times=2", "abort"])
def test_rounds_go_on_from_any_snapshot(on_failure: str) -> None:
    settings = [setting("scaffold", failures="share:p=0.3", on_failure=on_failure, seed=seed) for seed in (1, 2)]
    _, seen = stages(settings)
    *_, last = advance(Program(settings, CPU), still(seen[3]))
    assert same(named(last.state, last.clients), named(seen[-1].state, seen[-1].clients))


def runs(on_failure: str, **more: object) -> list[Setting]:
    common = {**BASE, "failures": "share:p=0.3", "on_failure": on_failure, **more}
    return [
        Setting(**common, algorithm=a, seed=seed) for a in ("sequential", "parallel", "scaffold") for seed in (1, 2)
    ]


@pytest.mark.parametrize("on_failure", ["skip", "reroute:times=1", "abort"])
def test_a_run_that_is_stopped_goes_on_byte_for_byte(
    on_failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.sweep.chunk.CHECKPOINT_SECONDS", 0.0)
    settings = runs(on_failure)
    swept(settings, tmp_path / "whole")
    for _ in range(5):
        swept(settings, tmp_path / "parts", stop_after=8)
    swept(settings, tmp_path / "parts")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path: Path) -> None:
    swept(runs("retry:times=1", rounds=6), tmp_path / "on")
    swept(runs("retry:times=1"), tmp_path / "on")
    swept(runs("retry:times=1"), tmp_path / "scratch")
    scratch = files(tmp_path / "scratch")
    assert {name: data for name, data in files(tmp_path / "on").items() if name in scratch} == scratch


def test_the_same_model_learns_less_the_more_is_lost(tmp_path: Path) -> None:
    """Where all is lost, nothing; and each is a run of its own."""
    settings = [setting(failures=f"share:p={p}", rounds=20, eval_every=20) for p in (0.0, 0.5, 1.0)]
    done = run(settings, tmp_path, quiet=True)
    assert len({s.run_id for s in settings}) == 3
    none, half, every = (float(r.metrics["test_loss"][-1]) for r in done)
    assert none < half < every
    assert every == pytest.approx(float(done[2].metrics["test_loss"][0]))


# The command line


def baton(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


SMALL = ("-M", "5", "-S", "2", "-K", "2", "-R", "6", "--eval-every", "3")


def test_failures_are_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--failures", "share:p=0.2", "--on-failure", "retry:times=1", "--runs", str(tmp_path)]
    assert baton(monkeypatch, "run", *SMALL, *words) == 0
    s = Setting(
        clients=5,
        participants=2,
        local_steps=2,
        rounds=6,
        eval_every=3,
        failures="share:p=0.2",
        on_failure="retry:times=1",
    )
    stored = Store(tmp_path).read(s.run_id)
    assert stored.complete
    assert (stored.setting.failures, stored.setting.on_failure) == ("share:p=0.2", "retry:times=1")
    _, last = finish([s])
    assert same({name: leaf.unsqueeze(0) for name, leaf in Store(tmp_path).params(s.run_id).items()}, last.state.model)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--failures", "share"], "failures: share needs p"),
        (["--failures", "share:p=2"], "failures: share has p=2; a probability, 0 <= p <= 1, is right"),
        (["--failures", "shar:p=0.1"], "failures: no failures named 'shar'"),
        (["--failures", "clients:who=5"], "failures: clients:who=5 has client 5; 0 to 4 is right"),
        (["--failures", "clients:who=2+1"], "failures: clients has who=2+1"),
        (["--on-failure", "retry:times=0"], "on_failure: retry has times=0; at least 1 is right"),
        (["--on-failure", "give-up"], "on_failure: no on_failure named 'give-up'"),
        (["--on-failure", "skip:times=1"], "on_failure: skip"),
    ],
)
def test_bad_ones_end_in_one_line(
    words: Sequence[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert baton(monkeypatch, "run", *SMALL, *words, "--runs", str(tmp_path)) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"baton: {line}")
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())
