"""The constants of the paper's assumptions, measured on a setting's own problem; each says what kind of value it is."""

from baton.constants.found import BOUND, ESTIMATE, EXACT, LOCAL, UNDEFINED, Constant, Tell, silent
from baton.constants.measure import NAMES, Measured, measure
from baton.constants.objective import Objective
from baton.constants.symbols import symbols
from baton.constants.view import Point

__all__ = [
    "BOUND",
    "ESTIMATE",
    "EXACT",
    "LOCAL",
    "NAMES",
    "UNDEFINED",
    "Constant",
    "Measured",
    "Objective",
    "Point",
    "Tell",
    "measure",
    "silent",
    "symbols",
]
