"""No file or folder of a store leads out of it: what lies behind a link is neither read for use, nor changed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from baton import cli
from baton.api import run
from baton.setting import Setting
from baton.store import Store, files
from baton.sweep import sweep

pytestmark = pytest.mark.trust
BASE = {"dataset": "quadratic_random:dim=2", "clients": 2, "participants": 2, "local_steps": 1, "eval_every": 2}
FLAGS = ["-d", "quadratic_random:dim=2", "-M", "2", "-S", "2", "-K", "1", "--eval-every", "2", "--quiet"]
DONE, BEGUN = Setting(**BASE, rounds=4), Setting(**BASE, rounds=4000)
TOKEN, OLD = "0123456789abcdef", 1_000_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of file and folder that a store can have."""
    root = tmp_path_factory.mktemp("made") / "runs"
    run([DONE], root, quiet=True)
    running = sweep([BEGUN], Store(root), torch.device("cpu"))
    for _ in range(5):
        next(running)
    running.close()
    for name in ("tuned", "hops", f".work/staged/{TOKEN}-01234567", ".work/planning", ".aside/before"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "notes.txt").write_text("notes")
    for name in ("tuned/study-simple.json", f"hops/{DONE.run_id}.json"):
        files.write_json(root / name, {})
    worker = {"token": TOKEN, "host": "h", "pid": 1, "born": "0", "world": "w", "beats": 0}
    files.write_json(root / ".work" / "workers" / f"{TOKEN}.json", worker)
    os.utime(root / ".work" / "workers" / f"{TOKEN}.json", (OLD, OLD))
    (root / ".work" / "planning" / "claim-000001").write_text(TOKEN)
    Store(root).entries()
    return root


def chunk(root: Path) -> Path:
    (found,) = (path for path in (root / ".work" / "chunks").iterdir() if not path.name.startswith("."))
    return found


RUN: Callable[[Path], Path] = lambda root: root / DONE.run_id  # noqa: E731
PLACES: dict[str, Callable[[Path], Path]] = {
    "run": RUN,
    **{f"run/{name}": lambda root, name=name: RUN(root) / name for name in ("setting.json", "metrics.csv")},
    **{f"run/{name}": lambda root, name=name: RUN(root) / name for name in ("state.safetensors", "SHA256SUMS")},
    "hops/run.json": lambda root: root / "hops" / f"{DONE.run_id}.json",
    "chunk": chunk,
    "chunk/chunk.json": lambda root: chunk(root) / "chunk.json",
    "chunk/checkpoint": lambda root: next(chunk(root).glob("at-*.safetensors")),
    "chunk/claim": lambda root: max(chunk(root).glob("claim-*")),
    **{
        name: lambda root, name=name: root / name
        for name in ("journal.jsonl", ".index.sqlite", ".work", ".work/chunks", ".work/staged", ".work/workers")
    },
    **{
        name: lambda root, name=name: root / name
        for name in (".work/planning", "tuned", "tuned/study-simple.json", "hops", ".aside")
    },
    "worker": lambda root: root / ".work" / "workers" / f"{TOKEN}.json",
    "stage": lambda root: root / ".work" / "staged" / f"{TOKEN}-01234567",
    "planning/claim": lambda root: root / ".work" / "planning" / "claim-000001",
}


def contents(folder: Path) -> dict[str, bytes | None]:
    """By path: what is in each file; None of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_behind_a_link_is_touched(
    place: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    shutil.copytree(made, root)
    outside.mkdir()
    inside = PLACES[place](root)
    there = Path(shutil.move(inside, outside / inside.name))
    if there.is_dir():  # what others keep there, and nobody has changed for long
        (there / "thesis" / "chapters").mkdir(parents=True)
        (there / ".ssh").mkdir()
        for name in ("thesis/chapters/one.tex", ".ssh/key", "package.json", "study.json"):
            (there / name).write_text("[]")
    for path in [*outside.rglob("*"), outside]:
        os.utime(path, (OLD, OLD))
    inside.symlink_to(os.path.relpath(there, inside.parent))
    before = contents(outside)
    monkeypatch.chdir(tmp_path)
    told = ""
    for words in (
        *(["verify", "--json"], ["list", "runs"], ["show", DONE.run_id]),
        *(["run", *FLAGS, "-R", "4"], ["run", *FLAGS, "-R", "8", "-a", "parallel"]),
        *(["repair", "--yes"], ["run", *FLAGS, "-R", "12"], ["rm", DONE.run_id, "--yes"]),
    ):
        done = CliRunner().invoke(cli.app, words)
        assert isinstance(done.exception, SystemExit | ValueError | OSError | None), (words, done.exception)
        told = done.stdout if words[0] == "verify" else told
        assert contents(outside) == before, words
    assert any("link" in what for what in json.loads(told)["faults"].values()), told
    assert contents(outside) == before
    assert not json.loads(CliRunner().invoke(cli.app, ["verify", "--json"]).stdout)["faults"]  # repaired


def test_another_database_in_the_place_of_the_index_keeps_its_tables(tmp_path: Path) -> None:
    import sqlite3

    run([DONE], tmp_path / "runs", quiet=True)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE runs (run_uuid TEXT)")
        other.execute("INSERT INTO runs VALUES ('theirs')")
    before = (tmp_path / "other.db").read_bytes()
    index = tmp_path / "runs" / ".index.sqlite"
    for path in (tmp_path / "runs").glob(".index.sqlite*"):
        path.unlink()
    index.hardlink_to(tmp_path / "other.db")  # no link that one could see
    assert Store(tmp_path / "runs").entries().keys() == {DONE.run_id}
    assert (tmp_path / "other.db").read_bytes() == before
    assert Store(tmp_path / "runs").entries().keys() == {DONE.run_id}


@pytest.mark.parametrize("run_id", ["../vv", "vv", ".", ""])
def test_a_chunk_names_runs_by_their_ids_alone(run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vv").mkdir()
    (tmp_path / "vv" / "thesis.tex").write_text("mine")
    store = Store("runs")
    folder = tmp_path / "runs" / ".work" / "chunks" / "00000000000000000001-01234567"
    folder.mkdir(parents=True)
    laid = {"runs": [run_id], "settings": [DONE.to_json()], "device": "cpu", "precision": "fp32", "share": 1}
    laid |= {"memory": 1, "begun": 0, "by": "x", "how": {}}
    (folder / "chunk.json").write_text(json.dumps(laid))
    assert store.ids() == []
    CliRunner().invoke(cli.app, ["rm", run_id, "--yes"])
    assert (tmp_path / "vv" / "thesis.tex").read_text() == "mine"
    assert not json.loads(CliRunner().invoke(cli.app, ["list", "runs", "--json"]).stdout)["runs"]


def test_repair_asks_before_it_moves_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run([DONE], "runs", quiet=True)
    damaged = tmp_path / "runs" / DONE.run_id / "metrics.csv"
    damaged.write_text("")
    done = CliRunner().invoke(cli.app, ["repair"])  # nobody can be asked
    assert damaged.exists()
    assert done.exit_code != 0
    assert CliRunner().invoke(cli.app, ["repair", "--yes"]).exit_code == 0
    assert not damaged.exists()
