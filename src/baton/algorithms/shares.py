"""What each client's part weighs in a mean over all M clients that the server keeps up, such as SCAFFOLD's control.

Under `weighting=size` the weights are p_i = n_i / n. A server learns n_i with client i's first answer. Until then it
takes the mean of those that it knows, so that n is exact once every client has answered, and all the while the mean
is of the clients' own parts under one set of weights: a change of client i counts p_i, however often it is drawn.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from baton.lanes import Params
from baton.seam import Cohort, Now, Reply

SAMPLES = ".samples"  # [L, M] what each client holds, -1 while it is not known; no model's leaf has such a name


class Shares(NamedTuple):
    """How a mean over all clients is carried on: keep times what it was, and `each` of what a client's part gained."""

    each: Tensor  # [L, C] of these legs
    keep: Tensor | None  # [L]; None: 1
    samples: Params  # what the server keeps of the sizes from now on


def unknown(weighting: str, now: Now) -> Params:
    """Return what the server knows of sizes when the run begins; nothing where it never needs them."""
    if weighting == "uniform":
        return {}
    return {SAMPLES: torch.full((len(now.lr), now.clients), -1.0, dtype=now.lr.dtype, device=now.lr.device)}


def without_samples(server: Params) -> Params:
    """Return a server's drawer less the sizes."""
    return {n: leaf for n, leaf in server.items() if n != SAMPLES}


def shares(server: Params, order: Cohort, reply: Reply, counts: Tensor, now: Now) -> Shares:
    """Return the weights of legs that came back and count [L, C]: 1 / M each, or p_i where the server keeps sizes."""
    if SAMPLES not in server:
        return Shares(counts.to(now.lr.dtype) / now.clients, None, {})
    known, who = server[SAMPLES], reply.who(order)
    new = known.scatter(1, who, torch.where(_came(reply, who), reply.samples.to(known.dtype), known.gather(1, who)))
    before, total = all_samples(known), all_samples(new)
    each = torch.where(counts, new.gather(1, who) / total.unsqueeze(1), 0.0)
    return Shares(each, before / total, {SAMPLES: new})


def all_samples(known: Tensor) -> Tensor:
    """Return n, the samples of all clients [L]: those that are not known count as the mean of those that are."""
    there = known >= 0
    mean = torch.where(there, known, 0.0).sum(1) / there.sum(1).clamp(min=1)
    return (mean * known.shape[1]).clamp(min=1)


def _came(reply: Reply, who: Tensor) -> Tensor:
    return torch.ones_like(who, dtype=torch.bool) if reply.came is None else reply.came
