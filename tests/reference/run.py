"""A run of the reference: rounds, and what is measured of them."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baton.setting import Setting
from reference import averages, chains, controls, orders, others
from reference.federation import Cut, Federation
from reference.given import Given
from reference.measure import Columns, Measuring
from reference.method import Drawers, Method
from reference.problems import Array, Dense, Model, Quadratic

METHODS: dict[str, type[Method]] = {
    "sequential": chains.Sequential,
    "parallel": averages.Parallel,
    "fedprox": averages.FedProx,
    "scaffold": controls.Scaffold,
    "fednova": averages.FedNova,
    "feddyn": controls.FedDyn,
    "fedavgm": averages.FedAvgM,
    "fedadam": averages.FedAdam,
    "fedyogi": averages.FedYogi,
    "fedadagrad": averages.FedAdagrad,
    "pooled": others.Pooled,
    "alone": others.Alone,
    "fedseq": chains.FedSeq,
    "fedseqinter": chains.FedSeqInter,
    "feddc": chains.FedDC,
    "switch": others.Switch,
    "amplified": averages.Amplified,
    "amplified_scaffold": controls.AmplifiedScaffold,
    "pairgrab": orders.PairGraB,
    "flgrab": orders.FLGraB,
    "ewc": chains.EWC,
    "ssl": others.SSL,
    "splitfed": others.SplitFed,
}


class Outcome(NamedTuple):
    """What a run came to."""

    given: Given
    first: Array  # weights
    last: Array
    drawers: Drawers
    rounds: dict[int, Columns]  # evaluations, by round
    unsure: Columns  # by how much a column of accuracies may be off, for rows that are too close to call


def options(spec: str, between: str = ",") -> tuple[str, dict[str, object]]:
    """Read `name:key=value,key=value`; inside a switch + stands between them."""
    name, _, rest = spec.partition(":")
    found: dict[str, object] = {}
    if name == "switch":
        found = {"first": builder("sequential"), "then": builder("parallel")}
    for part in filter(None, rest.split(between)):
        key, _, value = part.partition("=")
        found[key] = builder(value, "+") if key in ("first", "then") else _number(value)
    return name, found


def builder(spec: str, between: str = ",") -> Callable[[Federation, Array], Method]:
    """Return what begins a method on a run."""
    name, more = options(spec, between)
    return lambda federation, x: METHODS[name](federation, x, **more)


def _number(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def model_of(given: Given) -> Model:
    """Return the setting's model."""
    name, more = options(given.setting.model.removeprefix("reference.problems:"))
    wide, out = given.train.x.shape[1], max(1, given.classes)
    if name == "quadratic":
        return Quadratic()
    if name == "logistic":
        return Dense((wide, out), "none", given.classes)
    if name == "mlp":
        return Dense((wide, int(str(more["hidden"])), out), "relu", given.classes)
    return Dense((wide, 1), "none", 2) if name == "one_logit" else Dense((wide, 4, 3, out), "tanh", given.classes)


def cut_of(given: Given) -> Cut | None:
    """Return the two sides of a model in split form: layers up to `cut`, and behind `head`, are the client's."""
    spec = given.setting.algorithm
    name, more = options(spec)
    if name == "switch":
        name, more = options(spec.partition("=")[2].partition(",")[0], "+")
    if name not in ("ssl", "splitfed"):
        return None
    first, last = int(str(more["cut"])), int(str(more.get("head", 10**6)))
    item, mine, outs = (8 if given.setting.dtype == "float64" else 4), [], {}
    for leaf, shape in given.leaves.items():
        layer = int(leaf.split(".")[0])
        mine.append(np.full(int(np.prod(shape)), layer <= first or layer > last))
        outs[layer] = shape[0]
    smashed = item * outs[max(layer for layer in outs if layer <= first)]
    up, down = smashed + 8, smashed  # a label takes 8 bytes
    if "head" in more:
        features = item * outs[max(layer for layer in outs if layer <= last)]
        up, down = smashed + features, features + smashed
    joint = more.get("clip", "joint") == "joint"
    return Cut(np.concatenate(mine), up, down, joint, int(str(more.get("passes", 0))))


def run(setting: Setting, slack: float = 1e-9, nudge: float = 0.0) -> Outcome:
    """Train a setting; slack: outputs that are closer to each other may go either way.

    nudge: by how much the first weights are moved, to see how much rounding matters.
    """
    given = Given(setting)
    model, first = model_of(given), given.first()
    first = first + nudge * np.maximum(1, np.abs(first)) * np.cos(np.arange(len(first)))
    federation = Federation(given, model, cut_of(given))
    method = builder(setting.algorithm)(federation, first)
    federation.sends = setting.algorithm not in ("alone", "pooled")
    federation.holder = method.ends(0)  # the very first model counts like any other
    measuring, found = Measuring(given, model, slack), {}

    def measure(number: int, order: list[int]) -> None:
        columns = measuring.away(method.x)
        if number % setting.eval_every == 0 or number == setting.rounds:
            columns |= measuring(method, number, order)
            ways = zip(("up", "down", "peer"), (federation.up, federation.down, federation.peer), strict=True)
            columns |= {f"bytes_{way}": float(count) for way, count in ways}
        if columns:
            found[number] = columns

    measure(0, given.order(0))
    for number in range(setting.rounds):
        before = copy.deepcopy(method, {id(federation): federation})
        federation.drawn = given.order(number)
        order = method.order(number, federation.drawn)
        federation.begin(number, order)
        method.round(number, order)
        federation.holder = method.ends(number)
        method = before if federation.aborted else method
        measure(number + 1, order)
    return Outcome(given, first, method.x, method.drawers(), found, measuring.unsure)
