"""What the test set's size leaves open between two candidates."""

from collections.abc import Callable, Mapping, Sequence

from baton import datasets
from baton.advice.measure import Measure
from baton.advice.verdict import Candidate, Open
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate import answers
from baton.store import Store
from baton.store.columns import EXACT
from baton.verdict import RowErrors, bounded, scaled

Tested = Callable[[Candidate, Candidate, float, float], Open]  # two candidates and their scores


def by_answers(wanted: Sequence[Setting], store: Store, by: Measure) -> Tested:
    """From the answers of their final models to each row; where these cannot be had, from the accuracies."""
    rough, source = by_accuracy(wanted[0], by), answers.source(store)

    def errors(candidate: Candidate) -> Mapping[int, RowErrors | str]:
        own = [s for s in wanted if (s.algorithm, s.lr, s.clip) == candidate[:3]]
        found = source(own, by.metric)
        return {s.seed: found[s.run_id] for s in own}

    def tested(one: Candidate, other: Candidate, first: float, second: float) -> Open:
        if by.metric in EXACT:
            return None
        sides = [(c, errors(c)) for c in (one, other)]
        why = next((x for _, side in sides for x in side.values() if isinstance(x, str)), "")
        if why:
            return rough(one, other, first, second) if by.metric == "test_accuracy" else why
        return _scaled(*sides[0], by), _scaled(*sides[1], by)

    return tested


def _scaled(candidate: Candidate, errors: Mapping[int, RowErrors | str], by: Measure) -> dict[int, RowErrors]:
    """By seed; on the scale of the scores."""
    scores, known = candidate.scores(by), {seed: x for seed, x in errors.items() if isinstance(x, RowErrors)}
    return {seed: scaled(x, 10.0 ** scores[seed], 0.0) if by.log else x for seed, x in known.items() if seed in scores}


def by_accuracy(setting: Setting, by: Measure) -> Tested:
    """As if both erred independently of each other, which is at most what they do."""
    if by.metric in EXACT:
        return lambda *_: None
    try:
        n = len(datasets.load(setting.dataset, setting.clients).test_y) if by.metric == "test_accuracy" else 0
    except BadInput:  # the data are not here
        n = 0
    unknown = "what other test rows would have given is not known here"
    return lambda _one, _other, first, second: bounded(first, second, n) if n else unknown
