"""Several generators at once, each in a thread: what one process can keep side by side on one device."""

import queue
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class _End:
    """The last thing a job puts into the queue."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def together(
    jobs: Sequence[Callable[[], Generator[T, None, None]]], share: Sequence[float]
) -> Generator[tuple[int, T], None, None]:
    """(job, what it yields) of all jobs, begun in their order, as many at a time as their shares add up to 1.

    When this is closed, or a job fails, the others are closed where they stand before this ends.
    """
    if sum(sorted(share)[:2]) > 1 or len(jobs) == 1:  # no two fit
        for number, job in enumerate(jobs):
            for item in job():
                yield number, item
        return
    found: queue.Queue[tuple[int, T | _End]] = queue.Queue(maxsize=len(jobs))
    stop = threading.Event()

    def put(item: tuple[int, T | _End]) -> None:
        """Wait for room, but never once this ends: then nobody may look into the queue again."""
        while not stop.is_set():
            with suppress(queue.Full):
                found.put(item, timeout=0.1)
                return

    def work(number: int) -> None:
        end: BaseException | None = None
        try:
            running = jobs[number]()
            try:
                for item in running:
                    put((number, item))
                    if stop.is_set():
                        break
            finally:
                running.close()
        except BaseException as error:
            end = error
        ended[number] = _End(end)
        put((number, ended[number]))

    waiting, running = list(range(len(jobs)))[::-1], dict[int, threading.Thread]()
    ended: dict[int, _End] = {}
    try:
        while waiting or running:
            while waiting and (not running or sum(share[i] for i in [*running, waiting[-1]]) <= 1 + 1e-9):
                number = waiting.pop()
                running[number] = threading.Thread(target=work, args=(number,))
                running[number].start()
            number, got = found.get()
            if isinstance(got, _End):
                running.pop(number).join()
                if got.error:
                    raise got.error
            else:
                yield number, got
    finally:
        stop.set()
        for thread in running.values():
            thread.join()
        failed = next((ended[number].error for number in running if ended[number].error), None)
        if failed and not isinstance(sys.exception(), Exception):  # closed, and one could not save: that is told
            raise failed
