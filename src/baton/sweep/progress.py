"""What long work shows: rounds, lane-rounds a second, time left."""

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import chain

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from baton.sweep import stopping
from baton.sweep.call import Progress as Where

EVERY = 10.0  # seconds between lines where no terminal shows a bar


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


class _Rate:
    """Speed since this command began: work that lay done in a checkpoint does not count."""

    def __init__(self, first: Where) -> None:
        self.began, self.first = time.monotonic(), first
        self.lane_rounds, self.last = 0, {first.chunk: first.round}

    def line(self, at: Where) -> str:
        if at.waiting:
            return f"waiting for {at.waiting:,} run{'s' if at.waiting > 1 else ''} that other processes train"
        self.lane_rounds += (at.round - self.last.get(at.chunk, at.round - 1)) * at.lanes
        self.last[at.chunk] = at.round
        took = time.monotonic() - self.began
        done = at.steps - self.first.steps
        left = _clock((at.total - at.steps) * took / done) if done else "?"
        speed = _short(self.lane_rounds / took) if took > 0 and self.lane_rounds else "?"
        return (
            f"chunk {at.chunk}/{at.chunks} ({at.lanes} lanes)  round {at.round}/{at.rounds}  "
            f"{speed} lane-rounds/s  {left} left"
        )


def show(where: Iterator[Where], quiet: bool) -> None:
    """Follow a sweep to its end: a bar on a terminal, a line now and then elsewhere, nothing if quiet."""
    if quiet:
        for _ in where:
            pass
        return
    first = next(where, None)
    if first is not None:
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
        for at in where:
            rate = rate or _Rate(at)
            bar.update(task, description=rate.line(at), completed=at.steps, total=at.total)


def _lines(where: Iterator[Where]) -> None:
    rate, shown = None, time.monotonic()
    for at in where:
        rate = rate or _Rate(at)
        line = rate.line(at)
        if time.monotonic() - shown >= EVERY:
            print(line, file=sys.stderr, flush=True)
            shown = time.monotonic()


@contextmanager
def telling(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What measuring is told to say: (what, steps done, of so many; 0: nobody knows). A bar, lines, or nothing."""
    if quiet:
        yield lambda what, done, steps: None  # noqa: ARG005
    elif sys.stderr.isatty():
        columns = (BarColumn(bar_width=40), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda what, done, steps: bar.update(
                task, description=_told(what, done, steps), completed=done, total=steps or None
            )
    else:
        shown = time.monotonic()

        def line(what: str, done: int, steps: int) -> None:
            nonlocal shown
            if time.monotonic() - shown >= EVERY:
                print(_told(what, done, steps), file=sys.stderr, flush=True)
                shown = time.monotonic()

        yield line


def _told(what: str, done: int, steps: int) -> str:
    return f"{what}  {done}/{steps}" if steps else f"{what}  {done}"
