"""Extended Dirichlet, ExDir(C, alpha): first C classes a client, then each class in Dirichlet proportions."""

from typing import NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.partitions.dirichlet import cut, shares, too_few
from baton.partitions.draws import Ints, check_alpha, check_samples, classes_of, generator, hand_out, smallest
from baton.partitions.holders import Holders, allocations, check_classes, none_found

MIN_SAMPLES = {"plain": 1, "balanced": 10}


class Draw(NamedTuple):
    """A partition with the allocation of classes that it came from."""

    owner: Ints  # [N], of each sample
    prior: Ints  # [M, classes], 1 where the client was allocated the class: the columns are the paper's q_c


def exdir(
    labels: Ints,
    clients: int,
    *,
    C: int,
    alpha: float,
    form: str = "plain",
    min_samples: int | None = None,
    exact: bool = False,
    seed: int = 0,
) -> Ints:
    """Extended Dirichlet: first C classes a client, then each class in Dirichlet proportions among its clients.

    form=plain is the paper's text: p_c ~ Dir(alpha q_c), class c cut in these proportions among the clients that hold
    it; every class is held by someone, and all is drawn again until every client has min_samples = 1. form=balanced is
    what the published runs used: a client that holds its fair share N/M already takes no more, and all is drawn again
    until every class has max(C M / classes / 5, 1) clients and every client min_samples = 10 samples. A client never
    has more than C classes; it has fewer where its part of one is nothing. exact=true: each holder gets one sample of
    the class before the rest is cut, so that all have C.
    """
    return draw_exdir(
        labels, clients, C=C, alpha=alpha, form=form, min_samples=min_samples, exact=exact, seed=seed
    ).owner


def draw_exdir(
    labels: Ints,
    clients: int,
    *,
    C: int,
    alpha: float,
    form: str = "plain",
    min_samples: int | None = None,
    exact: bool = False,
    seed: int = 0,
) -> Draw:
    """Return the partition, and the prior q_c of every class c that the first step allocated."""
    if form not in MIN_SAMPLES:
        raise BadInput(f"partition: exdir has form={form}; expected 'plain' or 'balanced'")
    wanted = MIN_SAMPLES[form] if min_samples is None else min_samples
    found, draw = classes_of(labels), generator(seed, 2)
    kinds = len(found.sizes)
    check_alpha("exdir", alpha)
    check_samples(len(labels), clients, wanted)
    check_classes("exdir", clients, kinds, C)
    if exact and C * clients > len(labels):
        raise BadInput(
            f"partition: exact=true needs {C} samples at each of {clients} clients and there are {len(labels)}; "
            f"at most {len(labels) // C} clients, or exact=false, is right"
        )
    least = max(C * clients / kinds / 5, 1) if form == "balanced" else 1
    step, first, tries, fewest = balanced if form == "balanced" else cut, int(exact), 0, 0
    for holders in allocations(draw, clients, kinds, C, least, found.sizes if exact else np.inf):
        counts = step(draw, alpha, found.sizes, holders, first)
        fewest = max(fewest, size := smallest(holders.client, counts, clients))
        if size >= wanted:
            return Draw(hand_out(draw, found.kind, holders.client, counts), _prior(holders, clients))
        tries += 1
    if not tries:
        raise none_found("exdir", clients, kinds, C, least, int(found.sizes.min()) if exact else None)
    raise too_few(f"exdir:C={C},alpha={alpha:g}", clients, fewest, wanted, tries)


def _prior(holders: Holders, clients: int) -> Ints:
    prior = np.zeros((clients, len(holders.start) - 1), dtype=np.int64)
    for label, part in enumerate(holders.each()):
        prior[holders.client[part], label] = 1
    return prior


def balanced(draw: np.random.Generator, alpha: float, sizes: Ints, holders: Holders, first: int = 0) -> Ints:
    """Samples each holder takes of each class; classes in order, only holders below N/M samples take part.

    Dir(alpha 1) over all holders, with the full ones struck out and the rest scaled up, is Dir(alpha 1) over the rest.
    What rounding down leaves over goes to the last holder. Where all holders of a class are full, all take part.
    """
    clients = int(holders.client.max()) + 1  # every client holds some class
    fair = sizes.sum() / clients
    held = np.zeros(clients, dtype=np.int64)
    counts = np.empty(len(holders.client), dtype=np.int64)
    for size, part in zip(sizes.tolist(), holders.each(), strict=True):
        who = holders.client[part]
        takers = held[who] < fair
        if not takers.any():
            takers[:] = True
        share = np.zeros(len(who))
        share[takers] = shares(draw, alpha, int(takers.sum()))
        rest = size - first * len(who)
        ends = (np.cumsum(share)[:-1] * rest).astype(np.int64)
        counts[part] = np.diff(ends, prepend=0, append=rest) + first
        held[who] += counts[part]
    return counts
