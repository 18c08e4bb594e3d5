"""What FLARE loads at either end of a job. Neither brings code of its own: both are installed with Baton."""

import os
import threading
import time
from pathlib import Path

from nvflare.collab import collab

from baton.deploy.place import VARIABLE
from baton.deploy.trainer import Trainer

LOOK = 0.2  # seconds between two looks


def with_its_parent() -> None:
    """End this process when the one that started it ends: FLARE starts jobs in sessions of their own."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class SiteApp:
    """At a site: frames go to the process that trains, and come back from there."""

    def __init__(self) -> None:
        self._trainer: Trainer | None = None
        with_its_parent()

    def _ask(self, frame: bytes) -> bytes:
        if self._trainer is None:
            self._trainer = Trainer(Path(os.environ[VARIABLE]))
        return self._trainer.ask(frame)

    def _ping(self) -> bytes:
        return b"here"

    def _end(self) -> None:
        if self._trainer is not None:
            self._trainer.end()

    ask, ping, end = collab.publish(_ask), collab.publish(_ping), collab.final(_end)


class ServerApp:
    """At the server: the run, from where it was."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        with_its_parent()

    def _run(self) -> None:
        from baton.deploy.flare.transport import Flare
        from baton.deploy.served import serve

        serve(self.folder, Flare({each.name: each for each in collab.clients}))

    run = collab.main(_run)
