"""Legs of one run carried to its sites: sent, waited for, and believed only once they were checked."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from baton.deploy.answers import Outcome
from baton.deploy.checks import doubt, most_steps
from baton.deploy.frames import Garbled, parted
from baton.deploy.messages import WHYS, Half, Halved, Here, Look, Message, Refused, Train, Trained
from baton.deploy.rules import Desk, Rules
from baton.deploy.transport import Ended, Lost, Transport
from baton.deploy.wire import packed, unpacked
from baton.errors import BadInput
from baton.sites import halves
from baton.sites.server import Server
from baton.sites.visit import Answer, Order

PASSING = ("crash", "memory", "time")  # refusals that a site may get over
UNFIT = "it came back with a message that does not fit its leg"
PAUSE = 0.5  # seconds between two looks for a site that is waited for


class Task(NamedTuple):
    """One leg to be carried."""

    leg: str
    base: str
    order: Order


class Unbelieved(Exception):
    """A reply that is not believed, or a site that refuses."""


class Refuses(Unbelieved):
    """The site itself says no."""


class Carrier:
    """Knows who answered last."""

    def __init__(self, text: str, rules: Rules, transport: Transport, desk: Desk) -> None:
        """text: the run's setting."""
        self.text, self.rules, self.transport, self.desk = text, rules, transport, desk
        self.missing: set[str] = set()  # sites that did not answer when they were asked last
        self.samples: dict[str, int] = {}  # training samples of each site that told how many

    # --- anything

    def ask(self, frames: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """A frame a site; sites that were lost are looked for first, and waited for as the rules say."""
        suspected = self.missing & frames.keys()
        back = self.transport.ping(suspected, self.rules.ping) if suspected else set()
        gone = suspected - back
        self.missing -= back
        ready = {site: frame for site, frame in frames.items() if site not in gone}
        for site, got in self.transport.broadcast(ready, self.rules.leg) if ready else ():
            if isinstance(got, Lost):
                self.missing.add(site)
            if isinstance(got, Lost) or self._passing(got):
                gone.add(site)
            else:
                yield site, got
        for site in [site for site in frames if site in gone]:
            yield site, self._waited(site, frames[site])

    def _waited(self, site: str, frame: bytes) -> bytes | Lost:
        """The answer of a site that is lost, where it comes back in time."""
        end = time.monotonic() + self.rules.wait
        last: bytes | Lost = Lost(f"{site}: no answer")
        while time.monotonic() < end:
            self.desk.check(self.missing)
            if self.transport.ping([site], self.rules.ping):
                try:
                    last = self.transport.call(site, frame, self.rules.leg)
                    self.missing.discard(site)
                    if not self._passing(last):
                        return last
                except Lost as lost:
                    last = lost
                    continue
            time.sleep(min(PAUSE, max(0.0, end - time.monotonic())))
        return last

    def deserted(self, sites: Iterable[str]) -> bool:
        """Whether all of these are missing, and no other one answers."""
        others = [site for site in self.rules.sites if site not in self.missing]
        return self.missing.issuperset(sites) and not self.transport.ping(others or self.rules.sites, self.rules.ping)

    def _passing(self, got: bytes) -> bool:
        """Whether a refusal is worth waiting for."""
        return self.rules.wait > 0 and passing(got)

    def reply(self, got: bytes | Lost) -> Message:
        """What a site said; Unbelieved where that is nothing, or no."""
        if isinstance(got, Lost):
            raise Unbelieved("no answer in time")
        try:
            said = unpacked(got)
        except Garbled as error:
            raise Unbelieved(f"{error}") from None
        if isinstance(said, Refused):
            raise Refuses(f"it refuses: {WHYS[said.why]}")
        return said

    # --- whole legs

    def legs(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        """Legs at different sites, all at once: (which, how it went), as they come."""
        sites = {self.rules.sites[task.order.client]: i for i, task in enumerate(tasks)}
        began, seconds = time.monotonic(), self.rules.leg
        frames = {
            site: packed(Train(self.text, tasks[i].leg, tasks[i].base, tasks[i].order), seconds)
            for site, i in sites.items()
        }
        for site, got in self.ask(frames):
            task, took = tasks[sites[site]], time.monotonic() - began
            traffic = took, len(frames[site]), 0 if isinstance(got, Lost) else len(got)
            try:
                answer, why = self._believed(task, got), ""
            except Unbelieved as error:
                answer, why = None, str(error)
            except Exception:  # whatever a reply is like, no more than its own leg is lost
                answer, why = None, UNFIT
            yield sites[site], Outcome(task.order.client, answer, why, *traffic)

    def _believed(self, task: Task, got: bytes | Lost) -> Answer:
        said = self.reply(got)
        if not isinstance(said, Trained) or said.leg != task.leg:
            raise Unbelieved("the answer to something else")
        return self._sound(said.answer, task.order)

    def _sound(self, answer: Answer, order: Order) -> Answer:
        site = self.rules.sites[order.client]
        if wrong := doubt(answer, order, self.rules.norm, self.samples.get(site)):
            raise Unbelieved(f"it came back with {wrong}")
        return answer

    # --- legs in split form

    def halves(self, server: Server, task: Task) -> Outcome:
        """The server's half of a leg, and all that crosses."""
        site, began, moved = self.rules.sites[task.order.client], time.monotonic(), [0, 0]
        number, end = 0, math.inf  # of messages so far; when the leg has to be done

        def ask(message: halves.Message) -> object:
            nonlocal number, end
            if time.monotonic() > end:
                raise Unbelieved("its leg took too long")
            frame = packed(Half(self.text, task.leg, number, message), self.rules.leg)
            got = next(self.ask({site: frame}))[1] if number == 0 else self._at_once(site, frame)
            end = time.monotonic() + self.rules.leg if number == 0 else end
            moved[0] += len(frame)
            moved[1] += 0 if isinstance(got, Lost) else len(got)
            said = self.reply(got)
            if not isinstance(said, Halved) or (said.leg, said.number) != (task.leg, number):
                raise Unbelieved("the answer to something else")
            number += 1
            _finite(said.answer)
            return said.answer

        form, cut = server.algorithm.split, server.cut
        assert form is not None
        assert cut is not None
        try:
            if task.order.epochs and site not in self.samples:
                self._look(site)
            most = most_steps(task.order, self.samples.get(site, 0))
            made = halves.leg(server.net, server.like, form, cut, task.order, ask, most=most)
            answer, why = self._sound(made, task.order), ""
        except Unbelieved as error:
            answer, why = None, str(error)
        except (Ended, BadInput):
            raise
        except Exception:  # shapes or kinds that do not fit
            answer, why = None, UNFIT
        return Outcome(task.order.client, answer, why, time.monotonic() - began, *moved)

    def _look(self, site: str) -> None:
        """Hear how many samples a site has: it was away when the others were asked."""
        said = self.reply(self._at_once(site, packed(Look(self.text), self.rules.leg)))
        if isinstance(said, Here) and said.samples >= 0:
            self.samples[site] = said.samples

    def _at_once(self, site: str, frame: bytes) -> bytes | Lost:
        """Inside a leg nobody is waited for: a site that was away has forgotten it."""
        try:
            return self.transport.call(site, frame, self.rules.leg)
        except Lost as lost:
            self.missing.add(site)
            return lost


def passing(got: bytes) -> bool:
    """Whether a site says that its training ended before its time: it may get over that."""
    try:
        return parted(got)[0].get("refused") in PASSING
    except Garbled:
        return False


def _finite(answer: object) -> None:
    for part in answer if isinstance(answer, tuple) else [answer]:
        if isinstance(part, Tensor) and part.is_floating_point() and not bool(part.isfinite().all()):
            raise Unbelieved("it came back with numbers that are not finite")
