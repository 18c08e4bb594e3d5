"""A storm of kills over a federation of real processes: each run ends as if nothing had been.

python tests/storm.py [KILLS] [SEED] [FOLDER] [wait|retry]      # 100 kills by default
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import processes
from baton.deploy.flare.stay import PID
from baton.deploy.flare.supervise import SERVER
from baton.deploy.served import LEGS
from baton.setting import Setting
from federation import setting
from flare_federation import NAMES, Federation, staying
from test_deploy_run import same, simulation

FEW = ["sequential", "parallel:weighting=size", "scaffold"]
KEEPING = [  # something at clients or at the server
    "sequential",
    "scaffold",
    "feddyn:alpha=0.2",
    "amplified_scaffold:every=3,server_lr=1.5",
    "feddc:every=3,swap=2",
    "pairgrab",
    "flgrab",
    "ewc:strength=0.5",
    "fedavgm",
    "fedadam:server_lr=0.01",
    "switch:first=feddyn,then=scaffold,after=4",
]
WAYS: list[tuple[list[str], dict[str, object]]] = [  # legs in C, and of PyTorch; in turn, from the seed on
    (FEW, {"rounds": 40, "eval_every": 40, "local_steps": 10_000}),
    (KEEPING, {"rounds": 8, "eval_every": 8, "local_steps": 200, "dtype": "float64", "momentum": 0.5}),
]
PAUSE = 0.2, 3.0  # seconds between a leg that is done and the next kill
MOST = 12.0  # seconds that a leg is waited for: then the next kill meets those who are still getting over the last one
LIMIT = 3600.0  # seconds without an end
KINDS = {  # what dies; a site that is gone is no matter for trying again, which is at once
    "wait": ["site", "site's job", "trainer", "server", "server's job", "start"],
    "retry": ["trainer", "trainer", "server", "server's job", "start"],
}
LOST = {"wait": {"wait": 900.0, "then": "skip"}, "retry": {"wait": 0.0, "then": "retry:times=5"}}
SITE_JOB, SERVER_JOB, CHILD = "client.worker_process", "server.runner_process", "baton.deploy.child"


def found(module: str, mark: Path) -> list[int]:
    """Processes of a module that were given something in a folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if any(w.endswith(module) for w in words) and any(w.startswith(str(mark)) for w in words):
                pids.append(int(path.parent.name))
    return pids


class Storm:
    """Kills, one after another, while runs are trained."""

    def __init__(self, fed: Federation, kills: int, seed: int, policy: str) -> None:
        self.fed, self.left, self.chance, self.kinds = fed, kills, random.Random(seed), KINDS[policy]
        self.killed: Counter[str] = Counter()
        self.starter: subprocess.Popen[str] | None = None
        self.calm = threading.Event()  # the runs under way are complete

    def rage(self) -> None:
        """Until its kills are done, or the runs are."""
        while self.left and not self._over():
            kind = self.chance.choice(self.kinds)
            if getattr(self, f"_{kind.replace(' ', '_').replace(chr(39), '')}")():
                self.left -= 1
                self.killed[kind] += 1
                print(f"{time.strftime('%H:%M:%S')} killed: {kind}", file=sys.stderr, flush=True)

    def _over(self) -> bool:
        """Whether the runs are complete; it takes until they have gone on, and a little more."""
        legs, end = self.fed.folder / LEGS, time.monotonic() + MOST
        before = legs.stat().st_size if legs.exists() else 0
        while time.monotonic() < end and (legs.stat().st_size if legs.exists() else 0) == before:
            if self.calm.wait(0.05):
                return True
        return self.calm.wait(self.chance.uniform(*PAUSE))

    def _any(self, module: str, mark: Path) -> bool:
        pids = found(module, mark)
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(sorted(pids)), signal.SIGKILL)
        return bool(pids)

    def _kit(self) -> Path:
        return self.fed.folder / "kits" / self.chance.choice(NAMES)

    def _site(self) -> bool:
        try:
            os.killpg(int((self._kit() / PID).read_text()), signal.SIGKILL)
        except (OSError, ValueError):  # it has not come back yet
            return False
        return True

    def _sites_job(self) -> bool:
        return self._any(SITE_JOB, self._kit())

    def _trainer(self) -> bool:
        return self._any(CHILD, self._kit())

    def _server(self) -> bool:
        there = (self.fed.folder / SERVER).exists()
        self.fed.kill_server()
        return there

    def _servers_job(self) -> bool:
        return self._any(SERVER_JOB, self.fed.folder / "kits")

    def _start(self) -> bool:
        if self.starter is None or self.starter.poll() is not None:
            return False
        self.starter.kill()
        return True


def train(fed: Federation, storm: Storm) -> None:
    """The runs that are planned, begun again by the same command until they are complete."""
    words = [sys.executable, "-m", "baton", "deploy", "start", fed.folder.name, "--keep"]
    end, storm.calm = time.monotonic() + LIMIT, threading.Event()
    thread = threading.Thread(target=storm.rage)
    thread.start()
    try:
        while True:
            with processes.start(words, cwd=fed.folder.parent, stderr=subprocess.PIPE, text=True) as storm.starter:
                said = storm.starter.communicate(timeout=max(1.0, end - time.monotonic()))[1]
            print(said, file=sys.stderr, end="", flush=True)
            if storm.starter.returncode == 0:
                return
            assert storm.starter.returncode == -signal.SIGKILL, said  # nothing else ends it
    finally:
        storm.calm.set()
        thread.join()


def storm(folder: Path, kills: int, seed: int, policy: str = "wait") -> Counter[str]:
    """Runs until so many kills are done; each is held to its simulation."""

    def planned(number: int) -> Setting:
        _, more = WAYS[(seed + number) % len(WAYS)]
        return setting("sequential", clients=len(NAMES), participants=len(NAMES), lr=0.01, seed=number, **more)

    with staying(folder, planned(0)) as fed:
        raging, number = Storm(fed, kills, seed, policy), 0
        while raging.left:
            algorithms, _ = WAYS[(seed + number) % len(WAYS)]
            runs = fed.plan(planned(number), algorithms, LOST[policy], leg=10).runs
            began = time.monotonic()
            train(fed, raging)
            store = fed.store()
            for s in runs:
                same(store, s, simulation(s))
                assert policy == "retry" or store.read(s.run_id).metrics["lost_legs"][-1] == 0
                assert not store.pool.chunks()
            took = time.monotonic() - began
            print(f"seed {number}: {len(runs)} runs equal in {took:.0f} s, {raging.left} kills left", file=sys.stderr)
            number += 1
    return raging.killed


if __name__ == "__main__":
    given = sys.argv[1:]
    where = Path(given[2]) if len(given) > 2 else Path(tempfile.mkdtemp())
    clock = time.monotonic()
    done = storm(where, int(given[0]) if given else 100, int(given[1]) if len(given) > 1 else 1, *given[3:4])
    print(f"{done.total()} kills in {(time.monotonic() - clock) / 60:.1f} minutes: {dict(done)}")
