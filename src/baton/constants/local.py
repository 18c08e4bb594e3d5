"""What the assumptions' constants would have to be at single points: local estimates, since they are for all x."""

from collections.abc import Mapping

import torch
from torch import Tensor

from baton.constants import envelope
from baton.constants.found import LOCAL, Constant, mean
from baton.constants.sampled import Sampled
from baton.constants.view import Eigen, Point, View
from baton.constants.work import Work


def local(
    view: View | Sampled, at: list[tuple[str, Tensor]], jobs: Mapping[str, float], work: Work
) -> tuple[dict[str, Constant], list[Point]]:
    """The largest over the points, and the line above the gradients' diversity there. jobs: what each may take."""
    points: list[Point] = []
    eigen: dict[str, list[Eigen]] = {"L": [], "delta": []}
    variance: list[tuple[Tensor, float]] = []
    for where, x in at:
        for job, expected in jobs.items():
            with work.at(f"{'gradients' if job == 'points' else job} at {where}", expected):
                if job == "points":
                    points.append(view.point(where, x))
                elif job == "sigma2":
                    variance.append(view.variances(x))
                else:
                    eigen[job].append(view.hessians(x) if job == "L" else view.differences(x))
    found = {f"{name}_local": _largest(view, values) for name, values in eigen.items() if values}
    found |= _noise(view, variance) if variance else {}
    return found | (_line(points) if points else {}), points


def _largest(view: View | Sampled, found: list[Eigen]) -> Constant:
    """The interval begins at the value: a Rayleigh quotient is never above the eigenvalue it is for."""
    value, error = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Constant(
        float(value.max()), LOCAL, float(value.max()), float((value + error).max()), note=f"largest {view.few}"
    )


def _noise(view: View | Sampled, found: list[tuple[Tensor, float]]) -> dict[str, Constant]:
    top = max(float(each.max()) for each, _ in found)
    each, drawn = max(found, key=lambda pair: float(pair[0].mean()))
    value, error = mean(each, view.objective.clients)
    both = ((error or 0.0) ** 2 + drawn**2) ** 0.5
    how = f", {view.draws} minibatches each" if drawn else ""
    return {
        "sigma2_local": Constant(top, LOCAL, note=f"largest {view.few}{how}"),
        "sigma2_local_mean": Constant(value, LOCAL, error=both or None, note=f"mean {view.few}{how}"),
    }


def _line(points: list[Point]) -> dict[str, Constant]:
    gradients, diversity = [p.gradient2 for p in points], [p.diversity for p in points]
    beta2, zeta2 = envelope.line(gradients, diversity)
    errors = [p.error for p in points if p.error is not None]
    slope, height = "slope of the line over the points, lowest on average", "its height at grad F = 0"
    if any(p.gradient2_error for p in points):  # places on the axis are estimates too, so a slope may be anything
        each = [(p.gradient2_error or 0.0, p.error or 0.0) for p in points]
        ends = envelope.interval(gradients, diversity, each)
        ends = [(min(low, at), max(high, at)) for (low, high), at in zip(ends, (beta2, zeta2), strict=True)]
        return {
            "beta2_local": Constant(beta2, LOCAL, *ends[0], note=slope),
            "zeta2_local": Constant(zeta2, LOCAL, *ends[1], note=height),
        }
    return {
        "beta2_local": Constant(beta2, LOCAL, note=slope),
        "zeta2_local": Constant(zeta2, LOCAL, error=max(errors) if errors else None, note=height),
    }
