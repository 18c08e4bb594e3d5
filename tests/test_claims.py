"""Claims without locks: one holder at a time, dead ones taken over, in the way of nobody who wakes up late."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import processes
from baton.seam import State
from baton.setting import Setting
from baton.store import Chunk, History, Laid, Snapshot, Store, claims
from baton.store.workers import SILENT, Workers
from test_sweep import files

CPU = torch.device("cpu")


def nobody(_token: str) -> bool:
    return False


def everybody(_token: str) -> bool:
    return True


def refused(number: int) -> Callable[..., None]:
    def link(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return link


LINKS = [0, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP]  # 0: there are hard links


@pytest.mark.parametrize("number", LINKS)
def test_only_one_of_many_gets_it(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if number:
        monkeypatch.setattr(os, "link", refused(number))
    for turn in range(20):
        gate = threading.Barrier(8)

        def take(name: int, gate: threading.Barrier = gate, turn: int = turn) -> claims.Claim | None:
            gate.wait()
            return claims.take(tmp_path, f"{turn}-{name}", lambda token: not token.startswith(f"{turn}-"))

        with ThreadPoolExecutor(8) as pool:
            found = [claim for claim in pool.map(take, range(8)) if claim]
        assert len(found) == 1
        assert found[0].holds()
        assert claims.holder(tmp_path).startswith(f"{turn}-")
    assert not list(tmp_path.glob(".*"))


def test_a_claim_is_kept_given_back_and_taken_over(tmp_path: Path) -> None:
    first = claims.take(tmp_path, "a", nobody)
    assert first
    assert claims.take(tmp_path, "b", nobody) is None
    first.release()
    assert claims.holder(tmp_path) == ""
    second = claims.take(tmp_path, "b", nobody)
    assert second
    assert not first.holds()
    third = claims.take(tmp_path, "c", everybody)  # b is thought dead
    assert third
    assert (second.holds(), third.holds()) == (False, True)
    second.release()  # b wakes up
    assert claims.holder(tmp_path) == "c"
    assert claims.take(tmp_path / "gone", "d", everybody) is None


def test_old_claims_do_not_pile_up(tmp_path: Path) -> None:
    for i in range(100):
        assert claims.take(tmp_path, str(i), everybody)
    assert len(list(tmp_path.iterdir())) <= 2 * claims.KEPT + 1
    assert claims.newest(tmp_path) == 100


def test_nothing_is_ever_locked() -> None:
    """flock answers ENOLCK, ENOSYS or nothing true on network file systems."""
    rooms = (Path(claims.__file__).parents[1] / room for room in ("store", "sweep", "watch", "report"))
    sources = [path for room in rooms for path in room.rglob("*.py")]
    assert not [path.name for path in sources if "fcntl" in path.read_text() or "lockf" in path.read_text()]


# Who lives


def test_a_worker_of_this_machine_is_looked_up(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    with workers.working() as worker:
        assert not workers.dead(worker.token)
        assert workers.tokens() == [worker.token]
        assert workers.read(worker.token) == worker
    assert workers.dead(worker.token)
    code = f"from pathlib import Path; from baton.store.workers import Workers; w = Workers(Path({str(tmp_path)!r}))\n"
    code += "with w.working() as me:\n print(me.token, flush=True); import time; time.sleep(60)"
    with processes.start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        token = process.stdout.readline().strip()
        assert not workers.dead(token)
        process.kill()
        process.wait()
        assert workers.dead(token)  # at once, though its file is there
        assert workers.tokens() == [token]


def test_one_elsewhere_is_dead_when_its_heart_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENT, "0.6")
    workers = Workers(tmp_path)
    with workers.working() as worker:
        monkeypatch.setattr("baton.store.workers._world", lambda: "another machine")
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert not workers.dead(worker.token)
            time.sleep(0.05)
    (workers.folder / f"{worker.token}.json").write_text("{}")  # as a killed one leaves it
    assert not workers.dead(worker.token)
    time.sleep(0.7)
    assert workers.dead(worker.token)


# Who was thought dead


def laid(store: Store, setting: Setting) -> Chunk:
    return store.pool.lay(Laid([setting.run_id], [setting.to_json()], "cpu", "fp32", 1.0, 0, 0, "", {}))


def at(round: int) -> Snapshot:
    return Snapshot(round, State({"x": torch.full((1, 2), float(round))}), {}, torch.tensor([-1]), History())


def test_what_a_late_riser_writes_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, setting = Store(tmp_path), Setting(rounds=8)
    chunk = laid(store, setting)
    with store.pool.workers.working() as one, store.pool.workers.working() as other:
        early = store.pool.take(chunk, one)
        assert early
        store.pool.save(early, at(2), {})
        assert store.pool.take(chunk, other) is None
        monkeypatch.setattr(Workers, "dead", lambda _self, token: token == one.token)
        late = store.pool.take(chunk, other)
        assert late
        store.pool.save(late, at(4), {})
        store.pool.save(early, at(3), {})  # it had not looked
        found = store.pool.load(chunk, CPU)
        assert found
        assert found[0].round == 4
        store.finish([setting], at(8))
        store.pool.drop(chunk)
        before = files(tmp_path)
        with pytest.raises(OSError):  # noqa: PT011 the folder is gone
            store.pool.save(early, at(5), {})
        store.finish([setting], at(7))
        assert files(tmp_path) == before


# Real processes, each in a world of its own

STUDY = """
[base]
dataset = "digits"
model = "mlp:hidden=8"
rounds = 3000
eval_every = 500
clients = 5
participants = 2
local_steps = 2
[axes]
lr = [0.03, 0.1]
"""
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def sweep(store: str, *before: str) -> list[str]:
    words = ["sweep", "s.toml", "--quiet", "--checkpoint-seconds", "0.05", "--runs", store]
    return [*before, sys.executable, "-m", "baton", *words]


def begun(folder: Path) -> None:
    end = time.monotonic() + 60
    while not list((folder / "runs" / ".work" / "chunks").glob("[!.]*/at-*")):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_two_namespaces_of_processes(how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither can see the other's processes: one that is killed, or sleeps, is taken over when its heart stops."""
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let namespaces be made")
    monkeypatch.setenv(SILENT, "1.5")
    (tmp_path / "s.toml").write_text(STUDY)
    with processes.start(sweep("whole"), tmp_path) as process:
        assert process.wait(300) == 0
    with processes.start(sweep("runs", *APART), tmp_path) as first:
        begun(tmp_path)
        os.killpg(first.pid, how)
        with processes.start(sweep("runs", *APART), tmp_path) as second:
            assert second.wait(300) == 0
        if how == signal.SIGSTOP:
            os.killpg(first.pid, signal.SIGCONT)
            assert first.wait(300) == 0
    assert files(tmp_path / "runs") == files(tmp_path / "whole")
    assert not Store(tmp_path / "runs").pool.chunks()
