"""What long work shows: rounds, lane-rounds a second, time left."""

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import chain

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from baton.notice import many
from baton.shown import print
from baton.store import History
from baton.sweep import notebook, stopping
from baton.sweep.call import Progress as Where

EVERY = 10.0  # seconds between lines where no terminal shows a bar
FRESH = 0.1  # seconds between two looks of a bar at what has changed
SHOWN = ("test_accuracy", "distance", "test_loss")  # the first there is


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def measured(history: History | None) -> list[str]:
    """The newest test accuracy, or distance or loss where there is none; of several lanes the smallest and largest."""
    name = next((name for name in SHOWN if history and name in history), "")
    if not history or not name:
        return []
    values = history.last(name)[1]
    values = values[np.isfinite(values)]
    if not len(values):
        return ["diverged"]
    low, high = (f"{x:.2f}%" if name.endswith("accuracy") else f"{x:.3g}" for x in (values.min(), values.max()))
    return [f"{name.replace('_', ' ')} {low if low == high else f'{low} to {high}'}"]


class _Rate:
    """Speed since this command began: work that lay done in a checkpoint does not count."""

    def __init__(self, first: Where) -> None:
        self.began, self.first = time.monotonic(), first
        self.lane_rounds, self.last = 0, {first.chunk: first.round}

    def count(self, at: Where) -> None:
        """After every round."""
        if not at.waiting:
            self.lane_rounds += (at.round - self.last.get(at.chunk, at.round - 1)) * at.lanes
            self.last[at.chunk] = at.round

    def line(self, at: Where) -> str:
        """Where it stands, whenever that is shown; what matters most comes first, since a terminal may cut the end."""
        if at.waiting:
            return f"waiting for {many(at.waiting, 'run')} that other processes train"
        took = time.monotonic() - self.began
        done = at.steps - self.first.steps
        left = _clock((at.total - at.steps) * took / done) if done else "?"
        speed = _short(self.lane_rounds / took) if took > 0 and self.lane_rounds else "?"
        which = [f"chunk {at.chunk}/{at.chunks}"] if at.chunks > 1 else []
        which += [many(at.lanes, "lane")] if at.lanes > 1 else []
        parts = [f"round {at.round}/{at.rounds}", *measured(at.history), f"{left} left", *which]
        return "  ".join([*parts, f"{speed} lane-rounds/s"])


def show(where: Iterator[Where], quiet: bool) -> None:
    """Follow a sweep to its end: a bar on a terminal, a line now and then elsewhere, nothing if quiet."""
    if quiet:
        for _ in where:
            pass
        return
    first = next(where, None)
    if first is not None and (say := notebook.line()):
        _cell(chain([first], where), say)
    elif first is not None:
        print(first.cut, file=sys.stderr, flush=True)
        (_bar if sys.stderr.isatty() else _lines)(chain([first], where))


def follow(where: Generator[Where, None, None], quiet: bool, ending: bool = False) -> None:
    """The same, with signals heard: asked to stop, it is saved, and `Stopped` is raised.

    ending: nothing follows then but the end of the process.
    """
    with stopping.heard(ending):
        try:
            show(where, quiet)
        except Exception:
            if stopping.broken():
                stopping.check()
            raise
        finally:
            with stopping.saving():
                where.close()


def _bar(where: Iterator[Where]) -> None:
    columns = (BarColumn(bar_width=None), TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
        task, rate = bar.add_task("starting"), None
        shown = 0.0
        for at in where:
            rate = rate or _Rate(at)
            rate.count(at)
            if time.monotonic() - shown >= FRESH:
                bar.update(task, description=rate.line(at), completed=at.steps, total=at.total)
                shown = time.monotonic()


def _cell(where: Iterator[Where], say: Callable[[str], None]) -> None:
    """In a notebook."""
    rate, shown, at = None, 0.0, None
    for at in where:
        rate = rate or _Rate(at)
        rate.count(at)
        if time.monotonic() - shown >= 2 * FRESH:
            say(rate.line(at))
            shown = time.monotonic()
    if at is not None:
        say("  ".join([f"done: {at.cut.removeprefix('training ')}", *measured(at.history)]))


def _lines(where: Iterator[Where]) -> None:
    rate, shown = None, time.monotonic()
    for at in where:
        rate = rate or _Rate(at)
        rate.count(at)
        if time.monotonic() - shown >= EVERY:
            print(rate.line(at), file=sys.stderr, flush=True)
            shown = time.monotonic()


@contextmanager
def telling(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What measuring is told to say: (what, steps done, of so many; 0: nobody knows). A bar, lines, or nothing."""
    left = _Left()
    if quiet:
        yield lambda what, done, steps: None  # noqa: ARG005
    elif sys.stderr.isatty():
        columns = (BarColumn(bar_width=40), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda what, done, steps: bar.update(
                task, description=_told(what, done, steps, left(done, steps)), completed=done, total=steps or None
            )
    else:
        shown = time.monotonic()

        def line(what: str, done: int, steps: int) -> None:
            nonlocal shown
            rest = left(done, steps)
            if time.monotonic() - shown >= EVERY:
                print(_told(what, done, steps, rest), file=sys.stderr, flush=True)
                shown = time.monotonic()

        yield line


class _Left:
    """The time that is left of a number of steps, from when they began to be counted."""

    def __init__(self) -> None:
        self.steps, self.last, self.first, self.began = -1, 0, 0, 0.0

    def __call__(self, done: int, steps: int) -> str:
        """Nothing where it cannot be known yet; a smaller total is still the same count, a smaller `done` is not."""
        if self.steps < 0 or done < self.last or not steps or not self.steps:
            self.began, self.first = time.monotonic(), done
        self.steps, self.last = steps, done
        took = time.monotonic() - self.began
        past = done - self.first
        return _clock(took * max(0, steps - done) / past) if steps and past > 0 else ""


MANY = 1000  # steps that are told in per cent: nobody counts them


def _told(what: str, done: int, steps: int, left: str = "") -> str:
    count = f"{100 * done // steps}%" if steps >= MANY else f"{done}/{steps}" if steps else f"{done}"
    return f"{what}  {count}" + (f"  {left} left" if left else "")
