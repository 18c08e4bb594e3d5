"""A store in order: every file checked, bad ones named and moved aside; nothing that lies there ends in a traceback."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import processes
from baton import cli
from baton.api import run
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Store, upkeep
from baton.sweep import sweep
from contracts.examples import cases
from test_sweep import files

CPU = torch.device("cpu")
BASE = {"rounds": 12, "clients": 5, "participants": 2, "local_steps": 2, "eval_every": 3, "model": "mlp:hidden=8"}
STUDY = """
[base]
rounds = 12
clients = 5
participants = 2
local_steps = 2
eval_every = 3
model = "mlp:hidden=8"
[axes]
algorithm = ["sequential", "parallel"]
lr = [0.1, 0.5]
"""


def grid(rounds: int = 12) -> list[Setting]:
    every = [(a, lr) for a in ("sequential", "parallel") for lr in (0.1, 0.5)]
    return [Setting(**{**BASE, "rounds": rounds}, algorithm=a, lr=lr) for a, lr in every]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four complete runs, and two chunks in flight."""
    root = tmp_path_factory.mktemp("made") / "runs"
    run(grid(), root, quiet=True)
    for settings in (grid(600)[:2], grid(600)[2:]):
        running = sweep(settings, Store(root), CPU)
        for _ in range(5):
            next(running)
        running.close()
    assert len(Store(root).pool.chunks()) == 2
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


def contents(root: Path) -> list[Path]:
    """Every file that must be what was written."""
    chunks = [*root.glob(".work/chunks/*/chunk.json"), *root.glob(".work/chunks/*/at-*.safetensors")]
    return sorted([*root.glob("[0-9a-f]*/*"), *chunks, root / "journal.jsonl"])


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size - 1)])


def noise(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(chance.randrange(1, 300)))


def deep(path: Path, _chance: random.Random) -> None:
    path.write_text("[" * 100_000)


