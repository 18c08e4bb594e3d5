"""What a store says is checked, also its index; and nothing that lies in one ends or stops what others need."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import baton
from baton import cli
from baton.api import run
from baton.index import Entry
from baton.setting import Setting
from baton.store import Store

pytestmark = pytest.mark.trust
BASE = {"dataset": "quadratic_random:dim=2", "clients": 2, "participants": 2, "local_steps": 1, "eval_every": 2}
FLAGS = ["-d", "quadratic_random:dim=2", "-M", "2", "-S", "2", "-K", "1", "--eval-every", "2", "--quiet"]
DONE = [Setting(**BASE, rounds=4, lr=lr) for lr in (0.1, 0.05)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "runs"
    run(DONE, root, quiet=True)
    Store(root).entries()
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "runs"))


def listed() -> dict[str, float]:
    done = CliRunner().invoke(cli.app, ["list", "runs", "--json"])
    return {each["run"]: each["result"] for each in json.loads(done.stdout)["runs"]}


def faults() -> dict[str, str]:
    return json.loads(CliRunner().invoke(cli.app, ["verify", "--json"]).stdout)["faults"]


class Late(BaseException):
    """Raised where a command hangs: no handler in it takes this for an error of its own."""


def in_time(*words: str) -> Result | None:
    """What a command did; None where it had not ended after 10 seconds."""

    def stop(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    try:
        return CliRunner().invoke(cli.app, words)
    except Late:
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def flip_index(root: Path) -> None:
    """Another distance of the first run, in one bit."""
    with sqlite3.connect(root / ".index.sqlite") as index:
        index.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray((root / ".index.sqlite").read_bytes())
    found = re.search(rb'"distance": \d', data)
    assert found
    data[found.end() - 1] ^= 1
    (root / ".index.sqlite").write_bytes(data)


def test_a_flipped_bit_in_the_index_is_not_shown(root: Path) -> None:
    before = listed()
    flip_index(root)
    assert listed() == before


def test_a_flipped_bit_in_the_index_is_found(root: Path) -> None:
    flip_index(root)
    assert any("index" in path for path in faults())


def test_an_index_that_says_something_else_than_the_files_is_found(root: Path) -> None:
    with sqlite3.connect(root / ".index.sqlite") as index:
        index.execute("UPDATE runs SET ends = replace(ends, 'distance', 'elsewhere')")
    index.close()
    assert any("index" in path for path in faults())
    assert CliRunner().invoke(cli.app, ["repair", "--yes"]).exit_code == 0
    assert not faults()


@pytest.fixture
def closed() -> Iterator[Path]:
    """A store in which one run may not be looked at."""
    folder = Path(tempfile.mkdtemp())
    run([*DONE, Setting(**BASE, rounds=4, lr=0.2)], folder / "runs", quiet=True)
    for path in (folder / "runs").glob(".index.sqlite*"):
        path.unlink()
    run_folder = folder / "runs" / Setting(**BASE, rounds=4, lr=0.2).run_id
    run_folder.chmod(0)
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
        os.chown(run_folder, 65533, 65533)
        folder.chmod(0o755)
    try:
        yield folder
    finally:
        run_folder.chmod(0o755)
        shutil.rmtree(folder)


ONES = [setting.run_id for setting in DONE]


@pytest.mark.parametrize(
    "words", [["list", "runs"], ["verify"], ["repair", "--yes"], ["compare", *ONES]], ids=lambda words: words[0]
)
def test_a_run_that_may_not_be_read_does_not_end_what_others_need(
    words: list[str], closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(closed)
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed / "cache"))
    before = os.geteuid()
    for each in ("baton.comparison", "baton.report"):
        __import__(each)
    if before == 0:
        os.seteuid(65534)
    try:
        done = CliRunner().invoke(cli.app, words)
    finally:
        os.seteuid(before)
    assert isinstance(done.exception, SystemExit | None), done.exception
    if words[0] == "verify":
        assert "Permission denied" in done.stdout
    if words[0] == "repair":
        assert (closed / "runs" / Setting(**BASE, rounds=4, lr=0.2).run_id).exists()
    assert "folder that may be written to" not in done.output


def test_a_pipe_as_journal_keeps_nobody_waiting(root: Path) -> None:
    (root / "journal.jsonl").unlink()
    os.mkfifo(root / "journal.jsonl")
    done = in_time("run", *FLAGS, "-R", "8")
    assert done is not None
    assert done.exit_code == 0, done.exception


def test_a_linked_journal_is_not_written_through(root: Path) -> None:
    (root / "journal.jsonl").unlink()
    (root.parent / "mine.txt").write_text("mine\n")
    (root / "journal.jsonl").symlink_to("../mine.txt")
    assert CliRunner().invoke(cli.app, ["run", *FLAGS, "-R", "12"]).exit_code == 0
    assert (root.parent / "mine.txt").read_text() == "mine\n"


def planning(root: Path) -> Path:
    folder = root / ".work" / "planning"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.mark.parametrize("what", ["number", "pipe"])
def test_a_claim_keeps_nobody_waiting(what: str, root: Path) -> None:
    if what == "number":
        (planning(root) / "claim-999999").write_text("-")
    else:
        os.mkfifo(planning(root) / "claim-000001")
    done = in_time("run", *FLAGS, "-R", "8")
    assert done is not None
    assert done.exit_code == 0, done.exception


def test_a_view_in_the_place_of_the_index_is_not_asked(root: Path) -> None:
    names = [*Entry._fields, "checksum"]
    with sqlite3.connect(root / ".index.sqlite") as index:
        index.execute("DROP TABLE runs")
        endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select "
        index.execute(f"CREATE VIEW runs AS {endless}{', '.join(f'x as {n}' for n in names)} from c where x < 0")
    index.close()
    done = limited("CPU", 8)  # SQLite hears no signal: a process of its own, which may take so many seconds of a core
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["runs"]) == 2


def limited(what: str, most: int) -> subprocess.CompletedProcess[str]:
    """`baton list runs` in a process that may not take more."""
    code = f"import resource, sys, runpy; resource.setrlimit(resource.RLIMIT_{what}, ({most}, {most})); "
    code += "sys.argv = ['baton', 'list', 'runs', '--json']; runpy.run_module('baton', run_name='__main__')"
    env = os.environ | {"PYTHONPATH": str(Path(baton.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_a_file_larger_than_the_memory_costs_its_own_run_alone(root: Path) -> None:
    run_id = DONE[0].run_id
    for path in root.glob(".index.sqlite*"):
        path.unlink()
    (root / run_id / "SHA256SUMS").unlink()
    os.truncate(root / run_id / "metrics.csv", 60 << 30)
    done = limited("AS", 6 << 30)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["run"] for each in found["runs"]] == [DONE[1].run_id]
    assert run_id in found["faults"]
