"""What candidates are compared by: a metric, which end of it is better, on which scale, and how much matters."""

import math
from typing import NamedTuple

from baton import datasets
from baton.setting import Setting
from baton.store.columns import EXACT
from baton.study import Study

FLOOR = {"distance": 1e-14, "objective_gap": 1e-28}  # below it a quadratic's optimum is reached, up to rounding
POINT = 1.0  # of accuracy: less is no win in the paper's tables either


class Measure(NamedTuple):
    """How two scores are compared."""

    metric: str
    sign: int  # 1: larger is better, -1: smaller is
    log: bool  # compared by powers of ten
    margin: float  # a difference up to here does not matter; in decades where log

    def scale(self, value: float) -> float:
        """A value of the metric as it is compared."""
        return math.log10(max(value, FLOOR.get(self.metric, 1e-300))) if self.log else value


def of_setting(setting: Setting) -> Measure:
    """Distance to the optimum where it is known, else test accuracy, else test loss."""
    data = datasets.load(setting.dataset, setting.clients)
    if data.optimum is not None:
        return Measure("distance", -1, True, 0.0)
    return Measure("test_accuracy", 1, False, POINT) if data.classes else Measure("test_loss", -1, True, 0.0)


def of_study(study: Study) -> Measure:
    """As the study's [report] has it; on a log scale a margin has no fixed size."""
    report = study.report
    log = report.log or report.metric in EXACT
    return Measure(report.metric, report.sign, log, 0.0 if log else report.margin)
