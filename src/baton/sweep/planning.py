"""What a sweep is going to do: runs grouped into programs, and those cut into chunks that fit the memory."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from baton.clients import steps
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.arithmetic import cores
from baton.simulate.program import Nets
from baton.store import Store


class Cut(NamedTuple):
    """How fine the work is cut, for those who share it. The bytes of a run may depend on it, as on its chunk."""

    parts: int = 1  # chunks there should be at least, of about equal work
    cores: int = 0  # that a chunk takes on a CPU; 0: as many as it can use


class Plan(NamedTuple):
    """What a sweep is going to do."""

    chunks: list[list[Setting]]
    done: int  # runs that are complete already
    programs: int
    memory: int
    per_lane: list[int]  # bytes, one entry a program
    share: list[float]  # of the device, one entry a chunk: small ones train side by side
    begun: list[int]  # rounds done by a shorter run in the store, one entry a chunk
    needs: list[int]  # bytes, one entry a chunk


def plan(
    settings: Sequence[Setting],
    store: Store,
    device: torch.device,
    memory: int | None,
    precision: str = "fp32",
    cut: Cut = Cut(),  # noqa: B008 it never changes
) -> Plan:
    """Runs of equal shape_key become lanes of one program, cut evenly into chunks that fit.

    Runs whose beginning is in the store go on from it, together with those that do so from the same round. Loads every
    data set and draws every partition, so that what cannot work is said before anything trains.
    """
    budget = memory or mem.free(device)
    todo = [s for s in settings if not store.complete(s.run_id)]
    begun = store.begun(todo, precision)
    programs: dict[tuple[str, int], list[Setting]] = {}
    for setting in todo:
        programs.setdefault((setting.shape_key, begun[setting.run_id]), []).append(setting)
    chunks: list[list[Setting]] = []
    sizes: list[int] = []
    needs: list[int] = []  # bytes, one entry a chunk
    widths: list[float] = []  # of the device
    work = sum(map(steps, todo)) if cut.parts > 1 else 0
    nets = Nets()
    for lanes in programs.values():
        need = mem.needed(lanes, budget, device, nets)
        sizes.append(need.bytes)
        count = -(-len(lanes) // mem.lanes_that_fit(sizes[-1], budget))
        if work:
            count = max(count, min(len(lanes), -(-cut.parts * sum(map(steps, lanes)) // work)))
        chunks += [lanes[len(lanes) * i // count : len(lanes) * (i + 1) // count] for i in range(count)]
        needs += [sizes[-1] * len(chunk) for chunk in chunks[len(needs) :]]
        widths += [_width(need.legs * len(chunk), device, cut) for chunk in chunks[len(widths) :]]
    share = [min(1.0, max(width, need / budget)) for width, need in zip(widths, needs, strict=True)]
    if sum(s < 1 for s in share) < 2 and not cut.cores:
        share = [1.0] * len(chunks)  # the only small one may have it all
    order = sorted(range(len(chunks)), key=lambda i: -share[i])  # the small ones last, together
    laid, parts = [chunks[i] for i in order], [share[i] for i in order]
    rounds = [begun[chunk[0].run_id] for chunk in laid]
    done = len(settings) - len(todo)
    return Plan(laid, done, len(programs), budget, sizes, parts, rounds, [needs[i] for i in order])


def _width(legs: int, device: torch.device, cut: Cut) -> float:
    """The part of the device that so many legs at once keep busy: a core each; a GPU takes some fifty."""
    return (cut.cores or legs) / cores() if device.type == "cpu" else legs / 48
