"""Generators side by side: all they yield, in their order, closed when this is closed, and a failure stops the rest."""

import threading
import time
from collections.abc import Generator
from contextlib import closing
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.sweep.together import together


class Log:
    """What jobs did, and how many were at it at once."""

    def __init__(self) -> None:
        self.running, self.most, self.closed, self.begun = 0, 0, [], []
        self.lock = threading.Lock()

    def job(self, number: int, count: int, weight: float = 0.0, wait: float = 0.0) -> Generator[int, None, None]:
        with self.lock:
            self.begun.append(number)
            self.running += weight
            self.most = max(self.most, self.running)
        try:
            for i in range(count):
                time.sleep(wait)
                yield i
        except GeneratorExit:
            self.closed.append(number)
            raise
        finally:
            with self.lock:
                self.running -= weight


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.2, 0.25, 0.5, 0.6, 1.0])), max_size=6))
def test_all_items_arrive_and_shares_never_exceed_the_whole(jobs: list[tuple[int, float]]) -> None:
    log = Log()
    share = [part for _, part in jobs]
    got = list(together([partial(log.job, i, count, part) for i, (count, part) in enumerate(jobs)], share))
    for i, (count, _) in enumerate(jobs):
        assert [item for number, item in got if number == i] == list(range(count))
    assert log.most <= 1 + 1e-9
    assert log.begun == list(range(len(jobs))) or log.most > 0.5


def test_small_jobs_run_at_the_same_time() -> None:
    log = Log()
    list(together([partial(log.job, i, 20, 0.25, 0.005) for i in range(4)], [0.25] * 4))
    assert log.most == 1.0


def test_large_jobs_run_one_after_another_in_this_thread() -> None:
    threads = set()

    def job() -> Generator[int, None, None]:
        threads.add(threading.current_thread())
        yield 1

    assert list(together([job, job], [1.0, 1.0])) == [(0, 1), (1, 1)]
    assert threads == {threading.main_thread()}


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_closing_closes_every_job_that_runs(share: float) -> None:
    log, before = Log(), set(threading.enumerate())  # other tests' libraries may have left threads of their own
    with closing(together([partial(log.job, i, 10**9, 0.1, 0.001) for i in range(3)], [share] * 3)) as running:
        next(running)
    assert sorted(log.closed) == sorted(log.begun)
    assert log.running == pytest.approx(0)
    assert set(threading.enumerate()) <= before


def test_a_failure_is_raised_and_stops_the_others() -> None:
    log = Log()

    def broken() -> Generator[int, None, None]:
        yield 1
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        list(together([partial(log.job, 0, 10**9, 0.1, 0.001), broken], [0.3, 0.3]))
    assert log.closed == [0]
