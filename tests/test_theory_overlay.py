"""`baton bounds STUDY` and `baton report --overlay`: what is set beside what, and lines for what cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from baton import study as studies
from baton.api import run
from baton.cli import app
from baton.cli.replay import Replay
from baton.errors import BadInput
from baton.report import overlaid, overlay, report
from baton.setting import Setting
from baton.store import Store
from baton.theory import average, bound
from families import few_digits
from measured import CPU, iterates, quadratic_values

SPEC = "quadratic_random:dim=2,L=2,mu=1,delta=0.5,zeta=3,sigma=1"
TABLE: dict[str, Any] = {
    "base": {"dataset": SPEC, "model": "quadratic:start=1", "clients": 4, "participants": 2, "rounds": 60},
    "axes": {"algorithm": ["sequential", "parallel"], "lr": [0.001, 0.005, 0.02, 2.0], "seed": [1, 2, 3]},
    "report": {"metric": "objective_gap", "best": "min", "log": True},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Store]:
    """A study of quadratics and its runs; one learning rate diverges."""
    folder = tmp_path_factory.mktemp("overlay")
    text = [f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in own.items()) for name, own in TABLE.items()]
    (folder / "small.toml").write_text("\n".join(text))
    run(studies.read(folder / "small.toml").settings, folder / "runs", quiet=True)
    return folder / "small.toml", Store(folder / "runs")


def call(*words: Any) -> str:
    result = CliRunner().invoke(app, ["bounds", *map(str, words)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@settings(max_examples=30)
@given(st.integers(0, 40), st.floats(0.01, 5), st.floats(1e-3, 0.1), st.sampled_from(["convex", "strongly_convex"]))
def test_running_means_are_the_averages(R: int, mu: float, h: float, case: str) -> None:
    values = np.random.default_rng(R).normal(size=(3, R + 1))
    found = overlay.running(values, case, mu, h)
    for r in range(R + 1):
        assert found[:, r] == pytest.approx(average(values[:, : r + 1].T, case, mu, h))


def test_points() -> None:
    assert overlay.points(1).tolist() == [1]
    assert overlay.points(5).tolist() == [1, 2, 3, 5]
    many = overlay.points(100_000)
    assert (many[0], many[-1]) == (1, 100_000)
    assert len(many) <= overlay.POINTS


def test_cells_of_quadratics(trained: tuple[Path, Store]) -> None:
    """Measured: from the store's own numbers, and no less than F at the averaged iterate. Proved: the theorem."""
    study, store = studies.read(trained[0]), trained[1]
    found = overlay.cells(study, overlay.exact(), overlay.stored(store))
    assert [cell.algorithm for cell in found] == ["sequential", "parallel"]
    for cell in found:
        s, h = cell.setting, overlay.effective(cell.setting)
        assert h == s.lr * s.local_steps * (2 if cell.algorithm == "sequential" else 1)
        assert (cell.case, cell.seeds, cell.why) == ("strongly_convex", 3, "")
        own = {symbol: pytest.approx(value) for symbol, value in (("L", 2), ("mu", 1), ("sigma", 1), ("zeta", 3))}
        assert cell.constants | own == cell.constants
        counts = {"M": 4, "S": 2, "K": 5}
        rates = {lr: lr * h / s.lr for lr in TABLE["axes"]["lr"]}
        ends = {
            lr: bound(cell.algorithm, cell.case, eta_tilde=rate, strict=False, R=60, **cell.constants, **counts)
            for lr, rate in rates.items()
        }
        assert min((end.total, lr) for lr, end in ends.items() if end.valid)[1] == s.lr
        assert cell.bound is not None
        assert cell.bound.total[-1] == pytest.approx(ends[s.lr].total)
        for place, R in enumerate(cell.rounds.astype(int)):
            there = bound(cell.algorithm, cell.case, eta_tilde=h, strict=False, R=R, **cell.constants, **counts)
            assert np.isnan(cell.bound.total[place]) == (not there.valid)
            if there.valid:
                assert cell.bound.total[place] == pytest.approx(there.total)
                assert sum(term[place] for term in cell.bound.terms.values()) == pytest.approx(there.total)
        for place, seed in enumerate((1, 2, 3)):
            gap = store.read(Setting(**s.model_dump() | {"seed": seed}).run_id).metrics["objective_gap"]
            assert cell.measured[place, -1] == pytest.approx(average(gap, cell.case, 1.0, h))
            assert cell.measured[place, 0] == pytest.approx(average(gap[:2], cell.case, 1.0, h))
        common = {k: v for k, v in s.model_dump().items() if k not in ("lr", "seed")}
        runs = iterates(common, [s.lr], 4)[:, 0, 1:]  # seeds 1, 2, 3
        exact = quadratic_values(SPEC, 4)["convex"](average(runs, cell.case, 1.0, h))
        assert (exact <= cell.measured[:, -1] * (1 + 1e-9)).all()
        assert 0 < cell.ratio < 1
        assert cell.ratio == pytest.approx(cell.measured[:, -1].mean() / cell.bound.total[-1])


