"""A federation's runs in the server's job: what it tells those outside, and hears from them, through its folder.

status.json: where it stands. seen.json: who is connected, whether or not in this job. stop: whether it is to end.
ended.json: how it ended. doubles.json: names under which a second site was refused, and when.
"""

import json
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from baton.deploy import plan
from baton.deploy.coordinator import Coordinator
from baton.deploy.rules import Desk, Place
from baton.deploy.transport import Ended, Transport
from baton.errors import BadInput
from baton.store import Store, files

STATUS, SEEN, STOP, ENDED, LEGS = "status.json", "seen.json", "stop", "ended.json", "legs.csv"
DOUBLES = "doubles.json"
PATIENCE = 60.0  # seconds that a job of before has to end
AWAY = 10.0  # seconds after which a site that is seen, but does not answer here, was begun anew meanwhile


class Folder(Desk):
    """The desk of a run: its folder."""

    def __init__(self, folder: Path, present: set[str], there: Callable[[str], bool]) -> None:
        """present: who is in this job; there: whether a site answers in it."""
        self.folder, self.present, self.there = folder, present, there
        self._since: dict[str, float] = {}  # when a site was first missed, or looked for last
        self._trouble = ""  # the last thing that went wrong

    def at(self, place: Place) -> None:
        """status.json, and a line a leg."""
        self._trouble = place.says or self._trouble
        table = {**place._asdict(), "says": self._trouble, "time": time.time()}
        files.write(self.folder / STATUS, json.dumps(table).encode())
        if place.seconds:
            words = (f"{time.time():.1f}", place.round, place.hop, f"{place.seconds:.3f}", place.says)
            with open(self.folder / LEGS, "a") as file:
                file.write(",".join(map(str, words)) + "\n")

    def check(self, missing: set[str]) -> None:
        """Stopped, or to be begun anew with a site that is back."""
        if (self.folder / STOP).exists():
            raise Ended("stopped")
        now, seen = time.monotonic(), set(read(self.folder / SEEN).get("sites", []))
        self._since = {site: self._since.get(site, now) for site in missing & self.present}
        back = seen - self.present
        for site, since in self._since.items():
            if site in seen and now - since > AWAY:
                self._since[site] = now
                back |= set() if self.there(site) else {site}
        if back:
            raise Ended(f"again: {', '.join(sorted(back))} is back")

    def deserted(self) -> None:
        """It is the server's own link that is gone, or nobody is there: not to be taken for legs that are lost."""
        raise Ended("again: no site answers")


def read(path: Path) -> dict[str, Any]:
    """A small table; empty where there is none."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def serve(folder: Path, transport: Transport) -> None:
    """The runs, to their end or to the next time; how it ended is written down, whatever happens."""
    torch.set_num_threads(1)
    ended = {"end": "again", "why": "the job ended"}
    try:
        found = plan.load(folder)
        there = transport.ping([site.name for site in found.sites], found.ping)
        desk = Folder(folder, there, lambda site: bool(transport.ping([site], found.ping)))
        for setting in found.runs:
            coordinator = Coordinator(setting, found.rules(), transport, Store(folder / "runs"), desk)
            coordinator.patience = PATIENCE
            coordinator.run()
        ended = {"end": "complete", "why": ""}
    except Ended as error:
        ended = {"end": "stopped" if str(error) == "stopped" else "again", "why": str(error)}
    except BadInput as error:
        ended = {"end": "failed", "why": str(error)}
    except Exception as error:
        traceback.print_exc()
        ended = {"end": "failed", "why": f"{type(error).__name__}: {error}"}
    finally:
        files.write(folder / ENDED, json.dumps(ended).encode())
