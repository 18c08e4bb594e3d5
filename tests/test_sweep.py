"""Many runs: chunks, memory, resuming, several processes on one store."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from baton.api import run
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate import memory
from baton.simulate.engine import Program, first
from baton.simulate.kept import Kept, laid_out
from baton.simulate.rounds import one
from baton.store import Facts, Pool, Snapshot, Store
from baton.store.claims import Claim
from baton.sweep import Plan, chunk, plan, sweep

CPU = torch.device("cpu")
BASE = {"rounds": 12, "clients": 5, "participants": 2, "local_steps": 2, "eval_every": 3}


def grid(**fixed: object) -> list[Setting]:
    lrs, seeds = (0.01, 0.1, 1.0), (1, 2)
    return [
        Setting(**{**BASE, **fixed, "algorithm": a, "lr": lr, "seed": seed})
        for a in ("sequential", "parallel")
        for lr in lrs
        for seed in seeds
    ]


def files(root: Path) -> dict[str, bytes]:
    """Every file of every run; the journal holds times and does not count."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.glob("[0-9a-f]*/*"))}


def finish(settings: list[Setting], root: Path, stop_after: int | None = None, **options: object) -> int:
    """Sweep to the end, or stop after some rounds as Ctrl-C does."""
    seen = 0
    for _ in sweep(settings, Store(root), **{"device": CPU, **options}):  # type: ignore[arg-type]
        seen += 1
        if stop_after is not None and seen >= stop_after:
            break
    return seen


def test_files_of_a_run(tmp_path: Path) -> None:
    setting = Setting(**BASE)
    (found,) = run(setting, tmp_path)
    folder = tmp_path / setting.run_id
    names = ["SHA256SUMS", "metrics.csv", "setting.json", "state.safetensors"]
    assert sorted(p.name for p in folder.iterdir()) == names
    header, *rows = (folder / "metrics.csv").read_text().splitlines()
    measured = "round,test_loss,test_accuracy,train_loss,train_accuracy,train_random_loss,train_random_accuracy"
    assert header == f"{measured},bytes_up,bytes_down,bytes_peer"
    assert [int(row.split(",")[0]) for row in rows] == [0, 3, 6, 9, 12]
    assert found.complete
    assert found.diverged is None
    assert found.setting == setting
    state = Store(tmp_path).params(setting.run_id)
    assert {name: tuple(leaf.shape) for name, leaf in state.items()} == {"1.weight": (10, 64), "1.bias": (10,)}


def test_quadratic_columns_at_every_round(tmp_path: Path) -> None:
    setting = Setting(dataset="quadratic", rounds=5, eval_every=5, lr=0.1)
    (found,) = run(setting, tmp_path)
    header = (tmp_path / setting.run_id / "metrics.csv").read_text().splitlines()[0]
    assert header.endswith("train_random_accuracy,distance,objective_gap,bytes_up,bytes_down,bytes_peer")
    assert found.metrics["round"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found.metrics["distance"][0] == 10.0
    assert (found.metrics["distance"] == found.metrics["distance"]).all()


def test_complete_runs_are_not_run_again(tmp_path: Path) -> None:
    settings = grid()
    assert finish(settings, tmp_path) == 2 * 12
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("[0-9a-f]*/*")}
    assert finish(settings, tmp_path) == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("[0-9a-f]*/*")} == before
    more = [*settings, Setting(**BASE, seed=77)]
    assert finish(more, tmp_path) == 12
    assert {p: p.stat().st_mtime_ns for p in before} == before


@pytest.mark.parametrize("stop", [1, 7, 12, 13, 20])
def test_stopped_and_gone_on_with_gives_the_same_bytes(tmp_path: Path, stop: int) -> None:
    settings = grid()
    finish(settings, tmp_path / "whole")
    finish(settings, tmp_path / "pieces", stop_after=stop)
    assert not all(Store(tmp_path / "pieces").complete(s.run_id) for s in settings)
    finish(settings, tmp_path / "pieces", stop_after=3)
    assert finish(settings, tmp_path / "pieces") <= 24 - stop
    assert files(tmp_path / "pieces") == files(tmp_path / "whole")
    assert not Store(tmp_path / "pieces").pool.chunks()


