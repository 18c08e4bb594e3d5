"""What a model costs, asked of the sites: each tells sums over its own samples, as far as its policy goes."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from baton import rng
from baton.deploy.carrier import Carrier, Unbelieved
from baton.deploy.messages import Evaluate, Sums
from baton.deploy.wire import packed
from baton.setting import Setting
from baton.sites.visit import without_lane
from baton.store import Snapshot


def metrics(carrier: Carrier, setting: Setting, at: Snapshot, order: Sequence[int], labelled: bool) -> dict[str, float]:
    """The columns of an evaluation, over the sites that answer; those of which nobody tells anything are left out.

    order: the participants of the round that ended.
    """
    names, model = carrier.rules.sites, without_lane(at.state.model)
    random = _random(setting, at.round, order)
    asked = set(order) | set(random)
    frames = {
        name: packed(Evaluate(carrier.text, model, client in asked), carrier.rules.leg)
        for client, name in enumerate(names)
    }
    told: dict[int, Sums] = {}
    for site, got in carrier.ask(frames):
        try:
            said = carrier.reply(got)
        except Unbelieved:
            continue
        if isinstance(said, Sums):
            told[names.index(site)] = said
    found = _means("test", [each[:3] for each in told.values()], labelled)
    found |= _means("train", [told[m][3:] for m in order if m in told], labelled)
    return found | _means("train_random", [told[m][3:] for m in random if m in told], labelled)


def _random(setting: Setting, round: int, order: Sequence[int]) -> list[int]:
    """Clients for train_random, as a simulation draws them; with S = M, all."""
    if setting.participants == setting.clients:
        return list(order)
    key = rng.bits(torch.tensor([setting.seed]), rng.EVALUATE, round)
    found: list[int] = rng.choose(key, setting.clients, setting.participants)[0].tolist()
    return found


def _means(prefix: str, sums: Sequence[tuple[float, ...]], labelled: bool) -> dict[str, float]:
    loss, right, count = (sum(each[i] for each in sums) for i in range(3))
    if not count:
        return {}
    return {f"{prefix}_loss": loss / count} | ({f"{prefix}_accuracy": 100 * right / count} if labelled else {})


def columns(found: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    """As a history takes them: one lane."""
    return {name: np.array([value], dtype=np.float64) for name, value in found.items()}
