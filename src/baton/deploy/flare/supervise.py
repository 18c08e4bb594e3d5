"""Who sees to it that a federation's run goes on: the server's process, jobs one after another, who is connected."""

import io
import json
import logging
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from baton.deploy import plan
from baton.deploy.flare import kits, processes
from baton.deploy.plan import ADMIN, Plan
from baton.deploy.served import DOUBLES, ENDED, SEEN, STOP, read
from baton.errors import BadInput
from baton.store import Store, files

LOOK = 0.5  # seconds between two looks
FRESH = 5 * processes.BEAT  # seconds that a sign of life counts
SERVER = "server.pid"
PATIENCE = 15.0  # seconds that a leg under way has, once it is to be stopped
SILENCE = 60.0  # seconds between two words about the same second kit
FUTILE = 5  # jobs that may end one after another without a hop
Say = Callable[[str], None]


class Stopped(Exception):
    """Somebody asked for the end: the server may be gone, and is not begun again."""


class Supervisor:
    """One federation, from its folder."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self.say, self.plan = folder.resolve(), say, plan.load(folder)
        self._session: Any = None
        self._begun = 0  # how often the server was
        self._doubles = read(self.folder / DOUBLES)  # as far as they were told

    def run(self) -> bool:
        """Until its runs are complete, or it was stopped: False."""
        kits.needed()
        (self.folder / STOP).unlink(missing_ok=True)
        if self._complete():
            self.say(f"complete: {self._called()}")
            return True
        logging.getLogger("nvflare").addHandler(logging.NullHandler())  # or it says on our terminal what we know
        try:
            self._runs()
        except Stopped:
            self.say("stopped; 'baton deploy start' goes on from here")
            return False
        return True

    def _runs(self) -> None:
        """One job after another."""
        self._serve()
        self._alone()
        futile, before, since = 0, None, time.monotonic()
        while not self._complete():
            self._gather()
            ended = self._job()
            if ended["end"] == "failed":
                raise BadInput(f"deploy: {ended['why']}")
            if ended["end"] == "stopped":
                raise Stopped
            if not self._complete():
                self.say(f"{ended['why']}; going on")
                now = self._progress()
                futile, since = (futile + 1, since) if now == before else (0, time.monotonic())
                before = now
                if futile >= FUTILE and time.monotonic() - since > self.plan.wait:  # so long it may take to be back
                    raise BadInput(f"deploy: {FUTILE} jobs ended without a hop; {self.folder / 'server.log'} says why")
        self.say(f"complete: {self._called()}, in {self.folder / 'runs'}")

    def _complete(self) -> bool:
        store = Store(self.folder / "runs")
        return all(store.complete(setting.run_id) for setting in self.plan.runs)

    def _called(self) -> str:
        return "run " + ", ".join(setting.run_id for setting in self.plan.runs)

    def _progress(self) -> object:
        found = read(self.folder / "status.json")
        return found.get("run"), found.get("round"), found.get("hop")

    # --- the server

    def _serve(self) -> None:
        """The server's process: one that is there, or a new one; one that dies meanwhile is begun again."""
        child: subprocess.Popen[bytes] | None = None
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self._stopped()
            gone = child is None or child.poll() is not None
            if gone and not processes.listening("127.0.0.1", self.plan.port):
                child = processes.server(self.folder / "kits" / self.plan.server, self.folder / "server.log")
                files.write(self.folder / SERVER, str(child.pid).encode())
                self._begun += 1
            with suppress(Exception):
                self._connect()
                return
            time.sleep(LOOK)
        raise BadInput(f"deploy: the server does not answer on port {self.plan.port}; {self.folder / 'server.log'}")

    def _stopped(self) -> None:
        if (self.folder / STOP).exists():
            raise Stopped

    def _connect(self) -> None:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        self.close()
        with quiet():
            self._session = new_secure_session(ADMIN, str(self.folder / "kits" / ADMIN), timeout=10.0)

    def _asked(self, what: Callable[[Any], Any]) -> Any:
        """Something of the server; a session that has ended is begun anew, and so is a server that died."""
        for _ in range(20):
            try:
                with quiet():
                    return what(self._session)
            except Exception as error:
                last = error
                time.sleep(LOOK)
                self._serve()
        raise BadInput(f"deploy: the server does not answer ({type(last).__name__})")

    def _alone(self) -> None:
        """Jobs of a supervisor before this one end: their run goes on in ours."""
        for each in self._asked(lambda session: session.list_jobs()):
            if str(each.get("status", "")).startswith(("SUBMITTED", "RUNNING", "DISPATCHED", "APPROVED")):
                with suppress(Exception), quiet():
                    self._session.abort_job(each["job_id"])

    # --- sites

    def _look(self) -> set[str]:
        """Who is connected; told to the job too."""
        now, names = time.time(), {site.name for site in self.plan.sites}
        found = self._asked(lambda session: session.get_connected_client_list())
        seen = {each.name for each in found if each.name in names and now - (each.last_connect_time or 0) < FRESH}
        files.write(self.folder / SEEN, json.dumps({"sites": sorted(seen), "time": now}).encode())
        self._tell_doubles()
        return seen

    def _tell_doubles(self) -> None:
        """Say under which names a second site was refused."""
        for name, when in read(self.folder / DOUBLES).items():
            if when - self._doubles.get(name, 0.0) > SILENCE:
                self.say(f"{name}: a second kit under this name was refused; one of the two is a copy")
                self._doubles[name] = when

    def _gather(self) -> set[str]:
        """All sites; after a while, those that are there."""
        end, told = time.monotonic() + self.plan.gather, False
        while True:
            seen = self._look()
            if len(seen) == len(self.plan.sites) or (seen and time.monotonic() > end):
                return seen
            self._stopped()
            if not told:
                missing = [site.name for site in self.plan.sites if site.name not in seen]
                self.say(f"waiting for {', '.join(missing)}")
                told = True
            time.sleep(LOOK)

    # --- jobs

    def _job(self) -> dict[str, str]:
        """One job, to its end: how the run ended there."""
        (self.folder / ENDED).unlink(missing_ok=True)
        place = str(kits.job(self.folder))
        number = self._asked(lambda session: session.submit_job(place))
        gone, begun, stopped = 0.0, self._begun, 0.0
        while True:
            time.sleep(LOOK)
            if found := read(self.folder / ENDED):
                self._tell_doubles()
                self._closed(number)
                return found
            self._look()
            if self._begun != begun:
                return {"end": "again", "why": "the server was begun anew"}
            if (self.folder / STOP).exists():
                stopped = stopped or time.monotonic()
                if time.monotonic() - stopped > PATIENCE:
                    return {"end": "stopped", "why": ""}
            status = self._asked(lambda session: session.get_job_status(number))
            if status is None or status.startswith(("FINISHED", "FAILED")):
                gone = gone or time.monotonic()
                if time.monotonic() - gone > 2.0:  # what it wrote last may come after that
                    return read(self.folder / ENDED) or {"end": "again", "why": "the job was lost"}

    def _closed(self, number: str) -> None:
        """Its processes end before the next job begins."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            status = self._asked(lambda session: session.get_job_status(number))
            if status is None or status.startswith(("FINISHED", "FAILED")):
                return
            time.sleep(LOOK)
        with suppress(BadInput):
            self._asked(lambda session: session.abort_job(number))

    def close(self) -> None:
        """The session only; the server goes on."""
        if self._session is not None:
            with suppress(Exception), quiet():
                self._session.close()


def stop(folder: Path) -> None:
    """The server's process of a federation, where it is there."""
    with suppress(OSError, ValueError):
        processes.end(int((folder / SERVER).read_text()))
        (folder / SERVER).unlink()


@contextmanager
def quiet() -> Iterator[None]:
    """FLARE prints on standard output; ours is for our own lines."""
    with redirect_stdout(io.StringIO()):
        yield


def of(folder: Path) -> Plan:
    """The plan of a folder."""
    return plan.load(folder)