@pytest.mark.parametrize("algorithm", ["fedavgm", "scaffold"])  # the server keeps something; the clients do too
@pytest.mark.parametrize("stop", [1, 5, 12])
def test_all_that_is_kept_between_rounds_is_gone_on_with(algorithm: str, stop: int, tmp_path: Path) -> None:
    settings = [Setting(**BASE, algorithm=algorithm, lr=lr) for lr in (0.1, 0.5)]
    finish(settings, tmp_path / "whole")
    finish(settings, tmp_path / "pieces", stop_after=stop)
    finish(settings, tmp_path / "pieces")
    assert files(tmp_path / "pieces") == files(tmp_path / "whole")
    finish([Setting(**{**s.model_dump(), "rounds": 6}) for s in settings], tmp_path / "on")
    finish(settings, tmp_path / "on")
    scratch = files(tmp_path / "whole")
    assert {name: data for name, data in files(tmp_path / "on").items() if name in scratch} == scratch
    kept, _ = Store(tmp_path / "whole").resume([Setting(**{**settings[0].model_dump(), "rounds": 15})], 12, CPU)
    assert all(leaf.any() for leaf in kept.state.server.values())
    assert bool(kept.clients) == (algorithm == "scaffold")


def test_chunks_stay_as_laid_when_memory_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = grid()
    each = max(memory.measured(settings[0], CPU), memory.measured(settings[6], CPU))
    monkeypatch.setattr(memory, "free", lambda _device: 2 * each)
    finish(settings, tmp_path, stop_after=3)
    laid = [chunk.laid.runs for chunk in Store(tmp_path).pool.chunks()]
    assert max(len(chunk) for chunk in laid) < 6
    monkeypatch.setattr(memory, "free", lambda _device: 1 << 40)
    seen = {p.chunks for p in sweep(settings, Store(tmp_path), CPU)}
    assert seen == {len(laid)}


def test_another_call_goes_on_with_what_was_left(tmp_path: Path) -> None:
    settings = grid()
    finish(settings[:6], tmp_path, stop_after=8)
    assert finish(settings, tmp_path) == 4 + 12
    assert all(Store(tmp_path).complete(s.run_id) for s in settings)


