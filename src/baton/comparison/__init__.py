"""Algorithms side by side, without a study file: seeds, searched rates, a table, a verdict."""

from baton.comparison.look import look
from baton.comparison.made import LAST, RATES, SEEDS, made, of_runs
from baton.comparison.result import Comparison, Line, Pair
from baton.comparison.trained import trained

__all__ = ["LAST", "RATES", "SEEDS", "Comparison", "Line", "Pair", "look", "made", "of_runs", "trained"]
