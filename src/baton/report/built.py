"""A study with all that is shown of it."""

from typing import NamedTuple

from baton.report import compare, grid, latex, layout, tables, verdicts, words
from baton.report.grid import Answers, Found, Panel
from baton.report.sheets import Sheet, sheets
from baton.search import extended
from baton.store import Store
from baton.study import Study


class Built(NamedTuple):
    """A study's runs, panels and figures."""

    study: Study
    stem: str  # of its files
    found: Found
    panels: list[Panel]
    sheets: list[Sheet]
    beside: list[compare.Row] | None  # ours and the paper's


def build(study: Study, store: Store, live: bool = False, answers: Answers | None = None) -> Built:
    """What the store holds of a study, in order; answers: what test rows leave open, to tell lines apart."""
    found = grid.load(study, store, live)
    study = extended(study, found.choices)
    panels = grid.panels(study, found)
    panels = grid.judged(study, panels, found, answers) if answers else panels
    beside = compare.rows(study, panels, found)
    return Built(study, words.stem(study.name), found, panels, sheets(study, panels), beside)


def table_files(built: Built) -> dict[str, bytes]:
    """Every table of a study as files, by name."""
    study, panels, found = built.study, built.panels, built.found
    rows = tables.rows(study, panels)
    return {
        f"{built.stem}.csv": tables.to_csv(study, rows),
        f"{built.stem}.md": tables.to_md(study, rows),
        **tables.search_files(study, found),
        **layout.files(study, panels),
        **verdicts.files(study, panels),
        **latex.files(study, panels, found),
        **compare.files(study, built.beside),
    }
