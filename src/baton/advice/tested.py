"""What the test set's size leaves open between two candidates."""

from collections.abc import Callable, Sequence

import numpy as np

from baton import datasets
from baton.advice.measure import Measure
from baton.advice.verdict import Candidate
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate import answers
from baton.store import Store
from baton.verdict import Rows, answered, bounded

Tested = Callable[[Candidate, Candidate, float, float], Rows | None]  # two candidates and their accuracies


def by_answers(wanted: Sequence[Setting], store: Store, by: Measure) -> Tested:
    """From the answers of their final models to each row; where these cannot be had, from the accuracies."""
    rough = by_accuracy(wanted[0], by)

    def tested(one: Candidate, other: Candidate, first: float, second: float) -> Rows | None:
        if by.metric != "test_accuracy":
            return None
        sides = [[s for s in wanted if (s.algorithm, s.lr, s.clip) == c[:3]] for c in (one, other)]
        right = answers.right([s for own in sides for s in own], store)
        if not all(own and all(s.run_id in right for s in own) for own in sides):
            return rough(one, other, first, second)
        stacked = [np.stack([right[s.run_id] for s in own]) for own in sides]
        return answered(stacked[0], stacked[1])

    return tested


def by_accuracy(setting: Setting, by: Measure) -> Tested:
    """As if both erred independently of each other, which is at most what they do."""
    try:
        n = len(datasets.load(setting.dataset, setting.clients).test_y) if by.metric == "test_accuracy" else 0
    except BadInput:  # the data are not here
        n = 0
    return lambda _one, _other, first, second: bounded(first, second, n) if n else None
