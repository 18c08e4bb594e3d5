"""The loop one writes for one run in plain PyTorch."""

import copy
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from baton.datasets import prepared
from baton.models import factory
from work import Work, load

PAD = 4  # of the random crop
CHANNELS_LAST = ("lenet5", "cnn")  # models that train faster so on a CPU; VGG-9 does not


@lru_cache(maxsize=1)
def samples(dataset: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """All of them, normalised float32 on the device; padded already where they will be cropped."""
    data = load(dataset)
    x = functional.pad(data.x, (PAD,) * 4) if data.augment else data.x
    return prepared(data, x, torch.float32).to(device), data.y.to(device)


def crop_and_flip(x: Tensor, batch: Tensor) -> Tensor:
    """Random crops of padded images x [N, C, H, W], half of them mirrored."""
    device, count, size = x.device, len(batch), x.shape[-1] - 2 * PAD
    corner = torch.randint(0, 2 * PAD + 1, (2, count, 1), device=device)
    rows, columns = corner + torch.arange(size, device=device)  # [b, size]
    columns = torch.where(torch.rand(count, 1, device=device) < 0.5, columns.flip(1), columns)
    channel = torch.arange(x.shape[1], device=device).view(1, -1, 1, 1)
    return x[batch.view(-1, 1, 1, 1), channel, rows.view(count, 1, size, 1), columns.view(count, 1, 1, size)]


def bare(work: Work) -> Callable[[], None]:
    """One round of one run."""
    s, data = work.setting(0), load(work.dataset)
    x, y = samples(work.dataset, work.device)
    held = [mine.to(work.device) for mine in work.held()]
    net = factory(s.model, tuple(data.x.shape[1:]), data.classes)().to(work.device)
    if s.model in CHANNELS_LAST and work.device.type == "cpu":
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    loss_of = nn.CrossEntropyLoss()

    def sgd(net: nn.Module) -> torch.optim.SGD:
        return torch.optim.SGD(net.parameters(), lr=s.lr, weight_decay=s.weight_decay)

    def leg(net: nn.Module, optimizer: torch.optim.SGD, mine: Tensor) -> None:
        done = 0
        while done < s.local_steps:
            shuffled = mine[torch.randperm(len(mine), device=work.device)]
            for batch in torch.split(shuffled, s.batch_size)[: s.local_steps - done]:
                images = crop_and_flip(x, batch) if data.augment else x[batch]
                optimizer.zero_grad()
                loss_of(net(images), y[batch]).backward()
                if s.clip:
                    nn.utils.clip_grad_norm_(net.parameters(), s.clip)
                optimizer.step()
                done += 1

    everyone = sgd(net)

    def sequential(order: list[int]) -> None:
        for m in order:
            leg(net, everyone, held[m])

    def parallel(order: list[int]) -> None:
        trained = []
        for m in order:
            local = copy.deepcopy(net)
            leg(local, sgd(local), held[m])
            trained.append(local.state_dict())
        net.load_state_dict({name: torch.stack([t[name] for t in trained]).mean(0) for name in trained[0]})

    each = sequential if s.algorithm == "sequential" else parallel
    return lambda: each(torch.randperm(s.clients)[: s.participants].tolist())
