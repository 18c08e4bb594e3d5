"""Kills, signals and a full disk, over overlapping studies and several workers: nothing lost, nothing different."""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from baton.store import Store
from baton.store.upkeep import verify
from test_extended import KEEPING
from zygote import Zygote

STUDY = """
[base]
dataset = "digits"
model = "mlp:hidden=8"
rounds = {rounds}
eval_every = 40
clients = 5
participants = 2
[axes]
local_steps = [{steps}]
algorithm = [{algorithms}]
lr = [{rates}]
seed = [{seeds}]
"""
AXES = {
    "a": ("2", '"sequential", "parallel"', "0.03, 0.1", "1, 2"),
    "b": ("2", '"sequential", "scaffold"', "0.1, 0.3", "1, 2"),  # clients keep something; shares runs with a
    "c": ("1, 3, 4", '"sequential"', "0.1", "1"),  # chunks of one lane: they train side by side in threads
}
KEPT = """
[base]
dataset = "digits"
partition = "exdir:C=3,alpha=1"
rounds = {rounds}
eval_every = 10
clients = 6
participants = 3
local_steps = 2
batch_size = 5
on_failure = "abort"
failures = "share:p=0.1"
lr = 0.1
{legs}
[axes]
clip = [{clips}]
momentum = [0.0, 0.5]
algorithm = [{algorithms}]
"""
OWN, LONG = 'model = "user_modules:tiny:width=4"', 'model = "mlp:hidden=4"\ndtype = "float64"'
CLIENTS = ("scaffold", "feddyn:alpha=0.2", "amplified_scaffold:every=3,server_lr=1.5", "feddc:every=3,swap=2")


class Plan(NamedTuple):
    """What a storm is over."""

    studies: dict[str, str]  # name -> what its file says, with the rounds left open
    workers: tuple[tuple[str, str], ...]  # (study, memory)


def _keeping(legs: str, clips: str, *algorithms: str) -> str:
    names = ", ".join(f'"{name}"' for name in algorithms)
    return KEPT.format(rounds="{rounds}", legs=legs, clips=clips, algorithms=names)


C = Plan(
    {
        name: STUDY.format(rounds="{rounds}", steps=steps, algorithms=algorithms, rates=rates, seeds=seeds)
        for name, (steps, algorithms, rates, seeds) in AXES.items()
    },
    (("a", "200MB"), ("a", "100MB"), ("b", "200MB"), ("c", "200MB")),
)
EVERY = Plan(  # legs of PyTorch, clipped and with momentum; rounds that are aborted; every method that keeps something
    {
        "own": _keeping(OWN, "0.0, 0.2", "sequential", *KEEPING),
        "shared": _keeping(OWN, "0.2, 0.5", *CLIENTS),  # runs of `own`, in other company
        "long": _keeping(LONG, "0.2", "sequential", *KEEPING),
        "compiled": _keeping('model = "mlp:hidden=4"', "0.0, 0.2", *KEEPING),
    },
    (("own", "200MB"), ("shared", "200MB"), ("long", "200MB"), ("compiled", "200MB")),
)
FEW = Plan(  # the same, as much of it as `make test` has time for
    {
        "own": _keeping(OWN, "0.2", "sequential", "scaffold"),
        "shared": _keeping(OWN, "0.2, 0.5", "scaffold", "switch:first=feddyn,then=scaffold,after=4"),
    },
    (("own", "200MB"), ("shared", "200MB")),
)
PATIENCE = 60.0  # seconds: who has not ended by then hangs
CODES = {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("[0-9a-f]*/*"))}


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    found = Zygote()
    try:
        yield found
    finally:
        found.end()


class Storm:
    """Workers on one store, started again whenever they end before all is done."""

    def __init__(self, zygote: Zygote, folder: Path, store: Path, rounds: int, seed: int, plan: Plan = C) -> None:
        self.zygote, self.folder, self.store, self.chance = zygote, folder, store, random.Random(seed)
        self.plan = plan
        for name, text in plan.studies.items():
            (folder / f"{name}.toml").write_text(text.format(rounds=rounds))
        self.whole = self._undisturbed()

    def _words(self, study: str, memory: str, store: Path) -> list[str]:
        options = ["--quiet", "--checkpoint-seconds", "0.02", "--memory", memory, "--runs", str(store)]
        return ["sweep", f"{study}.toml", *options]

    def _undisturbed(self) -> dict[str, bytes]:
        found = {}
        for name in self.plan.studies:
            pid = self.zygote.start(self._words(name, "300MB", self.folder / name), self.folder, self.folder / "errors")
            assert self.zygote.wait(pid, 300) == 0
            found |= files(self.folder / name)
        return found

    def start(self, worker: int) -> int:
        study, memory = self.plan.workers[worker]
        return self.zygote.start(self._words(study, memory, self.store), self.folder, self.errors(worker))

    def errors(self, worker: int) -> Path:
        return self.folder / f"errors-{worker}"

    def rounds(self) -> Iterator[dict[int, int]]:
        """Workers (number -> pid) that are at it, again and again; once all is done it is looked at, and begun anew."""
        running: dict[int, int] = {}
        done: set[int] = set()
        while True:
            for worker in range(len(self.plan.workers)):
                if worker in running and (code := self.zygote.wait(running[worker], 0)) is not None:
                    del running[worker]
                    self.ended(worker, code)
                    done |= {worker} if code == 0 else set()
                if worker not in running and worker not in done:
                    running[worker] = self.start(worker)
            if not running:
                self.check()
                done.clear()
                continue
            yield running

    def ended(self, worker: int, code: int) -> None:
        """In a way that was to be expected, with nothing on stderr but lines of ours."""
        said = self.errors(worker).read_text()
        assert code in (0, 1, -signal.SIGKILL, *CODES, *(128 - code for code in CODES)), (code, said)
        assert "Traceback" not in said, said
        assert all(line.startswith("baton: ") for line in said.splitlines()), said
        assert code != 1 or "No space left" in said, said

    def finish(self, rounds: Iterator[dict[int, int]]) -> None:
        """Let everybody come to an end, and look once more."""
        for worker, pid in next(rounds).items():
            code = self.zygote.wait(pid, 300)
            assert code is not None
            self.ended(worker, code)
        for worker in range(len(self.plan.workers)):
            assert self.zygote.wait(self.start(worker), 300) == 0
        self.check()

    def check(self) -> None:
        found = Store(self.store)
        assert files(self.store) == self.whole
        assert verify(found).faults == []
        assert not found.pool.chunks()
        found.pool.clean()
        assert not [*found.pool.staged.iterdir(), *found.pool.workers.tokens()]
        for path in sorted(self.store.glob("[0-9a-f]*/*")):
            path.unlink()
        for path in sorted(self.store.glob("[0-9a-f]*")):
            path.rmdir()


