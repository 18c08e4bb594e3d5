"""A federation of real processes with TLS on this machine; every process it starts ends with it."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from safetensors.torch import save_file

import processes as processes_of_tests
from baton.algorithms import ALGORITHMS
from baton.deploy import plan
from baton.deploy.flare import kits, processes
from baton.deploy.flare.stay import PID
from baton.deploy.flare.supervise import SERVER, stop
from baton.deploy.place import Place
from baton.deploy.plan import Plan
from baton.setting import Setting
from baton.store import Store
from federation import samples

LIMIT = 150.0  # seconds that a run may take
NAMES = ("site-1", "site-2", "site-3")


def free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Federation:
    """Three sites and a server."""

    def __init__(self, folder: Path, s: Setting, port: int = 0) -> None:
        self.folder, self.port, self.sites = folder / "fed", port or free(), dict[str, int]()
        self.held = samples(s)
        self.said: list[str] = []
        self.plan(s)
        kits.provision(self.now, self.folder)
        for name, mine in zip(NAMES, self.held, strict=True):
            local = self.folder / "kits" / name / "local"
            data = folder / f"{name}.safetensors"
            save_file({n: x.contiguous() for n, x in vars(mine).items()}, data)
            names = f"algorithms = {json.dumps(list(ALGORITHMS))}"  # split methods too
            (local / "policy.toml").write_text(f"least_samples = 0\nmost_steps = 100_000_000\n{names}\n")
            kept = [str(local / "policy.toml"), str(local.parent / "kept"), str(local.parent / "site.log")]
            Place(name, str(data), "", *kept, None).write(local / "site.json")

    def plan(
        self,
        s: Setting,
        algorithms: list[str] | None = None,
        lost: Mapping[str, object] = MappingProxyType({"wait": 120.0, "then": "skip"}),
        norm: float = 0.0,
        **more: object,
    ) -> Plan:
        """The run that is next; algorithms: by each in turn; lost, more: the tables [lost] and [times]."""
        run = {k: v for k, v in s.model_dump().items() if k not in ("failures", "on_failure", "clients")}
        run["algorithm"] = algorithms or s.algorithm
        self.now = plan.parse(
            {
                "federation": {"name": "trial", "server": "localhost", "port": self.port},
                "sites": [{"name": name} for name in NAMES],
                "run": run,
                "lost": dict(lost),
                "times": {"leg": 15, "ping": 3, **more},
                "checks": {"norm": norm},
            }
        )
        self.now.save(self.folder)
        (self.folder / "status.json").unlink(missing_ok=True)
        return self.now

    def begin(self, name: str, path: str = "") -> None:
        """A site's process; path: where it finds modules before all others."""
        kit = self.folder / "kits" / name
        org, before = name.replace("-", "_"), os.environ.get("PYTHONPATH")
        try:
            if path:
                os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [path, before]))
            self.sites[name] = processes.site(kit, name, org, kit / "local" / "site.json", kit / "flare.log").pid
        finally:
            os.environ.pop("PYTHONPATH", None)
            os.environ |= {"PYTHONPATH": before} if before else {}

    def kill(self, name: str) -> None:
        """A site, all of it, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.sites[name], signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.sites[name], 0)

    def stay(self, name: str) -> "subprocess.Popen[bytes]":
        """A site as its people start it: what dies is begun again."""
        kit = self.folder / "kits" / name
        data = self.folder.parent / f"{name}.safetensors"
        words = [sys.executable, "-m", "baton", "site", "start", str(kit), "--data", str(data), "--yes"]
        with open(kit / "stay.log", "ab") as out:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def kill_server(self) -> None:
        with suppress(OSError, ValueError):
            os.killpg(int((self.folder / SERVER).read_text()), signal.SIGKILL)

    def train(self, meanwhile: Callable[[], None] | None = None, limit: float = LIMIT) -> Store:
        """The run, to its end, as a person starts it."""
        words = [sys.executable, "-m", "baton", "deploy", "start", self.folder.name, "--keep"]
        with processes_of_tests.start(words, cwd=self.folder.parent, stderr=subprocess.PIPE, text=True) as process:
            if meanwhile:
                meanwhile()
            self.said = process.communicate(timeout=limit)[1].splitlines()
        assert process.returncode == 0, self.said
        return self.store()

    def store(self) -> Store:
        return Store(self.folder / "runs")


@contextmanager
def staying(folder: Path, s: Setting) -> Iterator[Federation]:
    """With sites as their people start them."""
    found = Federation(folder, s)
    sites = [found.stay(name) for name in NAMES]
    try:
        yield found
    finally:
        stop(found.folder)
        for site in sites:
            site.terminate()
        for site in sites:
            with suppress(subprocess.TimeoutExpired):
                site.wait(20)
            site.kill()
        for name in NAMES:
            with suppress(OSError, ValueError):
                processes.end(int((found.folder / "kits" / name / PID).read_text()), 0.0)


@contextmanager
def federation(folder: Path, s: Setting) -> Iterator[Federation]:
    found = Federation(folder, s)
    try:
        for name in NAMES:
            found.begin(name)
        yield found
    finally:
        stop(found.folder)
        for pid in found.sites.values():
            processes.end(pid, 0.0)
