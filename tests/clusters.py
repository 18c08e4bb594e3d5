"""A Ray cluster of several machines on this one, by `ray start`: ports and folders of its own, an end in any case.

A machine is a raylet with what it started. All of a cluster's processes carry a word in their environment, by which
they are found; `ray stop` would end other people's clusters too.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "BATON_TEST_CLUSTER"


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


class Machines:
    """The cluster."""

    def __init__(self, client: bool = False) -> None:
        self.word = secrets.token_hex(8)
        self.folder = Path("/tmp") / f"br-{self.word[:6]}"  # short: Ray's sockets lie in there
        self.port, self.client = free_port(), free_port() if client else 0
        self.address = f"127.0.0.1:{self.port}"
        self.key = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # for this cluster alone

    def start(self, cpus: int, head: bool = False, hidden: Path | None = None) -> str:
        """A machine more; gives the word that its processes carry. hidden: a folder that it does not see."""
        word = f"{self.word}-{secrets.token_hex(4)}"
        where = (
            ["--head", f"--port={self.port}", f"--temp-dir={self.folder}", f"--ray-client-server-port={self.client}"]
            if head
            else [f"--address={self.address}"]
        )
        if head and not self.client:
            where.pop()
        words = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *where]
        words += ["--num-gpus=0", f"--num-cpus={cpus}", "--object-store-memory=80000000", "--disable-usage-stats"]
        words += ["--include-dashboard=false"] * head
        environment = {**os.environ, **self.key, MARK: word}
        environment |= {"RAY_health_check_failure_threshold": "2"}  # so that a machine's death is soon noticed
        environment |= {"RAY_health_check_period_ms": "500", "RAY_health_check_timeout_ms": "500"}
        environment |= {"RAY_health_check_initial_delay_ms": "0"}
        if hidden:
            hide = 'mount -t tmpfs none "$0" && exec "$@"'
            words = ["unshare", "--mount", "sh", "-c", hide, str(hidden), *words]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return word

    def processes(self, word: str) -> list[int]:
        """Those that carry a word that begins so."""
        found = []
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                with suppress(OSError):
                    if f"{MARK}={word}".encode() in (path / "environ").read_bytes():
                        found.append(int(path.name))
        return found

    def kill(self, word: str) -> None:
        """A machine loses its power: all its processes at once."""
        while left := self.processes(word):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


@contextmanager
def cluster(cpus: Sequence[int], client: bool = False) -> Iterator[tuple[Machines, list[str]]]:
    """Machines with so many cores each, the first of which is the head; and the words of each."""
    machines = Machines(client)
    try:
        yield machines, [machines.start(count, head=not number) for number, count in enumerate(cpus)]
    finally:
        machines.kill(machines.word)
        shutil.rmtree(machines.folder, ignore_errors=True)
