"""How far measuring is, counted in forward passes of one sample, so that jobs of unlike length add up."""

from collections.abc import Iterator
from contextlib import contextmanager

from baton.constants.found import Tell

GRADIENT, PRODUCT = 3, 8  # forward passes: two for the way back; a product differentiates a gradient once more


class Work:
    """Jobs with what each is expected to take; one that ends early counts as done."""

    def __init__(self, tell: Tell, total: float) -> None:
        """total: what all jobs are expected to take."""
        self.tell, self.total = tell, total
        self.before, self.inside, self.job, self.expected = 0.0, 0.0, "", 0.0

    @contextmanager
    def at(self, job: str, expected: float) -> Iterator[None]:
        """Inside, what is spent is spent on it."""
        self.job, self.inside, self.expected = job, 0.0, expected
        self.spend(0)
        yield
        self.before, self.job = self.before + expected, ""

    def spend(self, passes: float) -> None:
        """So many forward passes more."""
        self.inside += passes
        if self.job:
            done = self.before + min(self.inside, self.expected)
            self.tell(self.job, round(done), max(1, round(self.total)))
