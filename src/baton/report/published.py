"""The paper's own results at each value of the swept field, to be drawn beside ours."""

from baton.report.grid import Panel, Published
from baton.report.tables import valued
from baton.search import match
from baton.study import Study


def results(study: Study, panel: Panel) -> Published:
    """Nothing where the study is beside no table, was scaled, or sweeps what the table does not have."""
    if not study.report.paper or study.shrunk or not study.swept:
        return {}
    table = match.table(study)
    if any(field not in table[0] for field in study.swept):
        return {}
    found: Published = {}
    for line, settings in panel.settings.items():
        theirs = match.alike(study, table, settings[0], study.swept)
        for value, own in valued(study, settings).items():
            for row in match.at_value(theirs, own[0], study.swept):
                if row["mean"] is not None:
                    found.setdefault(line, {})[value] = row["mean"]
    return found
