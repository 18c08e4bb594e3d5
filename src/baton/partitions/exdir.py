"""Extended Dirichlet, ExDir(C, alpha): first C classes a client, then each class in Dirichlet proportions."""

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput
from baton.partitions.dirichlet import deal, proportions

TRIES = 200
ALLOCATIONS = 1 << 17  # class allocations tried: with M = classes and C = 1 one in 2,800 gives every class a client


def exdir(
    labels: NDArray[np.int64],
    clients: int,
    *,
    C: int,
    alpha: float,
    form: str = "balanced",
    min_samples: int = 10,
    seed: int = 0,
) -> NDArray[np.int64]:
    """labels [N] -> owner [N].

    form=plain is the paper's text: p_c ~ Dir(alpha q_c), class c cut in these proportions among the clients that hold
    it. form=balanced is what the published runs used: a client that already holds its fair share N/M takes no more of
    the later classes. Both are drawn again, allocation included, until every client has min_samples samples and every
    class enough clients. A client may end with fewer than C classes where its proportion of one rounds to nothing.
    """
    classes = int(labels.max()) + 1
    _check(len(labels), clients, classes, C, alpha, form, min_samples)
    generator = np.random.default_rng([seed, 2])
    fewest = 0
    for _ in range(TRIES):
        holds = allocate(generator, clients, classes, C)
        owner = deal(generator, labels, holds, alpha) if form == "plain" else _balanced(generator, labels, holds, alpha)
        smallest = int(np.bincount(owner, minlength=clients).min())
        if smallest >= min_samples:
            return owner
        fewest = max(fewest, smallest)
    raise BadInput(
        f"partition: exdir:C={C},alpha={alpha:g} left a client with {fewest} < min_samples={min_samples} samples in "
        f"{TRIES} draws over {clients} clients; take a larger alpha, fewer clients or a smaller min_samples"
    )


def allocate(generator: np.random.Generator, clients: int, classes: int, C: int) -> NDArray[np.bool_]:
    """C different classes for each client, uniformly, given that each class has max(C M / classes / 5, 1) clients."""
    least = max(C * clients / classes / 5, 1)
    block = max(1, min(2048, 4_000_000 // (clients * classes)))
    for _ in range(max(1, min(ALLOCATIONS // block, 64))):
        draw = generator.random((block, clients, classes))
        chosen = np.argpartition(draw, C - 1, axis=2)[:, :, :C] if classes > C else np.argsort(draw, axis=2)
        holds = np.zeros((block, clients, classes), dtype=bool)
        np.put_along_axis(holds, chosen, True, axis=2)
        good = np.flatnonzero((holds.sum(1) >= least).all(1))
        if len(good):
            first: NDArray[np.bool_] = holds[good[0]]
            return first
    raise BadInput(
        f"partition: exdir:C={C} found no allocation over {clients} clients that gives each of the {classes} classes "
        f"at least {least:g} clients; take more clients or a larger C"
    )


def _balanced(
    generator: np.random.Generator, labels: NDArray[np.int64], holds: NDArray[np.bool_], alpha: float
) -> NDArray[np.int64]:
    """The Dirichlet step in which a client that already holds N/M samples takes no more; leftovers to the last."""
    clients, classes = holds.shape
    owner = np.full(len(labels), -1, dtype=np.int64)
    held = np.zeros(clients, dtype=np.int64)
    for c in range(classes):
        members = generator.permutation(np.flatnonzero(labels == c))
        holders = np.flatnonzero(holds[:, c])
        share = proportions(generator, alpha, len(holders)) * (held[holders] < len(labels) / clients)
        share = share / share.sum() if share.sum() > 0 else np.full(len(holders), 1 / len(holders))
        cuts = (np.cumsum(share)[:-1] * len(members)).astype(np.int64)
        taken = np.diff(cuts, prepend=0, append=len(members))
        owner[members] = np.repeat(holders, taken)
        held[holders] += taken
    return owner


def _check(samples: int, clients: int, classes: int, C: int, alpha: float, form: str, min_samples: int) -> None:
    if not 1 <= C <= classes:
        raise BadInput(f"partition: exdir has C={C}; 1 <= C <= {classes} classes is right")
    if not 0 < alpha < float("inf"):
        raise BadInput(f"partition: exdir has alpha={alpha}; alpha > 0 is right")
    if form not in ("balanced", "plain"):
        raise BadInput(f"partition: exdir has form={form}; 'balanced' or 'plain' is right")
    if C * clients < classes:
        raise BadInput(f"clients: {clients} with C={C} cannot cover {classes} classes; C x clients >= classes is right")
    if clients * max(min_samples, 1) > samples:
        raise BadInput(f"clients: {clients} x {min_samples} samples is more than the {samples} training samples")
