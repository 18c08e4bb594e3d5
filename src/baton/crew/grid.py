"""A grid, trained where a person wants it: the one place that all commands and the library call."""

from collections.abc import Generator, Sequence

import torch

from baton.crew import devices
from baton.crew.where import HERE, Where
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.arithmetic import cores, device_of, precision_of
from baton.store import Store
from baton.sweep import Cut, Progress, Shard, sweep
from baton.sweep.chunk import CHECKPOINT_SECONDS

FINER = {"cpu": 4, "cuda": 2}  # chunks for each that trains at once: the last of them should not keep all waiting


def train(
    settings: Sequence[Setting],
    store: Store,
    device: str = "auto",
    memory: int | None = None,
    checkpoint: float = CHECKPOINT_SECONDS,
    precision: str = "auto",
    anyway: bool = False,
    where: Where = HERE,
) -> Generator[Progress, None, None]:
    """Train every run that is not complete; what is typed wrong is said at once, before anything is waited for."""
    if where.on:
        if device not in ("auto", "cpu", "cuda"):
            raise BadInput(f"device: {device!r} with --on; auto, cpu or cuda is right: Ray knows the machines' GPUs")
        return _on_ray(settings, store, device, memory, checkpoint, precision, anyway, where)
    on, names, memory, cut = here(device, memory, where)
    how, shard = precision_of(precision, on), Shard(*where.shard) if where.shard else None
    by = devices.Devices(names) if names else None
    return sweep(settings, store, on, memory, checkpoint, how, anyway, cut, shard, by)


def here(device: str, memory: int | None, where: Where) -> tuple[torch.device, list[str], int | None, Cut]:
    """What this machine trains on: the kind of device, their names where it takes a process each, memory, cut."""
    names = devices.several(device)
    if names and where.shard:
        raise BadInput(f"shard: together with --device {device}; a shard a device is right, each with --device cuda")
    on = device_of(names[0].partition(":")[0] if names else device)
    hands = where.shard[1] if where.shard else len(names)
    own = max(1, cores() // len(names)) if names and on.type == "cpu" else 0
    if own:  # they share it
        memory = (memory or mem.free(on)) // len(names)
    return on, names, memory, Cut(where.parts or max(1, FINER[on.type] * hands), where.cores or own)


def _on_ray(
    settings: Sequence[Setting],
    store: Store,
    device: str,
    memory: int | None,
    checkpoint: float,
    precision: str,
    anyway: bool,
    where: Where,
) -> Generator[Progress, None, None]:
    """The same on a cluster, joined when the first progress is asked for; nothing is, where all runs are there."""
    if all(store.complete(s.run_id) for s in settings):
        return
    from baton.crew.driver import Driver
    from baton.crew.on_ray import PROCESS, joined

    with joined(where.on) as cluster:
        nodes = cluster.nodes()
        on = _device(device, any(node.gpus for node in nodes))
        threads = max(1, where.cores) if on.type == "cpu" else 0
        able = [node for node in nodes if (node.cpus >= threads if on.type == "cpu" else node.gpus)]
        if not able:
            most = max((node.cpus for node in nodes), default=0)
            raise BadInput(f"cores: no machine of the cluster has {threads}; at most {most:g} is right")
        if on.type == "cpu":
            slots = sum(int(node.cpus // threads) for node in able)
            room = min(int(node.memory * threads / node.cpus) for node in able) - PROCESS
            memory = memory or max(room, 64 << 20)
        else:
            slots = sum(int(node.gpus) for node in able)
        cut = Cut(where.parts or FINER[on.type] * slots, threads)
        how = precision_of(precision, on)
        yield from sweep(settings, store, on, memory, checkpoint, how, anyway, cut, None, Driver(cluster))


def _device(name: str, gpus: bool) -> torch.device:
    """What the cluster trains on. Planning for GPUs needs one where the command is given."""
    wanted = "cpu" if name == "cpu" or (name == "auto" and not gpus) else "cuda"
    if wanted == "cuda" and not gpus:
        raise BadInput("device: 'cuda': no machine of the cluster has a GPU; auto or cpu is right")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise BadInput(
            "device: 'cuda': chunks for GPUs are measured where the command is given, and no GPU is here; give it on a "
            "machine of the cluster that has one, or with --device cpu"
        )
    return torch.device(wanted)
