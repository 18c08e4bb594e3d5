"""How messages get to sites: a small protocol, and its twin inside this process."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol


class Lost(Exception):
    """Nothing came back from a site in time, or the way there is gone."""


class Ended(Exception):
    """The way to all sites is closed: whoever called is to be started anew, and goes on from where it was."""


class Transport(Protocol):
    """Frames to sites by name, and their answers. A site's failure is its own: the others are heard."""

    def call(self, site: str, frame: bytes, seconds: float) -> bytes:
        """Its answer; Lost where none came in time."""

    def broadcast(self, frames: Mapping[str, bytes], seconds: float) -> Iterator[tuple[str, bytes | Lost]]:
        """A frame a site, all at once; answers as they come."""

    def ping(self, sites: Iterable[str], seconds: float) -> set[str]:
        """Those that answer."""


class InProcess:
    """Sites that are functions here: what most tests run on."""

    def __init__(self, sites: Mapping[str, Callable[[bytes], bytes]]) -> None:
        self.sites = dict(sites)
        self.gone: set[str] = set()  # sites that do not answer

    def call(self, site: str, frame: bytes, seconds: float) -> bytes:
        """At once."""
        del seconds
        if site in self.gone or site not in self.sites:
            raise Lost(f"{site}: nobody there")
        return self.sites[site](frame)

    def broadcast(self, frames: Mapping[str, bytes], seconds: float) -> Iterator[tuple[str, bytes | Lost]]:
        """One after another."""
        for site, frame in frames.items():
            try:
                yield site, self.call(site, frame, seconds)
            except Lost as lost:
                yield site, lost

    def ping(self, sites: Iterable[str], seconds: float) -> set[str]:
        """Those that are there; where nobody is, it takes its time."""
        found = {site for site in sites if site in self.sites and site not in self.gone}
        if not found:
            time.sleep(min(seconds, 0.01))
        return found
