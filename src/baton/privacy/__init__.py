"""Differential privacy of a leg's displacement: what is released of it, and what that gives away."""

from baton.privacy.accountant import ABSENT, DELTA, REPLACED, Spent, epsilon, loss, needed, noise_for, spent, turns
from baton.privacy.release import Draw, keyed, released, secret
from baton.privacy.rules import DP, Protection, build, noise_of, refuse

__all__ = [
    "ABSENT",
    "DELTA",
    "DP",
    "REPLACED",
    "Draw",
    "Protection",
    "Spent",
    "build",
    "epsilon",
    "keyed",
    "loss",
    "needed",
    "noise_for",
    "noise_of",
    "refuse",
    "released",
    "secret",
    "spent",
    "turns",
]
