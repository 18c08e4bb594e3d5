"""What is kept: histories, the three drawers of a state, and files that appear whole."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import save_file

from baton.lanes import Params
from baton.seam import State
from baton.setting import Setting
from baton.store import Chunk, Damaged, History, Laid, Snapshot, Store, files
from baton.store.columns import EXACT, MEASURED
from baton.store.metrics import from_csv, tables, to_csv
from baton.store.upkeep import verify

CPU = torch.device("cpu")


def row(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=float)


def listed(history: History) -> dict[str, list[tuple[int, list[float]]]]:
    return {metric: [(r, values.tolist()) for r, values in rows] for metric, rows in history.items()}


# Histories


def test_a_history_is_its_own_whatever_is_added_later() -> None:
    seen = [History()]
    for r in range(5):
        found = {"distance": row(r)} | ({"test_loss": row(10 * r)} if r % 2 == 0 else {})
        seen.append(seen[-1].then(r, found))
    for rounds, history in enumerate(seen):
        own = {"distance": [(r, [float(r)]) for r in range(rounds)]} | {
            "test_loss": [(r, [10.0 * r]) for r in range(0, rounds, 2)]
        }
        assert listed(history) == {metric: rows for metric, rows in own.items() if rows}
        assert len(history) == len(listed(history))
    assert seen[-1].last("test_loss")[0] == 4
    assert [r for r, _ in seen[-1].after("distance", 2)] == [3, 4]
    assert [r for r, _ in seen[3].after("distance", -1)] == [0, 1, 2]
    assert "distance" in seen[1]
    assert "distance" not in seen[0]


def test_two_that_go_on_from_the_same_history_do_not_mix() -> None:
    begun = History({"distance": [(0, row(1.0)), (1, row(2.0))]})
    one, other = begun.then(2, {"distance": row(3.0)}), begun.then(2, {"distance": row(-3.0)})
    more = one.then(3, {"distance": row(4.0)})
    assert listed(begun) == {"distance": [(0, [1.0]), (1, [2.0])]}
    assert listed(other) == {"distance": [(0, [1.0]), (1, [2.0]), (2, [-3.0])]}
    assert listed(more) == {"distance": [(0, [1.0]), (1, [2.0]), (2, [3.0]), (3, [4.0])]}


# The three drawers

STATES = {
    "a model": State({"1.weight": torch.arange(12.0).view(2, 2, 3), "1.bias": torch.ones(2, 2)}),
    "and a server": State({"x": torch.eye(2)}, {"x": -torch.eye(2), "v": torch.ones(2, dtype=torch.float64)}),
}
KEPT = {"nothing": {}, "something": {"x": torch.arange(2 * 10 * 3.0).view(2, 10, 3)}}


def settings(rounds: int = 4) -> list[Setting]:
    return [Setting(rounds=rounds, eval_every=2, lr=lr) for lr in (0.1, 0.2)]


def snapshot(state: State, clients: Params, rounds: int = 4) -> Snapshot:
    history = History({"test_loss": [(r, row(r, r + 0.1)) for r in range(0, rounds + 1, 2)]})
    return Snapshot(rounds, state, clients, torch.tensor([-1, -1]), history)


def chunk(store: Store, rounds: int = 4) -> Chunk:
    runs = settings(rounds)
    return store.pool.lay(Laid([s.run_id for s in runs], [s.to_json() for s in runs], "cpu", "fp32", 1.0, 0, 0, "", {}))


def saved(store: Store, at: Snapshot) -> Chunk:
    """A chunk with this checkpoint."""
    made = chunk(store)
    with store.pool.workers.working() as worker:
        claim = store.pool.take(made, worker)
        assert claim
        store.pool.save(claim, at, {"way": "by hand"})
    return made


def loaded(store: Store, made: Chunk) -> Snapshot:
    found = store.pool.load(made, CPU)
    assert found
    return found[0]


def assert_same(one: Params, other: Params) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(leaf, other[name]) and leaf.dtype == other[name].dtype for name, leaf in one.items())


def assert_same_snapshot(one: Snapshot, other: Snapshot) -> None:
    assert one.round == other.round
    for mine, theirs in zip((*one.state, one.clients), (*other.state, other.clients), strict=True):
        assert_same(mine, theirs)
    assert torch.equal(one.diverged, other.diverged)
    assert listed(one.history) == listed(other.history)


@pytest.mark.parametrize("clients", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_checkpoint_and_a_finished_run_give_all_drawers_back(state: State, clients: Params, tmp_path: Path) -> None:
    store, at = Store(tmp_path), snapshot(state, clients)
    made = saved(store, at)
    assert_same_snapshot(loaded(store, made), at)
    assert store.pool.load(made, CPU)[1] == {"way": "by hand"}  # type: ignore[index]
    store.finish(settings(), at)
    assert_same_snapshot(store.resume(settings(8), 4, CPU)[0], at)
    for lane, s in enumerate(settings()):
        assert_same(store.params(s.run_id), {name: leaf[lane] for name, leaf in state.model.items()})
        names = files.load(tmp_path / s.run_id / "state.safetensors")
        assert {name for name in names if "/" not in name} == set(state.model)


def test_a_checkpoint_is_as_it_was_whatever_training_writes_afterwards(tmp_path: Path) -> None:
    table = {"x": torch.zeros(2, 10, 3)}
    at, store = snapshot(STATES["a model"], table), Store(tmp_path)
    made = saved(store, at)
    table["x"] += 1
    found = loaded(store, made)
    assert not found.clients["x"].any()
    found.clients["x"] += 1  # it goes on as the live table
    assert not loaded(store, made).clients["x"].any()


def test_a_server_may_keep_the_model_itself(tmp_path: Path) -> None:
    x = torch.arange(4.0).view(2, 2)
    at = snapshot(State({"x": x}, {"x": x, "first": x}), {"x": torch.zeros(2, 0)})
    Store(tmp_path).finish(settings(), at)
    assert_same(Store(tmp_path).resume(settings(8), 4, CPU)[0].state.server, {"x": x, "first": x})


def test_a_store_without_checksums_is_read_and_gone_on_with(tmp_path: Path) -> None:
    store, at = Store(tmp_path), snapshot(STATES["a model"], {})
    for lane, s in enumerate(settings()):
        folder = tmp_path / s.run_id
        folder.mkdir()
        about = {"run": s.run_id, "round": 4, "diverged": None, "precision": "fp32"}
        save_file(
            {name: leaf[lane].clone() for name, leaf in at.state.model.items()},
            folder / "state.safetensors",
            {"baton": json.dumps(about)},
        )
        (folder / "setting.json").write_text(s.to_json())
        (folder / "metrics.csv").write_bytes(to_csv(tables(at.history), lane, -1))
    assert_same_snapshot(store.resume(settings(8), 4, CPU)[0], at)
    assert store.begun(settings(8), "fp32") == {s.run_id: 4 for s in settings(8)}
    assert verify(store).faults == []
    assert verify(store).unchecked == 6


def test_what_a_run_says_of_itself(tmp_path: Path) -> None:
    store, at = Store(tmp_path), snapshot(STATES["a model"], {})._replace(diverged=torch.tensor([-1, 3]))
    store.finish(settings(), at, "bf16", [{"up": 1.0}, {"up": 2.0}])
    sound, lost = (store.about(s.run_id) for s in settings())
    assert (sound.round, sound.diverged, sound.precision, sound.way) == (4, None, "bf16", {"up": 1.0})
    assert (lost.round, lost.diverged, lost.way) == (3, 3, {"up": 2.0})
    assert store.read(settings()[1].run_id).metrics["round"].tolist() == [0, 2, 3]


# Files


def test_others_may_read_what_they_may_read_elsewhere(tmp_path: Path) -> None:
    files.write(tmp_path / "plain", b"")
    files.save(tmp_path / "tensors", {"x": torch.zeros(2)}, {})
    assert (tmp_path / "tensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    files.write(tmp_path / "a", b"old")

    def full() -> None:
        with files.replaced(tmp_path / "a") as temporary:
            temporary.write_bytes(b"ne")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        full()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("damage", [b"", b"x" * 5, b"x" * 100])
def test_a_damaged_file_is_one_line(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "state.safetensors").write_bytes(damage)
    for read in (files.about, files.load):
        with pytest.raises(Damaged, match=r"state\.safetensors is damaged"):
            read(tmp_path / "state.safetensors")


@given(st.lists(st.floats(), min_size=1, max_size=50))
def test_numbers_come_back_from_a_table_as_they_were(numbers: list[float]) -> None:
    found = tables(History({"test_loss": [(r, row(0.0, x)) for r, x in enumerate(numbers)]}))
    header, *lines = to_csv(found, 1, -1).decode().splitlines()
    assert header == ",".join(["round", *MEASURED])
    cells = [line.split(",")[1] for line in lines]
    assert np.array_equal(np.array(cells, dtype=float), np.array(numbers), equal_nan=True)
    assert [len(cell) for cell in cells] == [len(repr(x)) for x in numbers]


def test_a_table_has_a_row_a_round_and_empty_cells() -> None:
    history = History({"distance": [(r, row(r)) for r in range(4)], "test_loss": [(0, row(7.0)), (3, row(np.inf))]})
    data = to_csv(tables(history), 0, -1)
    found = from_csv(data)
    assert [*found] == ["round", *MEASURED, EXACT[0]]
    assert found["distance"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(found["test_loss"], [7, np.nan, np.nan, np.inf])
    assert b"\n2,,,,,,,2.0\n" in data
