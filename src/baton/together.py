"""Several generators at once, each in a thread: what one process can keep side by side on one device."""

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

T = TypeVar("T")


def together(
    jobs: Sequence[Callable[[], Generator[T, None, None]]], count: int
) -> Generator[tuple[int, T], None, None]:
    """(job, what it yields) of all jobs, at most `count` of them at a time, begun in their order.

    When this is closed, or a job fails, the others are closed where they stand before this ends.
    """
    if count <= 1 or len(jobs) <= 1:
        for number, job in enumerate(jobs):
            for item in job():
                yield number, item
        return
    found: queue.Queue[tuple[int, T] | BaseException | None] = queue.Queue(maxsize=count)
    waiting, stop = list(enumerate(jobs))[::-1], threading.Event()

    def work() -> None:
        try:
            while waiting and not stop.is_set():
                number, job = waiting.pop()
                running = job()
                try:
                    for item in running:
                        found.put((number, item))
                        if stop.is_set():
                            return
                finally:
                    running.close()
        except BaseException as error:
            found.put(error)
        finally:
            found.put(None)

    threads = [threading.Thread(target=work) for _ in range(min(count, len(jobs)))]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            got = found.get()
            if got is None:
                left -= 1
            elif isinstance(got, BaseException):
                raise got
            else:
                yield got
    finally:
        stop.set()
        while any(thread.is_alive() for thread in threads):
            try:  # nobody may stay stuck on a full queue
                found.get(timeout=0.05)
            except queue.Empty:
                continue
