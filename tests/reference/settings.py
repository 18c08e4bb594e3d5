"""Random settings: every method, on small data sets of each kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import baton
from reference.run import METHODS

Draw = Callable[[st.SearchStrategy[Any]], Any]
Spec = Callable[[], str]  # draws a lane's own options into what its program has in common

TANH, LOGIT = "reference.problems:tanh_net", "reference.problems:one_logit"


def _data(classes: int, rows: int, seed: int, sites: int = 0, weighted: bool = False) -> baton.Data:
    """Build rows of five normal numbers; classes, or with 0 numbers to predict."""
    r = np.random.default_rng(seed)
    x = r.normal(size=(rows + 20, 5)).astype(np.float32)
    score = x @ r.normal(size=(5, max(2, classes))) + r.normal(size=(rows + 20, max(2, classes)))
    y = score.argmax(1) if classes else score[:, 0].astype(np.float32)
    owner = r.choice(sites, size=rows + 20, p=np.arange(1, sites + 1) / sum(range(sites + 1))) if sites else None
    test = (x[rows:], y[rows:]) if owner is None else (x[rows:], y[rows:], owner[rows:])
    weight = r.choice([0.0, 0.5, 1.0, 3.0], size=rows) if weighted else None
    return baton.Data(x[:rows], y[:rows], sites=None if owner is None else owner[:rows], test=test, weight=weight)


DATA = {
    "three": _data(3, 90, 1),
    "two": _data(2, 60, 2, sites=4),
    "numbers": _data(0, 70, 3),
    "weighted": _data(3, 80, 4, weighted=True),
}
SPLIT = ("ssl", "splitfed")


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    """Return one of a few values."""
    return st.sampled_from(values)


@st.composite
def programs(
    draw: Draw, least: int = 1, most: int = 3, methods: tuple[str, ...] = tuple(METHODS)
) -> list[baton.Setting]:
    """Draw settings that train together: they differ in their seeds, rates and other numbers of a lane."""
    method = draw(st.sampled_from(methods))
    kind = draw(one_of("three", "three", "two", "numbers", "weighted", "quadratic", "quadratic_random"))
    if kind.startswith("quadratic") and method in SPLIT:
        kind = "three"
    base, partitions = _samples(draw, kind, method)
    clients = base["clients"]
    base["participants"] = turns = draw(st.integers(1, clients))
    base["rounds"] = rounds = draw(st.integers(1, 7))
    base["eval_every"] = draw(st.integers(1, 4))
    base["batch_size"] = draw(one_of(1, 2, 5, 8, 100))
    layers = not kind.startswith("quadratic")
    can_be_cut = method in SPLIT or (method == "switch" and layers and draw(st.integers(0, 5)) == 5)
    split = _split(draw, base["model"]) if can_be_cut else ""
    if "clients_have_classes" in base:
        base["sampling"] = draw(one_of("shuffle", "shuffle", "replacement", "balanced"))
        del base["clients_have_classes"]
    else:
        base["sampling"] = draw(one_of("shuffle", "shuffle", "replacement"))
    if draw(one_of(0, 0, 1)) and "passes" not in split:
        base["epochs"] = draw(st.integers(1, 2))
    else:
        base["local_steps"] = draw(st.integers(1, 6))
    if draw(one_of(0, 0, 1)) and method != "pooled":
        base["failures"] = draw(one_of("share:p=0.1", "share:p=0.4", "clients:who=0,p=0.7"))
        policies = ["skip", "abort", "abort", "retry:times=1"]
        base["on_failure"] = draw(one_of(*policies, *([] if method == "alone" else ["reroute:times=1", "reroute"])))
    spec = _method(draw, method, turns, rounds, split)
    base["schedule"] = _schedule(draw, clients, turns, spec())
    lanes = []
    for _ in range(draw(st.integers(least, most))):
        lane = {
            "seed": draw(st.integers(0, 10**6)),
            "partition": draw(st.sampled_from(partitions)),
            "lr": draw(one_of(0.01, 0.03, 0.1, 0.2)),
            "clip": draw(one_of(0.0, 0.0, 0.3, 1.0)),
            "weight_decay": draw(one_of(0.0, 0.01, 0.1)),
            "momentum": draw(one_of(0.0, 0.0, 0.5, 0.9)),
            "lr_schedule": draw(
                one_of("constant", "constant", "step:every=2,factor=0.5", "exponential:factor=0.8", "cosine:over=3")
            ),
            "algorithm": spec(),
        }
        lanes.append(baton.Setting(**base, **lane))
    return lanes


def _samples(draw: Draw, kind: str, method: str) -> tuple[dict[str, Any], list[str]]:
    """Draw the data set, its model, M, and who may hold what."""
    if kind == "quadratic":
        spec = draw(one_of("quadratic:zeta=1,delta=0.5", "quadratic:zeta=2,delta=1"))
        return {"dataset": spec, "model": "quadratic:start=3", "clients": 2, "dtype": "float64"}, ["natural"]
    if kind == "quadratic_random":
        clients = draw(st.integers(2, 6))
        spec = "quadratic_random:dim=3,L=4"
        return {"dataset": spec, "model": "quadratic:start=3", "clients": clients, "dtype": "float64"}, ["natural"]
    models = ["mlp:hidden=6,dropout=0", "mlp:hidden=3,dropout=0", TANH]
    models += [] if method in SPLIT or method == "switch" else ["logistic", *([LOGIT] if kind == "two" else [])]
    base = {"dataset": DATA[kind], "model": draw(st.sampled_from(models))}
    base["metrics"] = draw(one_of("none", "mse,mae,r2" if kind == "numbers" else "accuracy"))
    base["dtype"] = draw(one_of("float32", "float64"))
    base["validation"] = draw(one_of(0.0, 0.0, 0.25))
    if kind == "two" and draw(st.booleans()):
        return {**base, "clients": 4, "clients_have_classes": True}, ["natural"]
    base["clients"] = draw(st.integers(2, 7))
    if kind == "numbers":
        return base, ["iid", "iid:seed=1"]
    base["clients_have_classes"] = True
    partitions = ["iid", "dirichlet:alpha=0.3", "dirichlet:alpha=1,seed=3", "classes:C=2", "shards:n=2"]
    if base["clients"] > 2:
        partitions += ["classes:C=1", "exdir:C=1,alpha=1,min_samples=0"]  # with the second, some clients hold nothing
    return base, partitions


def _schedule(draw: Draw, clients: int, turns: int, spec: str) -> str:
    names = ["shuffled", "shuffled", "fixed", "incremental", "once", "reshuffled", "flipflop", "sized"]
    chain = spec.startswith("scaffold") and "of=sequential" in spec
    if chain or not ("scaffold" in spec or "feddyn" in spec):  # whose clients keep one leg a round
        names.append("replacement")
    names += [f"cyclic:groups={g}" for g in (2, 3) if clients // g >= turns]
    names += [f"grouped:each={e},by={by}" for e in (1, 2) if turns % e == 0 for by in ("random", "size", "labels")]
    return str(draw(st.sampled_from([*names, "markov", "markov:share=0.3,stay=2"])))


def _split(draw: Draw, model: str) -> str:
    """Draw where a model is cut, and how it is clipped."""
    own = model == TANH
    spec = f"cut={draw(one_of(1, 2, 3, 4) if own else one_of(1, 2, 3))}"
    if own and draw(st.booleans()):
        spec = f"cut={draw(one_of(1, 2))},head={draw(one_of(3, 4))}"
    spec += draw(one_of("", ",clip=per_side"))
    return spec + draw(one_of("", "", ",passes=1"))


def _method(draw: Draw, name: str, turns: int, rounds: int, split: str = "") -> Spec:
    """Draw the options that lanes have in common; the function draws a lane's own."""
    some = {
        "weighting": draw(one_of("", "uniform", "size")),
        "of": draw(one_of("", "parallel", "sequential")),
        "groups": str(draw(st.integers(1, turns))),
        "every": str(draw(st.integers(1, 4))),
        "swap": str(draw(st.integers(1, 3))),
    }
    if some["of"] == "sequential" and some["weighting"] == "size":
        some["weighting"] = ""
    own: dict[str, st.SearchStrategy[Any]] = {}
    server_lr = {"server_lr": one_of(1.0, 1.0, 0.5, 1.3)}
    fixed: dict[str, Any] = {}
    if name == "sequential":
        fixed = draw(one_of({}, {}, {"last": draw(st.integers(1, turns))}, {"ema": 0.4}))
        own = {"mu": one_of(0.0, 0.5), "decay": one_of(1.0, 0.8)}
    elif name in ("parallel", "fednova"):
        fixed, own = _of(some, "weighting"), server_lr
    elif name == "fedprox":
        fixed, own = _of(some, "weighting"), {"mu": one_of(0.0, 0.1, 1.0)}
    elif name == "scaffold":
        fixed, own = _of(some, "weighting", "of"), server_lr
        if some["of"] != "sequential":
            fixed["option"] = draw(one_of(1, 2))
    elif name == "feddyn":
        fixed, own = _of(some, "weighting"), {"alpha": one_of(0.05, 0.3, 1.0)}
    elif name == "fedavgm":
        fixed, own = _of(some, "weighting", "of"), {**server_lr, "beta": one_of(0.0, 0.5, 0.9)}
    elif name in ("fedadagrad", "fedadam", "fedyogi"):
        fixed = _of(some, "weighting", "of")
        own = {"server_lr": one_of(0.01, 0.1), "beta1": one_of(0.0, 0.9), "tau": one_of(0.001, 0.1)}
        own |= {} if name == "fedadagrad" else {"beta2": one_of(0.5, 0.99)}
    elif name == "fedseq":
        fixed = _of(some, "weighting", "groups")
    elif name == "fedseqinter":
        fixed = _of(some, "weighting", "groups", "every")
    elif name == "feddc":
        fixed = _of(some, "weighting", "every", "swap")
    elif name == "amplified":
        fixed, own = _of(some, "weighting", "of", "every"), server_lr
    elif name == "amplified_scaffold":
        fixed, own = _of(some, "every"), server_lr
    elif name == "flgrab":
        fixed = _of(some, "weighting")
    elif name == "ewc":
        own = {"strength": one_of(0.0, 0.5, 5.0), "keep": one_of(0.0, 0.9, 1.0)}
    elif name == "ssl":
        relay = draw(one_of("", ",relay=server"))
        return lambda: f"ssl:{split}{relay}"
    elif name == "splitfed":
        more = f",weighting={some['weighting']}" if some["weighting"] else ""
        version = draw(one_of(1, 2))
        return lambda: f"splitfed:{split},version={version}{more}"
    elif name == "switch":
        return _switch(draw, turns, rounds, split)

    def spec() -> str:
        every = [f"{key}={value}" for key, value in {**fixed, **{k: draw(s) for k, s in own.items()}}.items()]
        return name + (":" + ",".join(every) if every else "")

    return spec


def _switch(draw: Draw, turns: int, rounds: int, split: str) -> Spec:
    """Draw two methods; of a model that is cut, both cut it alike."""
    outside = ("switch", "alone", "pooled", *SPLIT)
    inside = SPLIT if split else tuple(name for name in METHODS if name not in outside)
    first, then = (_method(draw, draw(st.sampled_from(inside)), turns, rounds, split) for _ in range(2))
    after = draw(st.integers(0, rounds))

    def spec() -> str:
        one, two = (method().replace(",", "+") for method in (first, then))
        return f"switch:first={one},then={two},after={after}"

    return spec


def _of(some: dict[str, str], *names: str) -> dict[str, Any]:
    return {name: some[name] for name in names if some[name]}
