"""Groups of clients that take part together: FedSeq's superclients (Zaccone et al., 2022)."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from baton import rng
from baton.errors import BadInput
from baton.schedules.base import Held, declares

BY = ("random", "size", "labels")


@declares(held=True)
def grouped(
    seed: Tensor, round: Tensor, clients: int, participants: int, held: Held, *, each: int, by: str = "random"
) -> Tensor:
    """Whole groups of so many clients, made once: at random, of even size, or of unlike labels (Zaccone et al., 2022).

    A round's order is S/each groups in random order, each shuffled: `fedseq:groups=` cuts it into their chains.
    by=size: the largest clients are dealt out first, each to the group with the fewest samples. by=labels: a group
    grows by the
    client whose labels are furthest from its own, by KL divergence. Clients over M/each groups never take part.
    """
    if by not in BY:
        raise BadInput(f"schedule: grouped has by={by}; {', '.join(BY[:-1])} or {BY[-1]} is right")
    if each < 1 or participants % each:
        raise BadInput(f"schedule: grouped has each={each}; a number that divides S = {participants} is right")
    pairs, of = torch.stack([seed, held.table], 1).unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
    labels = held.labels.cpu().numpy()
    made = [_groups(labels[table].tobytes(), labels.shape[2], s, each, by) for s, table in pairs.tolist()]
    groups = torch.from_numpy(np.stack(made)).to(seed.device)  # [pairs, groups, each]
    key = rng.bits(seed, rng.ORDER, round)
    chosen = rng.choose(key, groups.shape[1], participants // each)  # [n, S / each]
    some = groups[of.unsqueeze(1), chosen]  # [n, S / each, each]
    shuffle = rng.choose(rng.bits(key.unsqueeze(1), torch.arange(some.shape[1], device=seed.device)), each, each)
    return some.gather(2, shuffle).flatten(1)


@lru_cache(maxsize=256)
def _groups(labels: bytes, classes: int, seed: int, each: int, by: str) -> np.ndarray:
    """[M // each, each]."""
    counts = np.frombuffer(labels, dtype=np.int64).reshape(-1, classes)
    order = rng.choose(rng.bits(torch.tensor([seed]), rng.GROUP), len(counts), len(counts))[0].numpy()
    many = len(counts) // each
    if by == "random":
        return order[: many * each].reshape(many, each)
    return _even(counts.sum(1), order, many, each) if by == "size" else _unlike(counts, order, many, each)


def _even(size: np.ndarray, order: np.ndarray, many: int, each: int) -> np.ndarray:
    """The largest first, each to the group with the fewest samples that has a place left; ties in random order."""
    groups: list[list[int]] = [[] for _ in range(many)]
    total = np.zeros(many)
    for client in order[np.argsort(-size[order], kind="stable")][: many * each]:
        at = int(np.argmin(total))
        groups[at].append(int(client))
        total[at] = total[at] + size[client] if len(groups[at]) < each else np.inf
    return np.array(groups)


def _unlike(counts: np.ndarray, order: np.ndarray, many: int, each: int) -> np.ndarray:
    """A random client, then each time the one of the greatest KL(client | group); one sample more of each label."""
    shares = (counts + 1) / (counts + 1).sum(1, keepdims=True)
    left, groups = list(map(int, order)), []
    for _ in range(many):
        group = [left.pop(0)]
        while len(group) < each:
            own = counts[group].sum(0) + 1
            far = (shares[left] * np.log(shares[left] / (own / own.sum()))).sum(1)
            group.append(left.pop(int(np.argmax(far))))
        groups.append(group)
    return np.array(groups)
