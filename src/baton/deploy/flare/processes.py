"""FLARE's own processes: a server, a site. Each is the leader of its group, so that all of it can be ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from baton.deploy.place import VARIABLE

BEAT = 2  # seconds between a site's signs of life
APPS = "nvflare.private.fed.app"


def server(kit: Path, log: Path) -> "subprocess.Popen[bytes]":
    """The server of a kit."""
    words = ["-m", f"{APPS}.server.server_train", "-m", str(kit), "-s", "fed_server.json", "--set"]
    return _started([*words, "secure_train=true", "org=server", "config_folder=config"], log, {})


def site(kit: Path, name: str, org: str, place: Path, log: Path) -> "subprocess.Popen[bytes]":
    """A site of a kit; place: its small file."""
    words = ["-m", f"{APPS}.client.client_train", "-m", str(kit), "-s", "fed_client.json", "--set"]
    told = [f"uid={name}", f"org={org}", "config_folder=config", f"heart_beat_interval={BEAT}"]
    return _started([*words, "secure_train=true", *told], log, {VARIABLE: str(place)})


def _started(words: list[str], log: Path, more: dict[str, str]) -> "subprocess.Popen[bytes]":
    threads = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with open(log, "ab") as out:
        return subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **threads, **more},
            start_new_session=True,
        )


def end(pid: int, patience: float = 5.0) -> None:
    """A process and all that it started: asked first, then ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
            until = time.monotonic() + (patience if number == signal.SIGTERM else 1.0)
            while time.monotonic() < until and _lives(pid):
                time.sleep(0.05)


def _lives(group: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(group, os.WNOHANG)  # where it is ours
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def listening(host: str, port: int) -> bool:
    """Whether anybody takes connections there."""
    with suppress(OSError), socket.create_connection((host, port), 1.0):
        return True
    return False
