"""Advice: the verdict by hand-made scores, the hit rate on a hand-made store, the command as one types it."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from baton import constants, search, study
from baton.advice import (
    CLEAR,
    CLOSE,
    NONE,
    Candidate,
    Measure,
    bounds,
    budget,
    counts,
    hits,
    of_setting,
    plain,
    words,
)
from baton.advice import probe as probes
from baton.advice import verdict as judge
from baton.advice.bounds import Bounds
from baton.algorithms import CANDIDATES
from baton.cli import app
from baton.errors import BadInput
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Snapshot, Store
from baton.study import Study
from baton.theory import Result
from baton.verdict import bounded

ACCURACY = Measure("test_accuracy", 1, False, 1.0)
DISTANCE = Measure("distance", -1, True, 0.0)


def one(algorithm: str, lr: float, *tails: Any, clip: float = 0.0) -> Candidate:
    return Candidate(algorithm, lr, clip, tails)


def sides(sequential: list[Candidate], parallel: list[Candidate]) -> dict[str, list[Candidate]]:
    return {"sequential": sequential, "parallel": parallel}


SMALL, LARGE = one("parallel", 0.01, (9.0,), (9.0,)), one("parallel", 1.0, None, (9.0,))


def test_a_clear_verdict() -> None:
    better = one("parallel", 0.1, (80.0, 81.0), (79.0, 80.0))
    worse = [one("sequential", lr, (60.0, 61.0), (61.0, 62.0)) for lr in (0.01, 0.1)]
    found = judge(sides(worse, [SMALL, better, LARGE]), ACCURACY)
    assert (found.winner, found.sure, found.best) == ("parallel", CLEAR, better)
    assert found.difference == pytest.approx(80.0 - 61.0)
    assert found.error == pytest.approx(1.0)  # 20 and 18 apart by seed
    assert found.apart is not None
    assert (found.apart.seeds, found.apart.paired) == (2, True)
    assert [(found.sides[n].candidates, found.sides[n].diverged) for n in found.sides] == [(2, 0), (3, 1)]
    assert words.advice(found) == "parallel with lr = 0.1 and no clip (clear)"


def test_a_candidate_that_diverged_at_one_seed_is_out() -> None:
    high = one("parallel", 1.0, (99.0,), None)
    found = judge(sides([one("sequential", 0.1, (50.0, 50.0))], [SMALL, high]), ACCURACY)
    assert found.winner == "sequential"
    assert found.sides["parallel"].best == SMALL


@pytest.mark.parametrize(
    ("ahead", "sure"),
    [
        ((52.0, 52.1), CLEAR),
        ((56.0, 51.0), CLOSE),  # 3.5 apart, standard error 2.5, and an interval of 12.7 of them
        ((70.0, 40.0), CLOSE),
        ((50.9, 50.9), CLOSE),  # no spread, but within the margin
    ],
)
def test_how_sure_depends_on_the_spread_and_the_margin(ahead: tuple[float, float], sure: str) -> None:
    even = one("parallel", 0.1, (50.0,), (50.0,))
    found = judge(sides([one("sequential", 0.1, ahead[:1], ahead[1:])], [even]), ACCURACY)
    assert (found.winner, found.sure) == ("sequential", sure)


def test_equal_scores_name_nobody() -> None:
    same = [(50.0, 51.0)]
    found = judge(sides([one("sequential", 0.1, *same)], [one("parallel", 0.1, *same)]), ACCURACY)
    assert (found.winner, found.sure) == (None, CLOSE)
    assert words.advice(found).startswith("no advice")


def test_one_evaluation_of_one_seed_proves_nothing() -> None:
    found = judge(sides([one("sequential", 0.1, (90.0,))], [one("parallel", 0.1, (50.0,))]), ACCURACY)
    assert (found.winner, found.sure) == ("sequential", CLOSE)
    assert "one seed" in words.why(found, ACCURACY)
    assert "?" in words.standing("sequential", found.sides["sequential"], ACCURACY)
    assert any("one seed" in line for line in words.warnings(found, 1, 1))


def test_many_evaluations_of_one_seed_prove_nothing_either() -> None:
    many = [tuple(80.0 + 0.1 * i for i in range(10)), tuple(50.0 + 0.1 * i for i in range(10))]
    found = judge(sides([one("sequential", 0.1, many[0])], [one("parallel", 0.1, many[1])]), ACCURACY)
    assert (found.winner, found.sure) == ("sequential", CLOSE)


def test_nothing_is_clear_that_the_test_rows_cannot_show() -> None:
    """1.35 points on 247 rows: three patients and a third."""
    ahead, behind = (one(a, 0.1, (x,), (x + 0.05,), (x,)) for a, x in (("parallel", 86.35), ("sequential", 85.0)))
    assert judge(sides([behind], [ahead]), ACCURACY).sure == CLEAR
    found = judge(sides([behind], [ahead]), ACCURACY, lambda _a, _b, x, y: bounded(x, y, 247))
    assert (found.winner, found.sure) == ("parallel", CLOSE)
    assert found.apart is not None
    assert "247 test rows" in words.why(found, ACCURACY)


def test_candidates_are_chosen_by_what_was_held_back() -> None:
    lucky = Candidate("parallel", 1.0, 0.0, ((90.0,), (90.0,)), (1, 2), (70.0, 70.0))
    sound = Candidate("parallel", 0.1, 0.0, ((85.0,), (85.0,)), (1, 2), (80.0, 80.0))
    assert judge(sides([one("sequential", 0.1, None)], [lucky, sound]), ACCURACY).best == sound


@pytest.mark.parametrize(
    ("text", "found"), [("10%", (0.1, 0)), ("2min", (0, 120)), ("90s", (0, 90)), ("1.5h", (0, 5400)), ("100 %", (1, 0))]
)
def test_budgets(text: str, found: tuple[float, float]) -> None:
    assert budget.parse(text) == pytest.approx(found)


def test_a_time_is_used_up_by_longer_runs_of_fewer_candidates() -> None:
    """A clock that a round of a run moves by one: every look costs what it trains."""
    setting, now, seen = Setting(rounds=400, clients=5), 0.0, dict[str, int]()

    def train(wanted: list[Setting]) -> None:
        nonlocal now
        for s in wanted:
            kin = f"{s.algorithm} {s.lr} {s.seed}"
            now += s.rounds - min(s.rounds, seen.get(kin, 0))
            seen[kin] = s.rounds

    def spent(seconds: float) -> list[Setting]:
        nonlocal now
        now = 0.0
        seen.clear()
        limit, names = budget.Budget(seconds=seconds), ["sequential", "parallel"]
        return budget.spend(
            setting, ACCURACY, limit, 2, names, train, lambda: lambda s, _last: 50.0 + s.lr, lambda: now
        )

    runs = spent(2000.0)
    assert 0.6 * 2000 < now <= 2000
    assert runs[0].rounds % 4 == 0
    assert {s.lr for s in runs} < {s.lr for s in probes.runs(setting, "test_accuracy")}
    whole = spent(50_000.0)  # more than the whole training of all that is left takes: more seeds then
    assert {s.rounds for s in whole} == {400}
    assert len({s.seed for s in whole}) > 2
    assert now <= 50_000


def test_size_weighting_is_tried_where_sizes_differ() -> None:
    assert probes.tried(Setting(clients=20, partition="dirichlet:alpha=1")) == list(CANDIDATES)
    assert probes.tried(Setting(dataset="quadratic")) == ["sequential", "parallel"]
    assert probes.tried(Setting(), ["scaffold", "parallel"]) == ["scaffold", "parallel"]


def test_what_to_type_next() -> None:
    rate = 10**-0.5
    found = judge(sides([SMALL], [one("parallel", rate, (80.0,), (80.0,), clip=10.0)]), ACCURACY)
    given = {"local_steps": 5, "partition": "exdir:C=1,alpha=10"}
    line = f"baton run -a parallel --lr {rate!r} --clip 10 --local-steps 5 --partition exdir:C=1,alpha=10"
    assert words.following(found, given) == line
    close = judge(sides([one("sequential", 0.1, (80.0,))], [one("parallel", rate, (79.0,))]), ACCURACY)
    assert words.following(close, {}) == f"baton compare -a sequential -a parallel --lrs 0.1,{rate!r}"


@pytest.mark.parametrize(("total", "vacuous"), [(0.5, []), (2.0, ["sequential", "parallel"])])
def test_a_bound_that_says_nothing_is_called_vacuous(total: float, vacuous: list[str]) -> None:
    """L = 2, D = 1: the first model is at most 1 above the minimum, whatever is trained."""
    terms = dict.fromkeys(words.TERMS, 0.0) | {"noise": total}
    result = Result(total, terms, 0.1, 0.1, True, ())
    found = Bounds("convex", {"L": 2.0, "D": 1.0}, [], {"sequential": result, "parallel": result}, {})
    assert found.vacuous == vacuous
    assert any(line.startswith("vacuous: ") for line in words.explained(found, None)) == bool(vacuous)


def test_all_diverged_on_one_side_or_on_both() -> None:
    alive, gone = one("parallel", 0.1, (50.0, 51.0)), one("sequential", 0.1, None)
    found = judge(sides([gone], [alive]), ACCURACY)
    assert (found.winner, found.sure) == ("parallel", CLEAR)
    assert words.standing("sequential", found.sides["sequential"], ACCURACY).endswith("1 of 1 candidates diverged")
    found = judge(sides([gone], [LARGE]), ACCURACY)
    assert (found.winner, found.sure, found.best) == (None, NONE, None)
    assert "diverged" in words.advice(found)
    assert words.why(found, ACCURACY) == "nothing to compare"


@pytest.mark.parametrize(("place", "edge"), [(0, "smallest"), (1, ""), (2, "largest")])
def test_the_edge_of_the_grid_is_told(place: int, edge: str) -> None:
    rates = [one("sequential", lr, (80.0 if i == place else 60.0,) * 2) for i, lr in enumerate((0.01, 0.1, 1.0))]
    found = judge(sides(rates, [one("parallel", 0.1, (50.0, 50.0))]), ACCURACY)
    assert found.sides["sequential"].edge == edge
    assert found.sides["parallel"].edge == ""  # a grid of one has no edge
    assert sum("of the grid" in line for line in words.warnings(found, 10, 3)) == bool(edge)


def test_distances_are_compared_by_powers_of_ten() -> None:
    found = judge(sides([one("sequential", 0.1, (1e-3,), (1e-3,))], [one("parallel", 0.1, (1e-5,), (1e-5,))]), DISTANCE)
    assert (found.winner, found.sure) == ("parallel", CLEAR)
    assert found.difference == pytest.approx(2.0)
    both = judge(sides([one("sequential", 0.1, (1e-15, 0.0))], [one("parallel", 0.1, (0.0, 0.0))]), DISTANCE)
    assert (both.winner, both.sure) == (None, CLOSE)  # both are at the optimum, up to rounding


def test_of_equals_the_first_is_taken() -> None:
    plain_, clipped = one("parallel", 0.1, (50.0, 51.0)), one("parallel", 0.1, (50.0, 51.0), clip=10.0)
    assert judge(sides([one("sequential", 0.1, None)], [plain_, clipped]), ACCURACY).best == plain_


def test_the_probe_s_runs() -> None:
    net = Setting(model="mlp:dropout=0", rounds=1000, seed=5)
    runs = probes.runs(net, "test_accuracy")
    assert len(runs) == 2 * 7 * 2 * 3
    assert {s.rounds for s in runs} == {100}
    assert {s.seed for s in runs} == {5, 6, 7}
    assert {s.clip for s in runs if s.algorithm == "parallel"} == {0.0, 10.0}
    assert {s.clip for s in runs if s.algorithm == "sequential"} == {0.0, 50.0}
    assert sorted({round(math.log10(s.lr), 6) for s in runs}) == [-3, -2.5, -2, -1.5, -1, -0.5, 0]
    assert {s.clip for s in probes.runs(Setting(rounds=1000), "test_accuracy")} == {0.0}
    assert probes.last(runs[0], "test_accuracy") == 10
    assert probes.last(runs[0].replace(rounds=8), "test_accuracy") == 1
    quadratic = Setting(dataset="quadratic", rounds=500, eval_every=500)
    assert probes.length(quadratic, "distance", 0.1) == 50  # distances are there at every round
    assert probes.length(quadratic, "test_loss", 0.1) == 500
    assert of_setting(quadratic) == DISTANCE
    assert of_setting(net) == ACCURACY


# A store by hand: accuracy as a function of (setting, round).
Curve = Callable[[Setting, int], float]


def keep(store: Store, settings: list[Setting], curve: Curve) -> None:
    for s in settings:
        rounds = [*range(0, s.rounds, s.eval_every), s.rounds]
        rows = [(r, np.array([curve(s, r)])) for r in rounds]
        lost = next((r for r, value in rows if math.isnan(value[0])), -1)
        state, history = State({"x": torch.zeros(1, 1)}), History({"test_accuracy": rows})
        store.finish([s], Snapshot(s.rounds, state, {}, torch.tensor([lost]), history))


def made(**changes: Any) -> Study:
    table: dict[str, Any] = {
        "base": {"rounds": 200, "eval_every": 4, "clients": 5},
        "axes": {"algorithm": ["sequential", "parallel"], "lr": [0.1, 1.0], "seed": [1, 2]},
        "groups": {name: {"local_steps": k} for name, k in (("keeps", 1), ("turns", 2), ("tie", 3), ("absent", 4))},
        "report": {"last": 5, "margin": 1.0},
    }
    return study.parse("made", {**table, **changes})


def score(s: Setting, r: int) -> float:
    """keeps: sequential ahead all along; turns: at first, then parallel; tie: by half a point. lr = 1 diverges late."""
    if s.lr == 1.0:
        return math.nan if r > 100 else 30.0
    ahead = {1: 10.0, 2: 10.0 if r <= 20 else -15.0, 3: 0.5}[s.local_steps] if s.algorithm == "sequential" else 0.0
    return 50.0 + ahead + (0.1 if r % 8 else -0.1) + 0.1 * s.seed


def test_hits_of_a_store_by_hand(tmp_path: Path) -> None:
    shown, store = made(), Store(tmp_path)
    keep(store, [s for s in shown.settings if s.local_steps < 4], score)
    before = sorted(tmp_path.rglob("*"))
    found = hits(shown, store)
    assert sorted(tmp_path.rglob("*")) == before  # nothing was trained or written
    by_group = {hit.group: hit for hit in found.rows}
    assert list(by_group) == ["keeps", "turns", "tie"]
    assert found.left_out == 1
    assert {(hit.rounds, hit.seeds) for hit in found.rows} == {(20, 2)}
    keeps, turns, tie = by_group.values()
    assert (keeps.probe.winner, keeps.full.winner, keeps.hit, keeps.decided) == ("sequential", "sequential", True, True)
    assert (turns.probe.winner, turns.full.winner, turns.hit, turns.decided) == ("sequential", "parallel", False, True)
    assert turns.full.difference == pytest.approx(15.0)
    assert turns.lost == pytest.approx(15.0)
    assert (tie.probe.sure, tie.full.winner, tie.hit, tie.decided) == (CLOSE, "sequential", True, False)
    assert keeps.lost == 0.0
    n = counts(found)
    assert [n[key] for key in ("settings", "hits", "decided", "decided_hits", "sequential")] == [3, 2, 2, 1, 1]
    assert [n[key] for key in ("spoken", "spoken_hits", "rates", "same", "left_out")] == [2, 1, 6, 6, 1]
    later = hits(shown, store, part=0.5, seeds=1)
    assert counts(later)["decided_hits"] == 2
    assert {hit.seeds for hit in later.rows} == {1}


def test_hits_of_a_search_need_the_searched_seed_only(tmp_path: Path) -> None:
    shown, store = made(tune={"seed": 2}), Store(tmp_path)
    keep(store, [s for s in shown.settings if s.local_steps == 1 and (s.seed == 2 or s.lr == 0.1)], score)
    keep(store, [s for s in shown.settings if s.local_steps == 2 and s.seed == 1], score)
    found = hits(shown, store)
    assert [hit.group for hit in found.rows] == ["keeps"]
    assert found.left_out == 3
    assert found.rows[0].seeds == 1
    assert len(found.rows[0].full.sides["parallel"].best.tails) == 2  # type: ignore[union-attr]  # the winner on both
    with pytest.raises(BadInput, match=r"^probe: 2; a part of the rounds"):
        hits(shown, store, part=2.0)


def baton(*line: str | Path) -> Any:
    return CliRunner().invoke(app, ["advise", *map(str, line)])


def test_check_on_the_command_line(tmp_path: Path) -> None:
    toml = tmp_path / "made.toml"
    toml.write_text(
        '[base]\nrounds = 200\nclients = 5\n[axes]\nalgorithm = ["sequential", "parallel"]\nlr = [0.1, 1.0]\n'
        "local_steps = [1, 2]\nseed = [1, 2]\n[report]\nlast = 5\nmargin = 1.0\n"
    )
    keep(Store(tmp_path / "r"), study.read(toml).settings, score)
    shown = baton("--check", toml, "--runs", tmp_path / "r")
    assert shown.exit_code == 0, shown.output
    assert "| all, K = 2 | sequential (clear) | parallel | 15.00 | miss | 15.00 |" in shown.output
    assert "winner named in 1 of 2 settings, in 1 of 2 decided ones" in shown.output
    found = json.loads(baton("--check", toml, "--runs", tmp_path / "r", "--json").output)
    assert (found["hits"], found["decided"], found["probe"]) == (1, 2, 0.1)
    assert [row["hit"] for row in found["rows"]] == [True, False]
    assert baton("--check", toml, "--runs", tmp_path / "none").exception.args[0].startswith("check: ")


def test_a_small_run_on_digits(tmp_path: Path) -> None:
    small = ["-d", "digits", "-m", "mlp:hidden=16,dropout=0", "-p", "exdir:C=1,alpha=10", "-M", "10", "-S", "5"]
    done = baton(*small, "-R", "80", "--seeds", "2", "--runs", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found) == {
        "setting", "advice", "next", "sure", "difference", "error", "interval", "test_rows", "probe", "sides", "bounds",
        "warnings",
    }  # fmt: skip
    assert found["probe"]["rounds"] == 8
    assert found["probe"]["runs"] == 3 * 7 * 2 * 2
    assert found["advice"]["algorithm"] in CANDIDATES
    assert found["test_rows"] == 360
    assert {s.validation for s in Store(tmp_path).settings().values()} == {0.2}
    assert found["sure"] in (CLEAR, CLOSE)
    assert found["bounds"]["case"] == "nonconvex"
    assert found["bounds"]["local_estimates"] == ["L", "sigma2", "beta2", "zeta2"]
    assert found["bounds"]["sequential"]["total"] > 0
    again = baton(*small, "-R", "80", "--seeds", "2", "--runs", tmp_path, "--no-bounds")  # nothing is left to train
    assert f"{found['advice']['algorithm']} with lr = {found['advice']['lr']:.4g}" in again.output
    assert "8 of 80 rounds, 2 seeds" in again.output


@pytest.mark.parametrize(("delta", "wins"), [("0", "parallel"), ("1", "sequential")])
def test_quadratics_as_the_paper_has_them(tmp_path: Path, delta: str, wins: str) -> None:
    """With equal Hessians the clients' errors cancel in the mean; with different ones they do not."""
    line = ["-d", f"quadratic:zeta=10,delta={delta}", "-K", "10", "-R", "500", "--runs", tmp_path]
    shown = baton(*line)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith(wins)
    assert CLOSE not in shown.stdout.splitlines()[0]
    assert "sequential's is smaller by a factor" in shown.stdout  # whoever wins
    assert ("unlike the probe" if wins == "parallel" else "as the probe has it") in shown.stdout
    assert words.LIMITATION in shown.stdout


