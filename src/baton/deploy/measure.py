"""What a model costs, asked of the sites: each tells sums over its own samples, as far as its policy goes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from baton import metrics, rng
from baton.datasets import Dataset
from baton.deploy.carrier import Carrier, Unbelieved
from baton.deploy.checks import doubt_sums
from baton.deploy.messages import Evaluate, Sums
from baton.deploy.transport import Lost
from baton.deploy.wire import packed
from baton.metrics import Metric
from baton.setting import Setting
from baton.simulate.per_site import over_sites
from baton.sites.visit import without_lane
from baton.store import Snapshot
from baton.store.columns import SITE


class Told(NamedTuple):
    """One evaluation."""

    values: dict[str, NDArray[np.float64]]  # as a history takes them: one lane [1], of sites [1, k]
    rows: dict[int, int]  # client -> its test rows, where it tells
    says: tuple[str, ...] = ()  # what was not believed, and of whom


def asked(setting: Setting, like: Dataset) -> dict[str, Metric]:
    """The metrics that each site is asked for, by label."""
    return metrics.build(metrics.wanted(setting.metrics, like), like)


def measured(
    carrier: Carrier,
    setting: Setting,
    at: Snapshot,
    order: Sequence[int],
    like: Dataset,
    before: Mapping[int, int] = MappingProxyType({}),
) -> Told:
    """The columns of an evaluation, over the sites that answer; those of which nobody tells anything are left out.

    order: the participants of the round that ended. before: the test rows that clients told of in this run.
    """
    names, model = carrier.rules.sites, without_lane(at.state.model)
    random, labelled = _random(setting, at.round, order), bool(like.classes)
    whose = set(order) | set(random)
    frames = {
        name: packed(Evaluate(carrier.text, model, client in whose, at.round), carrier.rules.leg)
        for client, name in enumerate(names)
    }
    told, says = dict[int, Sums](), list[str]()
    for site, got in carrier.ask(frames):
        client = names.index(site)
        try:
            said = carrier.reply(got)
            if not isinstance(said, Sums):
                raise Unbelieved("the answer to something else")
            if wrong := doubt_sums(said, before.get(client), carrier.samples.get(site), labelled=labelled):
                raise Unbelieved(f"it tells {wrong}; its numbers are left out")
            told[client] = said
        except Unbelieved as error:
            says += [] if isinstance(got, Lost) else [f"{site}: {error}"]
    found = _means("test", [each[:3] for each in told.values()], labelled)
    found |= _means("train", [told[m][3:6] for m in order if m in told], labelled)
    found |= _means("train_random", [told[m][3:6] for m in random if m in told], labelled)
    rows = {m: int(each.test_count) for m, each in told.items() if each.test_count}
    return Told(columns(found) | _by_site(asked(setting, like), told, len(names)), rows, tuple(says))


def _by_site(wanted: Mapping[str, Metric], told: Mapping[int, Sums], count: int) -> dict[str, NDArray[np.float64]]:
    """Each site's own, and mean, worst, best and spread over those that tell, as a simulation has them."""
    found: dict[str, NDArray[np.float64]] = {}
    for label, metric in wanted.items():
        cells = np.full((1, count), np.nan)
        for m, said in told.items():
            cell = said.metrics.get(label)
            if cell is not None and cell.numel() == 1:
                cells[0, m] = float(cell)
        found[SITE + label] = cells.astype(np.float32)
        found |= over_sites(label, cells, metric.best)
    return found


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