def test_the_command(trained: tuple[Path, Store], tmp_path: Path) -> None:
    path, store = trained
    told = call(path, "--runs", store.root)
    assert [line.split()[:2] for line in told.splitlines()[-2:]] == [["all", "sequential"], ["all", "parallel"]]
    assert "nan" not in told
    for form, starts in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert call(path, "--runs", store.root, "--out", tmp_path / "in" / f"x.{form}", "-q") == told
        assert (tmp_path / "in" / f"x.{form}").read_bytes().startswith(starts)
    call(path, "--runs", store.root, "--out", tmp_path / "x.svg", "-q")
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "in" / "x.svg").read_bytes()
    cells = json.loads(call(path, "--runs", store.root, "--json"))
    assert [cell["seeds"] for cell in cells] == [3, 3]
    assert all(0 < cell["ratio"] < 1 and cell["bound"][0] is None for cell in cells)
    none = json.loads(call(path, "--runs", tmp_path / "nothing", "--json"))
    assert [(cell["seeds"], cell["ratio"], cell["measured"]) for cell in none] == [(0, None, None)] * 2
    assert "not run" in call(path, "--runs", tmp_path / "nothing", "--out", tmp_path / "z.png")


@pytest.mark.parametrize("words", [(), ("--eta-tilde", "0.05"), ("--case", "nonconvex", "-a", "parallel", "-R", "7")])
def test_constants_alone(words: tuple[str, ...], tmp_path: Path) -> None:
    assert call(*words, "--out", tmp_path / "x.svg") == call(*words)
    assert (tmp_path / "x.svg").read_bytes().startswith(b"<?xml")


def small(**base: Any) -> studies.Study:
    return studies.parse("small", {"base": {**TABLE["base"], **base}, "axes": {"lr": [0.01], "seed": [1, 2]}})


@pytest.mark.parametrize(
    ("base", "line"),
    [
        ({"clip": 5.0}, "small has no run that the theorems speak of; clip: 5; the theorems are for 0"),
        ({"schedule": "fixed"}, "schedule: fixed; the theorems are for shuffled"),
        ({"algorithm": "parallel:server_lr=0.5"}, "algorithm: parallel:server_lr=0.5; the theorems are for sequential"),
        ({"weight_decay": 0.1}, "weight_decay = 0.1; the store's F"),
        ({"dataset": "families:few_digits", "model": "logistic"}, "'families:few_digits' is no quadratic"),
    ],
)
def test_what_the_theorems_do_not_speak_of(base: dict[str, Any], line: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=line):
        overlay.cells(small(**base), overlay.exact(), overlay.stored(Store(tmp_path)))


def test_a_rate_that_is_too_large_is_said(tmp_path: Path) -> None:
    (cell,) = overlay.cells(small(local_steps=50), overlay.exact(), overlay.stored(Store(tmp_path)))
    assert cell.bound is None
    assert cell.why == "eta_tilde: 1; at most 1/(6 L) = 0.0833333 is right"
    assert np.isnan(cell.ratio)
    assert overlaid.study_figure([cell], "png").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("PATH", "--L", "2"), "constants of its own, so it goes without --L"),
        (("PATH", "-K", "2"), "so it goes without --local-steps"),
        (("PATH", "--table"), "so it goes without --table"),
        (("PATH", "--group", "none"), "group: no 'none' in small; "),
        (("PATH", "--out", "x.gif"), "out: 'x.gif'; a name that ends in .svg, .pdf, .png is right"),
        (("--out", "x"), "out: 'x'; a name that ends in"),
        (("--out", "x.png", "-R", "3"), "R: 3; at least 6 L/mu"),
        (("--out", "x.png", "--table"), "Table 1 has no figure"),
        (("--group", "x"), "baton bounds STUDY --group NAME is right"),
    ],
)
def test_one_line(words: tuple[str, ...], line: str, trained: tuple[Path, Store]) -> None:
    with pytest.raises(BadInput) as refused:
        call(*(str(trained[0]) if word == "PATH" else word for word in words))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


