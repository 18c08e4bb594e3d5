"""What the store holds of a comparison."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from baton import report as reports
from baton.comparison.result import Comparison, compared
from baton.errors import BadInput
from baton.report.built import build
from baton.setting import Setting
from baton.simulate import answers
from baton.store import Store
from baton.study import Study
from baton.verdict import RowErrors


def look(study: Study, store: Store, out: Path | None = None, typed: bool = True) -> Comparison:
    """Its lines and its verdict, and its page where a folder is given; typed: its settings are not a store's."""
    known = answers.source(store)

    def here(settings: Sequence[Setting], metric: str) -> Mapping[str, RowErrors | str]:
        return known([s for s in settings if typed or _here(s)], metric)

    found = compared(build(study, store, answers=here))
    return found._replace(page=reports.report([study], store, out, answers=here) if out else None)


def _here(setting: Setting) -> bool:
    """Whether a stored run's data are those that are here; a user's own code is not imported to find out."""
    with suppress(BadInput):
        return not setting.paths and Setting(**setting.model_dump()).made_of == setting.made_of
    return False
