"""How often a probe names the winner: a study's stored runs, their beginnings taken for the probe."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from baton.advice import probe
from baton.advice.measure import Measure, of_study
from baton.advice.tested import by_accuracy
from baton.advice.verdict import CLEAR, CLOSE, NONE, Candidate, Verdict, mean, side, verdict
from baton.search import reader
from baton.search.rules import MISSING, Read, shorter
from baton.setting import Setting
from baton.store import Store
from baton.study import Study
from baton.study.fields import value
from baton.study.measured import averaged

FREE = ("algorithm", "lr", "clip", "seed")  # in which the runs of one setting differ


class Hit(NamedTuple):
    """One setting: what the probe says, and what the full runs came to."""

    group: str
    fields: dict[str, Any]  # that tell it from the others of its group
    rounds: int  # of the probe
    seeds: int  # of the probe
    probe: Verdict
    full: Verdict
    lost: float | None  # in the full run, by taking the probe's candidate and not the best one; None: it diverges

    @property
    def decided(self) -> bool:
        """Whether one of the full runs is ahead, by more than the margin."""
        return self.full.sure not in (CLOSE, NONE)

    @property
    def hit(self) -> bool:
        """Whether the probe names who wins."""
        return self.full.winner is not None and self.probe.winner == self.full.winner

    @property
    def spoken(self) -> bool:
        """Whether the probe said more than that it is too close to call."""
        return self.probe.sure == CLEAR


class Hits(NamedTuple):
    """All settings of a study whose grids are in the store."""

    by: Measure
    rows: list[Hit]
    left_out: int  # settings without whole grids


def hits(study: Study, store: Store, part: float = 0.1, seeds: int = 3) -> Hits:
    """Nothing is trained. The probe has up to `seeds` of the seeds for which the whole grid is there."""
    by = of_study(study)
    probe.check(part, seeds)
    read = reader(store, by.metric)
    pairs = _pairs(study)
    found = [_hit(study, group, own, read, by, part, seeds) for (group, _), own in pairs.items()]
    rows = [hit for hit in found if hit is not None]
    same = {group: _same([_fields(own) for (g, _), own in pairs.items() if g == group]) for group in study.groups}
    short = [hit._replace(fields={f: x for f, x in hit.fields.items() if f not in same[hit.group]}) for hit in rows]
    return Hits(by, short, len(pairs) - len(rows))


def counts(found: Hits) -> dict[str, int]:
    """Hits of all, of the decided, and of those where the probe dared to say; and whether its rates last."""
    decided = [hit for hit in found.rows if hit.decided]
    spoken = [hit for hit in decided if hit.spoken]
    pairs = [
        (early, late)
        for hit in found.rows
        for name in probe.SIDES
        if (early := hit.probe.sides[name].best) and (late := hit.full.sides[name].best)
    ]
    return {
        "settings": len(found.rows),
        "hits": sum(hit.hit for hit in found.rows),
        "decided": len(decided),
        "decided_hits": sum(hit.hit for hit in decided),
        "sequential": sum(hit.full.winner == "sequential" for hit in decided),
        "spoken": len(spoken),
        "spoken_hits": sum(hit.hit for hit in spoken),
        "rates": len(pairs),
        "same": sum(early[:3] == late[:3] for early, late in pairs),
        "larger": sum(early.lr > late.lr for early, late in pairs),
        "smaller": sum(early.lr < late.lr for early, late in pairs),
        "left_out": found.left_out,
    }


def _pairs(study: Study) -> dict[tuple[str, str], list[Setting]]:
    """Runs of both algorithms that differ in FREE only, and are among those the report chooses from."""
    among, over = study.report.among, study.report.over
    found: dict[tuple[str, str], list[Setting]] = {}
    for group, settings in study.groups.items():
        for s in settings:
            if probe.name(s.algorithm) in probe.SIDES and (not among or value(s, over) in among):
                found.setdefault((group, str(s.model_dump(exclude=set(FREE)))), []).append(s)
    return {key: own for key, own in found.items() if {probe.name(s.algorithm) for s in own} == set(probe.SIDES)}


def _hit(
    study: Study, group: str, settings: Sequence[Setting], read: Read, by: Measure, part: float, seeds: int
) -> Hit | None:
    """None where no seed has the whole grid of both algorithms."""
    every = list(dict.fromkeys(s.seed for s in settings))
    there = {s.key for s in settings if read(s, 1) is not MISSING}
    whole = [seed for seed in every if all(s.key in there for s in settings if s.seed == seed)]
    searched = _searched(study, whole)
    if not searched:
        return None
    rounds = probe.length(settings[0], by.metric, part)
    short = [shorter(s, rounds) for s in settings if s.seed in searched[:seeds]]
    tested = by_accuracy(settings[0], by)
    said = verdict(probe.candidates(short, read, by.metric, probe.last(short[0], by.metric)), by, tested)
    last = averaged(settings[0], by.metric, study.report.last)
    grid = probe.candidates([s for s in settings if s.seed in searched], read, by.metric, last)
    best = {(b.algorithm, b.lr, b.clip) for own in grid.values() if (b := side(own, by).best)}
    chosen = [s for s in settings if (s.algorithm, s.lr, s.clip) in best or not best]  # on all seeds that are there
    sides = probe.candidates(chosen, read, by.metric, last)
    return Hit(
        group, _fields(settings), rounds, len(searched[:seeds]), said, verdict(sides, by, tested), _lost(said, grid, by)
    )


def _searched(study: Study, whole: Sequence[int]) -> list[int]:
    """The seeds that choose the candidates: that of the search, or all of a study without one."""
    if study.tune is None:
        return list(whole)
    return [study.search_seed] if study.search_seed in whole else []


def _lost(said: Verdict, grid: dict[str, list[Candidate]], by: Measure) -> float | None:
    """How far the full runs of the advised candidate stay behind the best ones."""
    sound = {c[:3]: by.sign * by.scale(mean(c)) for own in grid.values() for c in own if not c.diverged}
    own = said.best or next((s.best for s in said.sides.values() if s.best), None)
    if own is None or own[:3] not in sound:
        return None
    return max(sound.values()) - sound[own[:3]]


def _fields(settings: Sequence[Setting]) -> dict[str, Any]:
    """What the runs of one setting share."""
    return settings[0].model_dump(exclude=set(FREE))


def _same(fields: Sequence[dict[str, Any]]) -> set[str]:
    """The fields that are equal in all."""
    return {name for name in (fields[0] if fields else {}) if len({str(each[name]) for each in fields}) == 1}