# Logistic regression: constants measured, runs trained once more.

FEW: dict[str, Any] = {
    "dataset": "families:few_digits",
    "partition": "natural",
    "model": "logistic",
    "clients": 3,
    "local_steps": 2,
    "rounds": 40,
    "batch_size": 5,
    "sampling": "replacement",
    "weight_decay": 2.0,
}


def test_logistic_regression_is_trained_once_more() -> None:
    """F(average) - F* of each seed, whose start is its own; by hand from its iterates."""
    study = studies.parse("few", {"base": FEW, "axes": {"lr": [0.0001, 0.004, 5.0], "seed": [0, 1]}})
    replay = Replay(CPU, lambda *_: None)
    (cell,) = overlay.cells(study, replay.know, replay.measured)
    assert (cell.case, cell.seeds, cell.setting.lr) == ("strongly_convex", 2, 0.004)
    assert 0 < cell.ratio < 1
    runs = iterates(FEW, [0.004], 2)[:, 0]
    mean = average(runs, cell.case, 2.0, overlay.effective(cell.setting))
    data = few_digits(3)
    x, y, own = data.x.double(), data.y, torch.arange(90) * 3 // 90

    def objective(flat: Any) -> Any:
        weight, bias = flat[:24].view(3, 8), flat[24:]
        loss = torch.nn.functional.cross_entropy(x @ weight.T + bias, y, reduction="none")
        return torch.stack([loss[own == m].mean() for m in range(3)]).mean() + flat.square().sum()

    best = torch.zeros(27, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.LBFGS([best], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure() -> Any:
        descent.zero_grad()
        value = objective(best)
        value.backward()
        return value

    descent.step(closure)
    least = float(objective(best.detach()))
    gaps = [float(objective(torch.from_numpy(point))) - least for point in mean]
    assert cell.measured[:, -1] == pytest.approx(gaps, rel=1e-3)
    starts = np.linalg.norm(runs[0] - best.detach().numpy(), axis=1)
    assert cell.constants["D"] == pytest.approx(starts.mean(), rel=1e-4)


def test_problems_without_constants_say_what_is_needed() -> None:
    replay = Replay(CPU, lambda *_: None)
    for change, line in (
        ({"model": "mlp"}, "model 'mlp' is not convex; its constants must be given: baton bounds --case nonconvex"),
        ({"weight_decay": 0.0}, "F has no minimiser .* weight_decay above 0"),
    ):
        study = studies.parse("few", {"base": {**FEW, **change}})
        with pytest.raises(BadInput, match=line) as refused:
            overlay.cells(study, replay.know, replay.measured)
        assert "\n" not in str(refused.value)


# On the page.


def test_the_page_has_the_bounds_when_asked(trained: tuple[Path, Store], tmp_path: Path) -> None:
    study, store = studies.read(trained[0]), trained[1]
    page = report([study], store, tmp_path / "page", bounds=True)
    made = {path.name for path in page.parent.iterdir()}
    assert {f"small-bounds.{form}" for form in ("png", "svg", "pdf")} <= made
    text = page.read_text()
    assert "Measured against proved" in text
    assert 'href="small-bounds.svg"' in text


def test_constants_are_measured_once_and_hold_for_every_seed() -> None:
    """The optimum is looked for once, whatever the seeds; D and A are those of each run's own start."""
    from baton.constants import measure, symbols

    same: dict[str, Any] = {"dataset": "digits", "partition": "exdir:C=2,alpha=10", "weight_decay": 0.1, "rounds": 5}
    runs = [Setting(**same, seed=seed, sampling="replacement") for seed in (1, 2)]
    told: list[tuple[str, int]] = []
    replay = Replay(torch.device("cpu"), lambda what, done, _: told.append((what, done)))
    _, found = replay.know(runs)
    assert told.count(("the optimum", 1)) == 1
    alone = symbols(measure(runs[1], torch.device("cpu"), ("D", "A"), points=1, rounds=1))[1]
    for letter in ("D", "A"):
        assert found[1][letter] == pytest.approx(alone[letter], rel=1e-9)
        assert found[0][letter] != found[1][letter]