def test_a_crash_while_laying_down_loses_nothing_and_mixes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parallel_first = [*grid()[6:], *grid()[:6]]  # the chunk in flight comes second in the new call's own order
    finish(parallel_first, tmp_path / "whole")
    finish(grid()[:6], tmp_path / "pieces", stop_after=8)

    def crash(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("baton.store.files.write_json", crash)
        with pytest.raises(OSError, match="no space left"):
            finish(parallel_first, tmp_path / "pieces")
    assert finish(parallel_first, tmp_path / "pieces") == 4 + 12
    assert files(tmp_path / "pieces") == files(tmp_path / "whole")


def planned(settings: list[Setting], memory: int | None) -> Plan:
    return plan(settings, Store("nowhere"), CPU, memory)


def test_chunks_fit_the_memory() -> None:
    settings = grid()[:6]
    each = memory.measured(settings[0], CPU)
    for fits in (1, 2, 3, 5, 6, 100):
        chunks = planned(settings, fits * each).chunks
        assert max(len(chunk) for chunk in chunks) <= fits
        assert len(chunks) == -(-6 // fits)
        assert [s for chunk in chunks for s in chunk] == settings
    with pytest.raises(BadInput, match=r"memory: .* is too little; one lane of this setting needs"):
        planned(settings, each - 1)


def test_parallel_needs_memory_for_its_participants() -> None:
    sequential, parallel = (
        Setting(model="mlp:hidden=2000", participants=10, algorithm=name) for name in ("sequential", "parallel")
    )
    assert memory.measured(parallel, CPU) > 1.5 * memory.measured(sequential, CPU)


@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
@pytest.mark.parametrize("model", ["mlp", "user_modules:embedded"])
def test_memory_is_what_a_round_of_many_lanes_takes_for_each(model: str, algorithm: str) -> None:
    common = {**BASE, "model": model, "algorithm": algorithm, "participants": 6, "local_steps": 7, "clients": 20}
    lanes = [Setting(**common, seed=seed) for seed in range(40)]
    each = memory.measured(lanes[0], CPU)
    program = Program(lanes, CPU)
    at, order, now = first(program), program.order(0), program.now(0, program.rate(0))
    with memory.Allocated() as found:
        one(program, now, order, program.ahead(0, order), at.state, Kept(laid_out(at.clients, None)), at.diverged)
    taken = found.peak + 2 * sum(leaf.nbytes for leaf in at.state.model.values())
    assert 0.8 * taken <= each * len(lanes) <= 3 * taken


def test_what_is_freed_is_no_longer_counted() -> None:
    with memory.Allocated() as found:
        a = torch.zeros(1000)
        b = a[10:]  # a view: nothing new
        assert found.now == 4000
        del a
        assert found.now == 4000
        del b
        assert found.now == 0
        torch.zeros(10) + torch.zeros(10)
    assert found.peak == 4000


def test_what_cannot_work_is_said_before_anything_trains(tmp_path: Path) -> None:
    good, bad = grid()[:1], Setting(**BASE, partition="exdir:C=1,alpha=10")
    with pytest.raises(BadInput, match="cannot cover 10 classes"):
        finish([*good, bad], tmp_path)
    assert not list(tmp_path.glob("*/metrics.csv"))


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("2k", 2048), ("1.5GiB", 3 << 29), ("500MB", 500 << 20)])
def test_sizes(text: str, size: int) -> None:
    assert memory.parse(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1G", "0", "1X", "G"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(BadInput, match=r"memory: .* is not a size"):
        memory.parse(text)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    setting = Setting(**BASE)
    run(setting, tmp_path)
    store, state = Store(tmp_path), tmp_path / setting.run_id / "state.safetensors"
    state.write_bytes(state.read_bytes()[:20])
    with pytest.raises(BadInput, match=r"state\.safetensors is damaged; 'baton repair' moves it aside"):
        store.read(setting.run_id)
    (tmp_path / setting.run_id / "metrics.csv").write_text("round,test_loss\n0\n")
    with pytest.raises(BadInput, match=r"metrics\.csv is damaged"):
        store.read(setting.run_id)


def test_half_written_run_is_trained_again(tmp_path: Path) -> None:
    setting = Setting(**BASE)
    run(setting, tmp_path)
    whole = files(tmp_path)
    os.remove(tmp_path / setting.run_id / "state.safetensors")
    (tmp_path / setting.run_id / "metrics.csv").write_text("round")
    run(setting, tmp_path)
    assert files(tmp_path) == whole


def test_no_pickle_is_ever_read_from_a_store() -> None:
    sources = {path.name: path.read_text() for path in (Path(__file__).parents[1] / "src").rglob("*.py")}
    assert not [name for name, text in sources.items() if "torch.load" in text or "allow_pickle=True" in text]
    assert [name for name, text in sources.items() if "import pickle" in text] == ["pickled.py"]  # CIFAR-10's own files


def in_flight(root: Path) -> Snapshot:
    """The one checkpoint there is."""
    (chunk,) = Store(root).pool.chunks()
    found = Store(root).pool.load(chunk, CPU)
    assert found
    return found[0]


def test_work_in_flight_round_trips(tmp_path: Path) -> None:
    settings = grid()[:6]
    finish(settings, tmp_path, stop_after=5)
    at = in_flight(tmp_path)
    assert at.round == 5
    assert [r for r, _ in at.history["test_loss"]] == [0, 3]
    assert at.state.model["1.weight"].shape == (6, 10, 64)


# When to save


def saves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoint: float, save_takes: float) -> list[int]:
    """The rounds at which a run was saved, on a clock by which a round takes a second."""
    clock, saved = [0.0], list[int]()
    rounds = chunk.advance

    def ticking(program: Program, at: Snapshot) -> Iterator[Snapshot]:
        for after in rounds(program, at):
            clock[0] += 1.0
            yield after

    def save(_pool: Pool, _claim: Claim, at: Snapshot, _how: Facts) -> None:
        clock[0] += save_takes
        saved.append(at.round)

    monkeypatch.setattr(chunk, "advance", ticking)
    monkeypatch.setattr(chunk.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Pool, "save", save)
    finish([Setting(**{**BASE, "rounds": 100})], tmp_path, checkpoint=checkpoint)
    return saved


def test_checkpoints_are_as_far_apart_as_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert saves(monkeypatch, tmp_path, 9.5, 0.0) == [3, *range(13, 100, 10)]  # the first evaluation at once


def test_writing_takes_a_tenth_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert saves(monkeypatch, tmp_path, 9.5, 2.45) == [3, 28, 53, 78]


class Stopped(KeyboardInterrupt):
    """Ctrl-C in the middle of a round."""


