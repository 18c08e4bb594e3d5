"""Real Ray clusters of several machines on this one: killed while they train, unseen stores, Ctrl-C; the same bytes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from baton.store import Store, journal
from baton.store.upkeep import verify
from clusters import Machines, cluster
from processes import start
from test_crew import files, whole, words

pytest.importorskip("ray", reason="Ray is not installed: pip install 'baton[ray]'")


def until(ready: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    """Wait for something that a command does."""
    end = time.monotonic() + 90
    while not ready():
        assert process.poll() is None, "it ended before that"
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def begun(runs: Path, since: float = 0.0) -> list[Path]:
    """Chunks in training, with a checkpoint that is newer than that."""
    return [path for path in runs.glob(".work/chunks/*/at-*") if _time(path) > since]


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another took its place
        return 0.0


@pytest.fixture
def machines() -> Iterator[tuple[Machines, list[str]]]:
    """A head without cores, and two machines of one core."""
    with cluster([0, 1, 1]) as found:
        yield found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    return whole(tmp_path_factory.mktemp("study"), 3000)


def on(machines: Machines, study: Path, runs: Path) -> list[str]:
    return words(study, runs, "--parts", "4", "--on", f"ray:{machines.address}")


def test_ctrl_c_saves_everywhere_and_a_machine_killed_is_gone_on_from(
    machines: tuple[Machines, list[str]], study: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    ours, names = machines
    runs, environment = tmp_path / "runs", os.environ | ours.key
    command = on(ours, study[0], runs)
    with start(command, env=environment, stderr=subprocess.PIPE) as process:
        until(lambda: len(begun(runs)) >= 2, process)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130, said
    assert said.splitlines()[-1].startswith("baton: stopped; the same command goes on from here"), said
    assert begun(runs)
    since = time.time()
    with start(command, env=environment, stderr=subprocess.PIPE) as process:
        until(lambda: len(begun(runs, since)) >= 2, process)  # both machines are at it
        ours.kill(names[1])
        said = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 0, said
    assert "a worker died, and another goes on from its checkpoint" in said
    assert files(runs) == study[1]
    assert not begun(runs)
    assert not verify(Store(runs)).faults


@pytest.mark.long
def test_workers_that_do_not_see_the_store_send_their_runs_back(
    study: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    """Their machine has another folder at the store's place: what they train comes back through Ray."""
    unshared = tmp_path / "unshared"
    unshared.mkdir()
    runs = unshared / "runs"
    hide = ["unshare", "--mount", "sh", "-c"]
    if subprocess.run([*hide, f"mount -t tmpfs none {unshared}"], capture_output=True, check=False).returncode:
        pytest.skip("no folder can be hidden from a process here")
    with cluster([0]) as (ours, _):
        words = [ours.start(1, hidden=unshared) for _ in range(2)]
        with start(on(ours, study[0], runs), env=os.environ | ours.key, stderr=subprocess.PIPE) as process:
            until(lambda: len(begun(runs)) >= 2, process)
            ours.kill(words[0])
            said = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 0, said
    assert "a worker died, and another goes on from its checkpoint" in said
    assert files(runs) == study[1]
    assert {run for entry in journal.entries(runs) for run in entry["runs"]} == {name[:16] for name in study[1]}