def test_bounds_need_a_minimum() -> None:
    setting = Setting(clients=5, rounds=100)
    nothing = constants.Constant(None, constants.UNDEFINED, note="no minimiser")
    with pytest.raises(BadInput, match=r"^D is not defined: no minimiser$"):
        bounds(constants.Measured(setting, "logistic regression", {"D": nothing}, [], 5))


def test_advice_as_json_has_no_infinities() -> None:
    found = judge(sides([one("sequential", 0.1, None)], [one("parallel", 0.1, (50.0,))]), ACCURACY)
    setting = Setting(rounds=100)
    shown = plain.advice(setting, probes.runs(setting, "test_accuracy"), 1, ACCURACY, found, "no bounds: none")
    assert shown["difference"] is None
    assert shown["bounds"] == "no bounds: none"
    json.dumps(shown, allow_nan=False)


def test_a_probe_in_the_store_is_the_beginning_of_the_run(tmp_path: Path) -> None:
    """What the probe trained is read, and gone on from, as the run's own first rounds."""
    setting = Setting(clients=5, rounds=100, validation=0.2)
    short = probes.runs(setting, "test_accuracy", seeds=1)[0]
    long = Setting(**{**short.model_dump(), "rounds": 100})
    keep(Store(tmp_path), [short], lambda _, r: float(r))
    assert Store(tmp_path).begun([long], "fp32")[long.run_id] == short.rounds == 8
    read = search.reader(Store(tmp_path), "test_accuracy")
    assert probes.tail(short, read, "test_accuracy", 2) == (4.0, 8.0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--lr", "0.1"], "lr: 0.1 is given, but it is what 'baton advise' finds; leave it out"),
        (["--clip", "10"], "clip: 10.0 is given, but it is what 'baton advise' finds; leave it out"),
        (["-a", "parallel"], "algorithm: parallel; two or more that differ, or none, are right"),
        (["--budget", "0%"], "budget: '0%'; a part of the rounds, 10%, or a time, 90s, 2min or 1h, is right"),
        (["--budget", "150%"], "budget: '150%'; a part of the rounds, 10%, or a time, 90s, 2min or 1h, is right"),
        (["--budget", "soon"], "budget: 'soon'; a part of the rounds, 10%, or a time, 90s, 2min or 1h, is right"),
        (
            ["--check", "digits", "--budget", "2min"],
            "budget: '2min'; stored runs are looked at for a part of their rounds, such as 10%",
        ),
        (["--seeds", "0"], "seeds: 0; at least 1 is right"),
        (
            ["--check", "digits", "-K", "5"],
            "check: a study gives its own settings, so --check goes without local_steps",
        ),
        (["--check", "digits", "--seeds", "0"], "seeds: 0; at least 1 is right"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, line: list[str], said: str) -> None:
    done = baton(*line, "--runs", tmp_path)
    assert isinstance(done.exception, BadInput)
    assert str(done.exception) == said
    assert list(tmp_path.iterdir()) == []
