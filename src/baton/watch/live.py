"""Studies as they stand: the page and its files, held in memory, made again whenever a run has moved."""

import json
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple

from baton.errors import BadInput
from baton.report import once, page, sheets
from baton.report.built import Built, build, table_files
from baton.report.reading import Reading
from baton.report.sheets import Sheet
from baton.search.past import look_back
from baton.simulate.answers import source
from baton.store import Store
from baton.study import Study

FIGURES = ("svg", "pdf", "png")
_DRAWING = Lock()  # matplotlib's style is the whole process's


class Made(NamedTuple):
    """The page at one moment."""

    version: int
    files: dict[str, Callable[[], bytes]]  # by name; made when they are asked for


class Live:
    """What the server gives out."""

    def __init__(self, studies: Sequence[Study], store: Store) -> None:
        """The runs of these studies, as they stand in the store."""
        once(studies)
        for study in studies:
            look_back(study.settings, store)
        self.studies, self.store = studies, Reading(store.root)
        self.answers = source(store)  # as the report's: on the same finished study both say the same
        self._ids = list({s.run_id: None for study in studies for s in study.settings})
        self._lock, self._error = Lock(), ""
        self._stamp = self._now()
        self._made = self._make()

    def look(self) -> Made:
        """The newest page; made again at most once a change."""
        with self._lock:
            stamp = self._now()
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._made, self._error = self._make(), ""
                except BadInput as error:  # the page stays as it was, and says so
                    self._error = str(error)
            return self._made

    def state(self) -> dict[str, Any]:
        """What the page asks for every two seconds."""
        version = self.look().version
        times = [stamp[0] for name, stamp in self._stamp.items() if name]
        return {"version": version, "newest": max(times) / 1e9 if times else None, "error": self._error}

    def _now(self) -> dict[str, tuple[int, ...]]:
        """When each run was written last, and under "" the journal."""
        found = {run_id: stamp for run_id in self._ids if (stamp := self.store.stamp(run_id))}
        journal = self.store.root / "journal.jsonl"
        return found | ({"": (journal.stat().st_mtime_ns,)} if journal.is_file() else {})

    def _make(self) -> Made:
        built = [build(study, self.store, live=True, answers=self.answers) for study in self.studies]
        missing = [s.run_id for each in built for choice in each.found.choices for s in choice.missing]
        self._ids = list(dict.fromkeys([*self._ids, *missing]))  # short runs of a search count too
        version = int(time.time() * 1000)
        files = [_files(each) for each in built]
        sections = [page.section(each, self.store, list(own)) for each, own in zip(built, files, strict=True)]
        numbers = page.figures(built)
        parts = {section["stem"]: page.fragment(section) for section in sections}
        fresh = {"version": version, "figures": numbers, "sections": parts}
        made = {name: make for own in files for name, make in own.items()}
        made["index.html"] = cache(partial(page.render, sections, numbers, version))
        made["fresh.json"] = cache(partial(_json, fresh))
        return Made(version, made)


def _files(built: Built) -> dict[str, Callable[[], bytes]]:
    """The files of a study by name; its figures are drawn when they are asked for."""
    made: dict[str, Callable[[], bytes]] = {}
    for sheet in built.sheets:
        for suffix in FIGURES:
            made[f"{sheets.name(built.study, sheet)}.{suffix}"] = cache(partial(_drawn, built, sheet, suffix))
    return made | {name: partial(bytes, data) for name, data in table_files(built).items()}


def _drawn(built: Built, sheet: Sheet, suffix: str) -> bytes:
    from baton.report import figures

    with _DRAWING:
        return figures.render(built.study, sheet, [suffix])[suffix]


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