def pipe(path: Path, _chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, _chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path, _chance: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def gone(path: Path, _chance: random.Random) -> None:
    path.unlink()


WAYS: dict[str, Callable[[Path, random.Random], None]] = {
    f.__name__: f for f in (flip, cut, noise, deep, pipe, folder, loop, gone)
}


def test_a_sound_store_has_no_faults(root: Path) -> None:
    found = upkeep.verify(Store(root))
    assert (found.faults, found.orphans, found.unchecked) == ([], [], 0)
    assert found.files == 4 * 4 + 2 * 2 + 1
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=next(root.glob("[0-9a-f]*")), check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_is_found_wherever_it_is(seed: int, root: Path) -> None:
    chance = random.Random(seed)
    for path in contents(root):
        before = path.read_bytes()
        flip(path, chance)
        found = upkeep.verify(Store(root)).faults
        assert len(found) == 1, path
        assert path == found[0].path or found[0].path in path.parents
        path.write_bytes(before)
    assert not upkeep.verify(Store(root)).faults


COMMANDS = (
    ["list", "runs"],
    ["list", "runs", "--json"],
    ["export", "s.toml", "--to", "csv", "--out", "t.csv"],
    ["export", "--to", "csv", "--out", "u.csv"],
    ["sweep", "s.toml", "--dry-run"],
    ["tune", "s.toml", "--dry-run"],
    ["verify"],
)


@pytest.mark.parametrize("way", cases(list(WAYS), ["flip", "gone"]))
def test_whatever_lies_there_is_told_and_passed_over(
    way: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(STUDY)
    chance = random.Random(way)
    for path in contents(root):
        spare = path.read_bytes()
        WAYS[way](path, chance)
        drawn = [["report", "s.toml", "--out", "page"]] if chance.random() < 0.15 else []  # it takes a while
        for words in (*COMMANDS, *drawn, ["show", path.parent.name]):
            done = CliRunner().invoke(cli.app, [*words, "--runs", "runs"])
            assert done.exception is None or isinstance(done.exception, SystemExit | BadInput), (path, words)
            if isinstance(done.exception, BadInput):
                assert "\n" not in str(done.exception)
        faults = upkeep.verify(Store(root)).faults
        named = [fault for fault in faults if fault.path == path or fault.path in path.parents]
        # a checkpoint that is gone is one that never was; so is a journal, and a folder without any of its files
        assert named or (way == "gone" and path.parent.parent.name == "chunks") or path.name == "journal.jsonl", path
        assert len(Store(root).settings()) >= 6, path  # the others are there
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(spare)
    assert not upkeep.verify(Store(root)).faults


@pytest.mark.parametrize("way", cases(list(WAYS), ["flip", "gone", "pipe"]))
def test_what_is_damaged_is_moved_aside_and_trained_again(way: str, made: Path, root: Path) -> None:
    run(grid(600), made.parent / "whole", quiet=True)
    chance = random.Random(way)
    for path in [p for p in contents(root) if "chunks" in p.parts or chance.random() < 0.5]:
        WAYS[way](path, chance)
    store = Store(root)
    faults = upkeep.verify(store).faults
    for fault in faults:
        upkeep.aside(store, fault)
    left = [fault for fault in upkeep.verify(Store(root)).faults if fault.path.name != "journal.jsonl"]
    assert not left
    run([*grid(), *grid(600)], root, quiet=True)
    whole = {name: data for place in (made, made.parent / "whole") for name, data in files(place).items()}
    assert files(root) == whole


def test_a_damaged_checkpoint_costs_time_and_nothing_else(
    made: Path, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(grid(600), made.parent / "whole", quiet=True)
    for path in root.glob(".work/chunks/*/at-*"):
        flip(path, random.Random(1))
    run(grid(600), root, quiet=True)
    assert "is damaged" in capfd.readouterr().err
    assert {n: data for n, data in files(root).items() if n in files(made.parent / "whole")} == files(
        made.parent / "whole"
    )


def test_orphans_are_found_and_deleted_only_if_one_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [
        root / ".work" / "staged" / "0123456789abcdef-01234567",
        root / ".work" / "chunks" / ".00000000000000000001-01234567",
        root / ".work" / "workers" / "0123456789abcdef.json",
    ]
    for path in left[:2]:
        path.mkdir(parents=True)
    left[2].write_text('{"token": "0123456789abcdef", "host": "h", "pid": 1, "born": "0", "world": "w", "beats": 0}')
    os.utime(left[2], (1, 1))
    assert set(upkeep.verify(Store(root)).orphans) == set(left)
    monkeypatch.chdir(root.parent)
    done = CliRunner().invoke(cli.app, ["repair"])
    assert isinstance(done.exception, BadInput)  # nobody can be asked
    assert all(path.exists() for path in left)
    assert CliRunner().invoke(cli.app, ["repair", "--yes"]).exception is None
    assert not any(path.exists() for path in left)
    assert not upkeep.verify(Store(root)).faults


def test_removing_and_training_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    before, first = files(root), grid()[0].run_id
    for words in (["rm", first, "--yes"], ["rm", grid(600)[0].run_id, "--yes"]):
        done = CliRunner().invoke(cli.app, words)
        assert (done.exception is None) == (first in words), done.exception  # the other trains with a second
    assert not (root / first).exists()
    run(grid()[:1], root, quiet=True)
    assert files(root) == before
    inode = (root / first / "metrics.csv").stat().st_ino
    flags = ["-M", "5", "-S", "2", "-K", "2", "-R", "12", "--eval-every", "3", "-m", "mlp:hidden=8", "-q"]
    done = CliRunner().invoke(cli.app, ["run", *flags, "--again"])
    assert done.exception is None
    assert files(root) == before
    assert (root / first / "metrics.csv").stat().st_ino != inode
    assert [path.name for path in root.glob(".aside/*/*")] == [first]


# The index


def test_an_index_is_only_a_memory(root: Path) -> None:
    store = Store(root)
    every = store.settings()
    assert (root / ".index.sqlite").exists() or not store.entries()
    for spoil in (b"", b"x" * 5000):
        (root / ".index.sqlite").write_bytes(spoil)
        assert Store(root).settings() == every
    shutil.rmtree(root / grid()[0].run_id)
    assert Store(root).settings().keys() == every.keys() - {grid()[0].run_id}
    assert store.settings().keys() == every.keys() - {grid()[0].run_id}
    (root / ".index.sqlite").unlink()
    (root / ".index.sqlite").mkdir()
    assert Store(root).settings().keys() == every.keys() - {grid()[0].run_id}


def test_runs_are_listed_without_loading_torch(root: Path) -> None:
    shutil.rmtree(root / ".work" / "chunks")
    Store(root).entries()
    code = "import sys; from baton.cli import app; sys.argv = ['baton', 'list', 'runs']; app(standalone_mode=False); "
    code += "assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=root.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4, 4 complete" in done.stdout


# How it was computed


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(STUDY.replace("rounds = 12", "rounds = 20000"))
    with processes.start(words(), tmp_path, env=os.environ | {"OMP_NUM_THREADS": "2"}) as process:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("runs/.work/chunks/[!.]*/at-*")) and time.monotonic() < end:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 143
    return tmp_path


def words(*more: str) -> list[str]:
    return [sys.executable, "-m", "baton", "sweep", "s.toml", "--quiet", "--checkpoint-seconds", "0.05", *more]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="it tells one thread from two, and one core is here")
@pytest.mark.parametrize(
    ("other", "said"),
    [({"OMP_NUM_THREADS": "1"}, "threads 2 then and 1 now"), ({"BATON_NATIVE": "0"}, "way C then and PyTorch now")],
)
def test_what_was_begun_in_another_way_goes_on_only_if_wanted(other: dict[str, str], said: str, begun: Path) -> None:
    env = os.environ | {"OMP_NUM_THREADS": "2"} | other
    done = subprocess.run(words(), cwd=begun, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert said in last
    assert "--anyway" in last
    with processes.start(words("--anyway"), begun, env=env) as process:
        time.sleep(3)
        process.terminate()
        assert process.wait(60) in (0, 143)


def test_how_a_run_was_computed_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    shown = CliRunner().invoke(cli.app, ["show", grid()[0].run_id]).stdout
    assert "computed  baton " in shown
    assert "trained   " in shown
    entry = json.loads((root / "journal.jsonl").read_text().splitlines()[0])
    assert {"way", "threads", "processor", "host", "torch", "python", "baton", "device", "precision"} <= entry[
        "how"
    ].keys()
    laid = Store(root).pool.chunks()[0].laid.how
    assert {"processor", "host", "torch", "baton", "device"} <= laid.keys()


# A system that refuses


def limited(size: int, *more: str) -> list[str]:
    """A sweep none of whose files may be larger."""
    code = f"import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
    return [sys.executable, "-c", code + "os.execv(sys.argv[1], sys.argv[1:])", *words(*more)]


@pytest.mark.parametrize("size", [0, 100, 2000, 20_000])
def test_files_that_may_not_grow_are_one_line(size: int, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    done = subprocess.run(limited(size), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if size == 20_000 else 1), done.stderr
    assert "Traceback" not in done.stderr
    if size < 20_000:
        assert "File too large; what was saved before is safe" in done.stderr.splitlines()[-1]
    run(grid(), tmp_path / "whole", quiet=True)
    run(grid(), tmp_path / "runs", quiet=True)
    assert files(tmp_path / "runs") == files(tmp_path / "whole")


def test_a_disk_that_is_only_read_is_one_line(root: Path) -> None:
    place = ["mount", "--bind", root, root], ["mount", "-o", "remount,ro,bind", root]
    if subprocess.run(place[0], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let disks be mounted")
    try:
        subprocess.run(place[1], check=True)
        before = files(root)
        (root.parent / "s.toml").write_text(STUDY.replace("rounds = 12", "rounds = 15"))
        done = subprocess.run(words(), cwd=root.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "Read-only file system; a folder that may be written to is right" in done.stderr
        assert "Traceback" not in done.stderr
        listed = subprocess.run([sys.executable, "-m", "baton", "list", "runs"], cwd=root.parent, capture_output=True)
        assert (listed.returncode, listed.stdout.count(b" complete\n"), listed.stdout.count(b" %")) == (0, 1, 4)
        assert files(root) == before
    finally:
        subprocess.run(["umount", "-l", root], check=True)
