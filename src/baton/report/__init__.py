"""The report: figures, tables and a page from what the store holds."""

from collections.abc import Callable, Sequence
from pathlib import Path

from baton.errors import BadInput
from baton.ledger import Rates
from baton.measure.forgetting import Hops
from baton.report import cost, page, sheets, words
from baton.report.built import build, table_files
from baton.report.grid import Answers
from baton.search.past import look_back
from baton.setting import Setting
from baton.store import Store, write
from baton.study import Study

__all__ = ["report"]


def report(
    studies: Sequence[Study],
    store: Store,
    out: Path,
    bounds: bool = False,
    rates: Rates = Rates(),  # noqa: B008
    tell: Callable[[str], None] = lambda _line: None,
    hops: Callable[[Setting], list[Hops]] | None = None,
    answers: Answers | None = None,
) -> Path:
    """Write a folder that shows these studies, and return its index.html; bounds: with those of the theorems.

    Next to the page lie its figures (.svg, .pdf, .png) and tables (.csv, .md, .tex). Nothing is written unless all can
    be. rates: of the time model; tell: what to do with lines about how it goes; hops: of some rounds of a run, where a
    study asks for them; answers: what test rows leave open in a metric.
    """
    from baton.report import cost_figure, figures, overlaid
    from baton.report.extras import extras

    if out.exists() and not out.is_dir():
        raise BadInput(f"out: {str(out)!r} is a file; a folder is right")
    once(studies)
    tell(store.describe_earlier())
    for study in studies:
        look_back(study.settings, store)
    built = [build(study, store, answers=answers) for study in studies]
    sections, written = [], dict[str, bytes]()
    for each in built:
        own = table_files(each)
        static = {}
        for sheet in each.sheets:
            name = sheets.name(each.study, sheet)
            drawn = figures.render(each.study, sheet)
            static[name] = page.picture(drawn)
            own |= {f"{name}.{suffix}": data for suffix, data in drawn.items()}
        spent = cost.tables(each.study, each.panels, rates)
        if spent:
            drawn = cost_figure.render(each.study, each.panels, rates)
            own |= spent | {f"{each.stem}-cost.{suffix}": data for suffix, data in drawn.items()}
            static[f"{each.stem}-cost"] = page.picture(drawn)
        section = page.section(each, store, list(own), static, rates)
        section["extras"], more = extras(each, store, rates, hops)
        own |= more
        if bounds:
            proved = overlaid.files(each.study, each.stem, store)
            section["bounds"] = page.still(proved, f"{each.stem}-bounds", "Measured against proved", overlaid.NOTE)
            own |= proved
        sections.append(section)
        written |= own
    written["index.html"] = page.render(sections, page.figures(built))
    out.mkdir(parents=True, exist_ok=True)
    for name, data in written.items():
        write(out / name, data)
    return out / "index.html"


def once(studies: Sequence[Study]) -> None:
    """Studies whose files would have the same names cannot be shown together."""
    stems = [words.stem(study.name) for study in studies]
    for study, stem in zip(studies, stems, strict=True):
        if stems.count(stem) > 1:
            raise BadInput(f"report: study {study.name!r} is given twice; each name once is right")
