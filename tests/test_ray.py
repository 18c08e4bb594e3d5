"""Real Ray clusters of several machines on this one: killed while they train, unseen stores, Ctrl-C; the same bytes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from glob import escape, glob
from pathlib import Path

import pytest

from baton.store import Store, journal
from baton.store.upkeep import verify
from clusters import Machines, cluster
from processes import start
from test_crew import files, whole, words

pytest.importorskip("ray", reason="Ray is not installed: pip install 'baton-fl[ray]'")


def until(ready: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    """Wait for something that a command does."""
    end = time.monotonic() + 90
    while not ready():
        assert process.poll() is None, "it ended before that"
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def begun(runs: Path, since: float = 0.0) -> list[Path]:
    """Chunks in training, with a checkpoint that is newer than that."""
    found = map(Path, glob(f"{escape(str(runs))}/.work/chunks/*/at-*"))  # Path.glob gives up on folders that go away
    return [path for path in found if _time(path) > since]


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another took its place
        return 0.0


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Machines, list[str]]]:
    """A head without cores, two machines of one core, and a client server; the first test kills a machine."""
    with cluster([0, 1, 1], client=True) as found:
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
    with start(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: len(begun(runs, since)) >= 2, process)  # both machines are at it
        ours.kill(names[1])
        printed, said = (text.decode() for text in process.communicate(timeout=120))
    assert process.returncode == 0, said
    assert "a worker died, and another goes on from its checkpoint" in said
    assert "raylet" not in printed + said  # nor pages of what Ray says at a machine's death
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


SMALL = ["-d", "digits", "-m", "logistic", "-R", "20", "-M", "5", "-S", "2", "-K", "2", "--seeds", "2"]
ASKED = {
    "compare": ["compare", *SMALL, "--lrs", "0.03,0.1"],
    "advise": ["advise", *SMALL, "--budget", "50%", "--no-bounds"],
}
SEARCH = """
[base]
dataset = "digits"
model = "logistic"
rounds = 20
eval_every = 10
clients = 5
participants = 2
[axes]
algorithm = ["sequential", "parallel"]
lr = [0.03, 0.1]
seed = [1, 2]
[tune]
method = "simple"
over = ["lr"]
"""


@pytest.mark.long
@pytest.mark.parametrize("what", ["compare", "advise", "tune"])
def test_what_trains_several_grids_says_the_same_on_a_cluster(
    what: str, machines: tuple[Machines, list[str]], tmp_path: Path
) -> None:
    """A search and what it leads to; the cluster stays joined between them."""
    (tmp_path / "search.toml").write_text(SEARCH)
    words = ASKED.get(what, ["tune", str(tmp_path / "search.toml")])
    said = []
    for place, where in {"here": [], "there": ["--on", f"ray:{machines[0].address}"]}.items():
        command = [sys.executable, "-m", "baton", *words, "--parts", "3", "--cores", "1", "--json", *where]
        command += ["--runs", str(tmp_path / place)]
        done = subprocess.run(
            command, env=os.environ | machines[0].key, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
    assert files(tmp_path / "here") == files(tmp_path / "there") != {}


@pytest.mark.long
def test_a_cluster_from_outside_through_its_client_server(machines: tuple[Machines, list[str]], tmp_path: Path) -> None:
    """The driver has no raylet of its own: everything goes through ray://."""
    ours = machines[0]
    study, wanted = whole(tmp_path, 300)
    place = ["--parts", "4", "--on", f"ray://127.0.0.1:{ours.client}"]
    command = words(study, tmp_path / "runs", *place)
    done = subprocess.run(command, env=os.environ | ours.key, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "runs") == wanted


@pytest.mark.long
def test_machines_that_lack_a_data_set_are_given_it(tmp_path: Path) -> None:
    """The table lies in a folder that they do not see."""
    hidden = tmp_path / "data"
    hidden.mkdir()
    rows = [f"{i % 7 - 3},{i % 5 - 2},{'yes' if i % 7 > i % 5 else 'no'}" for i in range(200)]
    (hidden / "table.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    hide = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {hidden}"]
    if subprocess.run(hide, capture_output=True, check=False).returncode:
        pytest.skip("no folder can be hidden from a process here")
    study = tmp_path / "study.toml"
    text = SEARCH.partition("[tune]")[0].replace('"digits"', f'"csv:{hidden}/table.csv,label=y"')
    study.write_text(text)
    subprocess.run(words(study, tmp_path / "plain", "--parts", "4"), check=True)
    with cluster([0]) as (ours, _):
        for _ in range(2):
            ours.start(1, hidden=hidden)
        command = words(study, tmp_path / "runs", "--parts", "4", "--on", f"ray:{ours.address}")
        done = subprocess.run(
            command, env=os.environ | ours.key, capture_output=True, text=True, check=False, timeout=120
        )
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "runs") == files(tmp_path / "plain") != {}