@pytest.mark.parametrize("keeps", [False, True])
def test_ctrl_c_inside_a_round_saves_no_mix_of_two_rounds(
    keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients' own tables are written as a round goes: then the last checkpoint is what is gone on from."""
    rounds, stop = chunk.advance, [True]

    def keeping(program: Program, at: Snapshot) -> Iterator[Snapshot]:
        table = at.clients or ({"x": torch.zeros(1, 5, 1)} if keeps else {})
        for after in rounds(program, at):
            for leaf in table.values():
                leaf += 1
            if after.round == 5 and stop:
                raise Stopped
            yield after._replace(clients=table)

    monkeypatch.setattr(chunk, "advance", keeping)
    setting = Setting(**BASE)
    with pytest.raises(Stopped):
        finish([setting], tmp_path, checkpoint=0.0)
    at = in_flight(tmp_path)
    assert at.round <= 4 if keeps else at.round == 4
    assert not keeps or (at.clients["x"] == at.round).all()
    stop.clear()
    finish([setting], tmp_path)
    resumed, _ = Store(tmp_path).resume([Setting(**{**BASE, "rounds": 15})], 12, CPU)
    assert not keeps or (resumed.clients["x"] == 12).all()
    assert resumed.round == 12


# Side by side


def narrow() -> list[Setting]:
    """One lane each of programs that cannot be shared: other K, another model, another algorithm."""
    common = {**BASE, "clients": 8, "participants": 3}
    apart = [{"local_steps": k} for k in (1, 2, 3)] + [
        {"model": "mlp"},
        {"dtype": "float64"},
        {"algorithm": "parallel"},
    ]
    return [Setting(**common | one) for one in apart]


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("planning", "call"):
        monkeypatch.setattr(f"baton.sweep.{module}.cores", lambda: 4)


@pytest.mark.usefixtures("four_cores")
def test_narrow_chunks_train_side_by_side_and_give_the_same_bytes_as_alone(tmp_path: Path) -> None:
    settings = narrow()
    laid = planned(settings, None)
    assert laid.share == [0.75, 0.25, 0.25, 0.25, 0.25, 0.25]
    chunks = [p.chunk for p in sweep(settings, Store(tmp_path / "together"), CPU)]
    assert sorted(chunks) == [c for c in range(1, 7) for _ in range(12)]
    for setting in settings:
        run(setting, tmp_path / "alone", device="cpu", quiet=True)
    assert files(tmp_path / "together") == files(tmp_path / "alone")


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize("stop", [1, 9, 30])
def test_side_by_side_stopped_and_gone_on_with_gives_the_same_bytes(stop: int, tmp_path: Path) -> None:
    finish(narrow(), tmp_path / "whole")
    finish(narrow(), tmp_path / "pieces", stop_after=stop)
    assert any(chunk.started for chunk in Store(tmp_path / "pieces").pool.chunks())
    finish(narrow(), tmp_path / "pieces")
    assert files(tmp_path / "pieces") == files(tmp_path / "whole")
    assert not Store(tmp_path / "pieces").pool.chunks()


@pytest.mark.usefixtures("four_cores")
def test_what_needs_much_memory_trains_alone(tmp_path: Path) -> None:
    del tmp_path
    settings = narrow()
    each = max(memory.measured(s, CPU) for s in settings)
    assert max(planned(settings, each).share) == 1.0
    assert planned(settings[:1], None).share == [1.0]  # nobody beside it: all cores are its own


def test_a_plan_of_another_precision_is_not_gone_on_with(tmp_path: Path) -> None:
    settings = grid()[:2]
    running = sweep(settings, Store(tmp_path), CPU, precision="fp32")
    next(running)
    running.close()
    next(sweep([*settings, Setting(**BASE, seed=77)], Store(tmp_path), CPU, precision="tf32"))
    chunks = Store(tmp_path).pool.chunks()
    assert sorted(chunk.laid.precision for chunk in chunks) == ["fp32", "tf32"]
    assert all(chunk.started for chunk in chunks)


def test_progress_reaches_its_end_even_if_all_lanes_diverge(tmp_path: Path) -> None:
    wild = Setting(dataset="quadratic:zeta=1,delta=0", lr=1e9, rounds=400, eval_every=5)
    *_, last = sweep([wild], Store(tmp_path), CPU)
    assert last.steps == last.total
    assert Store(tmp_path).read(wild.run_id).diverged is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it trains on a CUDA device, and there is none here")
def test_more_chunks_side_by_side_than_torch_has_streams(tmp_path: Path) -> None:
    settings = [s for steps in range(1, 25) for s in grid(local_steps=steps) if s.seed == 1 and s.lr == 0.1]
    finish(settings, tmp_path / "runs", device=torch.device("cuda"))
    assert all(Store(tmp_path / "runs").read(s.run_id).diverged is None for s in settings)


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_a_run_goes_on_from_its_beginning_in_the_store_and_is_the_same_as_from_scratch(
    model: str, tmp_path: Path
) -> None:
    short, long = grid(model=model, rounds=6), grid(model=model, rounds=12)
    kept = [s for s in long if s.lr == 0.1]  # in other company than before
    finish(short, tmp_path / "on")
    finish(kept, tmp_path / "on")
    finish(long, tmp_path / "scratch")
    on, scratch = files(tmp_path / "on"), files(tmp_path / "scratch")
    for s in kept:
        for name in ("setting.json", "metrics.csv", "state.safetensors"):
            assert on[f"{s.run_id}/{name}"] == scratch[f"{s.run_id}/{name}"]
    trained = [json.loads(line) for line in (tmp_path / "on" / "journal.jsonl").read_text().splitlines()]
    assert sum(s.run_id in entry["runs"] for entry in trained for s in kept) == len(kept)


def test_going_on_skips_the_rounds_that_are_done(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    finish(grid(rounds=6), store.root)
    rounds = [at.round for at in sweep(grid(rounds=9)[:1], store, CPU)]
    assert rounds == [7, 8, 9]


def test_only_those_with_a_beginning_go_on_from_it(tmp_path: Path) -> None:
    store, long = Store(tmp_path / "runs"), grid()
    finish(grid(rounds=6)[:3], store.root)
    found = plan(long, store, CPU, None)
    begun = {s.run_id: rounds for chunk, rounds in zip(found.chunks, found.begun, strict=True) for s in chunk}
    assert [begun[s.run_id] for s in long] == [6] * 3 + [0] * 9
    finish(long, store.root)
    finish(long, tmp_path / "scratch")
    wanted = {s.run_id for s in long}
    on = {name: data for name, data in files(store.root).items() if name.split("/")[0] in wanted}
    assert on == files(tmp_path / "scratch")


@pytest.mark.parametrize(
    ("changed", "precision"),
    [({"rounds": 7}, "fp32"), ({"rounds": 12}, "fp32"), ({"rounds": 6, "lr": 0.2}, "fp32"), ({"rounds": 6}, "bf16")],
    ids=["ends between evaluations", "as long", "another rate", "another precision"],
)
def test_what_is_not_its_beginning_is_left_alone(changed: dict[str, object], precision: str, tmp_path: Path) -> None:
    store, wanted = Store(tmp_path / "runs"), Setting(**{**BASE, "lr": 0.1})
    finish([Setting(**{**BASE, "lr": 0.1, **changed})], store.root)
    assert store.begun([wanted], precision) == {wanted.run_id: 0}


def test_a_diverged_beginning_stays_diverged(tmp_path: Path) -> None:
    def runs(rounds: int) -> list[Setting]:
        made = {"dataset": "quadratic:zeta=1,delta=1", "rounds": rounds, "eval_every": 3, "local_steps": 10}
        return [Setting(**made, lr=lr, seed=1) for lr in (0.1, 1e30)]

    finish(runs(6), tmp_path / "on")
    finish(runs(12), tmp_path / "on")
    finish(runs(12), tmp_path / "scratch")
    for s in runs(12):
        assert (
            files(tmp_path / "on")[f"{s.run_id}/metrics.csv"] == files(tmp_path / "scratch")[f"{s.run_id}/metrics.csv"]
        )
    assert Store(tmp_path / "on").read(runs(12)[1].run_id).diverged is not None


def test_a_killed_continuation_goes_on(tmp_path: Path) -> None:
    finish(grid(rounds=6), tmp_path / "on")
    finish(grid(), tmp_path / "on", stop_after=2)
    finish(grid(), tmp_path / "on")
    finish(grid(), tmp_path / "scratch")
    scratch = files(tmp_path / "scratch")
    assert {name: data for name, data in files(tmp_path / "on").items() if name in scratch} == scratch
