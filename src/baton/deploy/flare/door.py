"""Who may register at the server: one site a name. FLARE by itself lets the second one in, and the first one out.

A site says from which folder of which machine it comes. One that is begun again there is let in at once; another one
only when the first has been silent for so long that FLARE has taken it off its list.
"""

import hashlib
import json
import os
import platform
import time
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.private.defs import ClientType

from baton.deploy.place import VARIABLE
from baton.deploy.served import DOUBLES, read
from baton.store import files

BADGE = "baton_badge"  # what a site shows, among the words that FLARE sends when it registers


class Badge(FLComponent):  # type: ignore[misc]
    """At a site: shows from where it comes, as a digest."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Put it among what is sent to the server."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            fl_ctx.set_prop(BADGE, badge(Path(os.environ[VARIABLE])), private=False, sticky=True)


def badge(place: Path) -> str:
    """Return a digest of a machine and of a file on it: a copy of the file has another."""
    with open(place, "rb") as file:
        found = os.fstat(file.fileno())
    about = platform.node(), str(place.resolve().parent), found.st_dev, place.parent.stat().st_ino
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


class Door(FLComponent):  # type: ignore[misc]
    """At the server: refuses a site whose name another one has, and writes it down for the server's people."""

    def __init__(self, folder: str) -> None:
        """folder: the federation's."""
        super().__init__()
        self.folder = Path(folder)
        self._badges: dict[str, str] = {}  # of the sites that registered last

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Raise NotAuthenticated where a registration is a second one."""
        peer = fl_ctx.get_peer_context()
        if peer is None or fl_ctx.get_prop(FLContextKey.CLIENT_TYPE) != ClientType.REGULAR:
            return
        name, shown = peer.get_identity_name(), peer.get_prop(BADGE, "")
        there = any(client.name == name for client in fl_ctx.get_engine().get_clients())
        if event_type == EventType.CLIENT_REGISTER_PROCESSED and there:
            self._badges[name] = shown
        if event_type == EventType.CLIENT_REGISTER_RECEIVED and there and shown != self._badges.get(name):
            doubles = {**read(self.folder / DOUBLES), name: time.time()}
            files.write(self.folder / DOUBLES, json.dumps(doubles).encode())
            raise NotAuthenticated(f"{name} is connected already: a second kit under one name is refused")
