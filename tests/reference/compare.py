"""Hold runs of Baton to the reference."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

import baton
from baton.trained import Run
from reference.problems import Array
from reference.run import Outcome, run

EXACT, SINGLE = 1e-9, 5e-3  # largest distance from the reference, in the largest movement of a parameter


class Difference(NamedTuple):
    """Where a run and the reference are apart."""

    setting: baton.Setting
    what: str
    run: float | None
    reference: float

    def __str__(self) -> str:
        given = {f: x for f, x in self.setting.model_dump().items() if x != type(self.setting).model_fields[f].default}
        return f"{self.what}: {self.run}, reference {self.reference}\n  Setting(**{given})"

    @classmethod
    def of_arrays(cls, setting: baton.Setting, what: str, run: Array, reference: Array) -> "Difference":
        """Say where two arrays are furthest apart."""
        at = np.unravel_index(np.abs(run - reference).argmax(), run.shape)
        return cls(setting, f"{what}{list(map(int, at))}", float(run[at]), float(reference[at]))


class Result(NamedTuple):
    """What comparing one run found."""

    differences: list[Difference]
    distance: float  # of the models, in the largest movement of a parameter
    compared: bool  # False: rounding decides where the run ends


def compare(settings: list[baton.Setting], folder: Path) -> list[Result]:
    """Train settings together, and compare each with the reference."""
    runs = baton.run(settings, runs=folder, quiet=True, device="cpu", cores=1)
    return [_compare(one, folder) for one in runs]


def _compare(one: Run, folder: Path) -> Result:
    s = one.setting
    single = s.dtype == "float32"
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = run(s, 1e-2 if single else 1e-7)
    moved = float(np.abs(wanted.last - wanted.first).max())
    size = max(1.0, float(np.abs(wanted.last).max()))
    if not np.isfinite(wanted.last).all() or size > 1e3:
        return Result([], 0.0, False)
    most = SINGLE * moved + 3e-6 * size if single else EXACT * moved + 1e-13 * size
    found: list[Difference] = []
    given, stored = wanted.given, load_file(folder / one.id / "state.safetensors")
    last = given.flat({name: stored[name] for name in given.leaves})
    far = float(np.abs(last - wanted.last).max())
    if not far <= most:
        found.append(Difference.of_arrays(s, "model", last, wanted.last))
    for prefix, drawer in wanted.drawers.items():
        kept = given.flat({name: stored[prefix + name] for name in given.leaves})
        if not np.allclose(kept, drawer, rtol=0, atol=_slack(drawer, most, single)):
            found.append(Difference.of_arrays(s, prefix, kept, drawer))
    found += _columns(one, wanted, single)
    if found and _rounding_decides(s, wanted, most, single):
        return Result([], 0.0, False)
    return Result(found, far / moved if moved else 0.0, True)


def _rounding_decides(s: baton.Setting, wanted: Outcome, most: float, single: bool) -> bool:
    """Return whether the reference itself ends elsewhere if it begins a few roundings away."""
    nudged = run(s, nudge=1e-6 if single else 1e-14)
    return not np.abs(nudged.last - wanted.last).max() <= most / 3


def _slack(drawer: np.ndarray, most: float, single: bool) -> float:
    return max(most, (2e-2 if single else 1e-7) * float(np.abs(drawer).max(initial=0)))


def _columns(one: Run, wanted: Outcome, single: bool) -> list[Difference]:
    found, at = [], {int(number): i for i, number in enumerate(one.metrics["round"])}
    for number, columns in wanted.rounds.items():
        for name, value in columns.items():
            told = float(one.metrics[name][at[number]]) if number in at and name in one.metrics else None
            slack = (5e-3 if single else 1e-8) * max(1.0, abs(value)) + wanted.unsure.get(name, 0.0)
            slack = 0.0 if name.startswith("bytes") else slack
            if told is None or not (abs(told - value) <= slack or (np.isnan(told) and np.isnan(value))):
                found.append(Difference(one.setting, f"{name} of round {number}", told, value))
    return found
