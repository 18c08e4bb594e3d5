"""Frames by FLARE's Collab calls."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from baton.deploy.transport import Ended, Lost

Proxies = Mapping[str, Callable[..., Any]]  # site -> what FLARE calls it by


class Flare:
    """The sites of one job. Its roster is fixed: who comes later is in the next one."""

    def __init__(self, proxies: Proxies) -> None:
        self.proxies = dict(proxies)

    def call(self, site: str, frame: bytes, seconds: float) -> bytes:
        """Its answer."""
        return self._do(site, seconds, lambda far: far.ask(frame=frame))

    def _do(self, site: str, seconds: float, what: Callable[[Any], Any]) -> bytes:
        from nvflare.collab import CollabCallError
        from nvflare.collab.api.exceptions import RunAborted

        far = self.proxies.get(site)
        if far is None:
            raise Lost(f"{site}: not in this job")
        try:
            answer = what(far(timeout=seconds))
        except RunAborted:
            raise Ended("the job was aborted") from None
        except CollabCallError as error:
            raise Lost(f"{site}: {error.cause_type}") from None
        except Exception as error:  # of FLARE's own: it is that site's call that failed
            raise Lost(f"{site}: {type(error).__name__}") from None
        if not isinstance(answer, bytes):  # as a site says that is about to end
            raise Lost(f"{site}: no frame")
        return answer

    def broadcast(self, frames: Mapping[str, bytes], seconds: float) -> Iterator[tuple[str, bytes | Lost]]:
        """A thread a site."""
        heard: queue.Queue[tuple[str, bytes | Lost | Ended]] = queue.Queue()

        def one(site: str, frame: bytes) -> None:
            try:
                heard.put((site, self.call(site, frame, seconds)))
            except (Lost, Ended) as error:
                heard.put((site, error))

        for site, frame in frames.items():
            threading.Thread(target=one, args=(site, frame), daemon=True).start()
        for _ in frames:
            site, got = heard.get()
            if isinstance(got, Ended):
                raise got
            yield site, got

    def ping(self, sites: Iterable[str], seconds: float) -> set[str]:
        """Those that answer."""
        found: set[str] = set()

        def one(site: str) -> None:
            try:
                self._do(site, seconds, lambda far: far.ping())
                found.add(site)
            except (Lost, Ended):
                return

        threads = [threading.Thread(target=one, args=(site,), daemon=True) for site in sites]
        for each in threads:
            each.start()
        for each in threads:
            each.join(seconds + 1)
        return set(found)