def kills(storm: Storm, count: int, *, begun: bool = False) -> None:
    """Kill so many workers; begun: only while there is a checkpoint, so that somebody has to go on from it."""
    rounds, killed = storm.rounds(), 0
    while killed < count:
        running = next(rounds)
        if begun and not any(storm.store.glob(".work/chunks/*/at-*.safetensors")):
            storm.zygote.wait(next(iter(running.values())), 0.01)
            continue
        worker = storm.chance.choice(sorted(running))
        if storm.zygote.wait(running[worker], storm.chance.uniform(0, 0.25)) is None:
            os.kill(running[worker], signal.SIGKILL)
            killed += 1
    storm.finish(rounds)


def signals(storm: Storm, count: int) -> None:
    rounds, sent = storm.rounds(), 0
    while sent < count:
        running = next(rounds)
        worker = storm.chance.choice(sorted(running))
        pid = running.pop(worker)
        first, second = (storm.chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)) for _ in range(2))
        code = storm.zygote.wait(pid, 0.02 + storm.chance.uniform(0, 0.3))  # its handlers are there by then
        if code is None:
            os.kill(pid, first)
            code = storm.zygote.wait(pid, storm.chance.uniform(0, 0.02))
            if code is None:
                os.kill(pid, second)
                sent += 1
                code = storm.zygote.wait(pid, PATIENCE)
            assert code is not None, "it hangs"
            expected = {0, 128 + first, 128 + second, -first, -second}  # of two at once any may come first
            assert code in expected, (code, first, second, storm.errors(worker).read_text())
        storm.ended(worker, code)
    storm.finish(rounds)


def fillings(storm: Storm, disk: Path, count: int) -> None:
    rounds, filled, filler = storm.rounds(), 0, disk / "filler"
    while filled < count:
        running = next(rounds)
        storm.zygote.wait(next(iter(running.values())), storm.chance.uniform(0, 0.3))
        with suppress_full(), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        storm.zygote.wait(next(iter(running.values())), storm.chance.uniform(0, 0.3))
        filler.unlink()
        filled += 1
    storm.finish(rounds)


class suppress_full:  # noqa: N801 it reads as contextlib's do
    """Until the disk is full."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        return isinstance(error, OSError) and error.errno == 28


COUNTS = [pytest.param(1, id="some"), pytest.param(25, id="all", marks=pytest.mark.long)]


@pytest.mark.parametrize("times", COUNTS)
def test_kills(times: int, zygote: Zygote, tmp_path: Path) -> None:
    kills(Storm(zygote, tmp_path, tmp_path / "runs", 400, times), 20 * times)


@pytest.mark.parametrize(
    ("plan", "rounds", "count"),
    [
        pytest.param(FEW, 80, 4, id="some"),
        pytest.param(EVERY, 100, 100, id="all", marks=pytest.mark.long),
    ],
)
def test_kills_over_every_way_to_train_and_all_that_is_kept(
    plan: Plan, rounds: int, count: int, zygote: Zygote, tmp_path: Path
) -> None:
    kills(Storm(zygote, tmp_path, tmp_path / "runs", rounds, count, plan), count, begun=True)


@pytest.mark.parametrize("times", COUNTS)
def test_double_signals(times: int, zygote: Zygote, tmp_path: Path) -> None:
    signals(Storm(zygote, tmp_path, tmp_path / "runs", 400, times), 8 * times)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no small disk can be made here: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("times", COUNTS)
def test_a_disk_that_fills_up(times: int, zygote: Zygote, disk: Path, tmp_path: Path) -> None:
    fillings(Storm(zygote, tmp_path, disk / "runs", 400, times), disk, 2 * times)
