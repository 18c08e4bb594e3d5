"""Following a forward pass patches torch's modules for all threads: others must not notice, nor disturb it."""

from collections.abc import Callable
from threading import Thread

import torch
from torch import Tensor, nn

from baton.nn.graph import layers


class Interrupted(nn.Module):
    """Something happens in another thread in the middle of its forward pass."""

    def __init__(self, what: Callable[[], None]) -> None:
        super().__init__()
        self.first, self.second, self.what = nn.Linear(4, 3), nn.Linear(3, 2), what

    def forward(self, x: Tensor) -> Tensor:
        self.what()
        return self.second(torch.relu(self.first(x)))


KINDS = ["linear", "relu", "linear"]


def kinds(module: nn.Module) -> list[str]:
    found = layers(module, torch.zeros(1, 4))
    assert found is not None
    return [layer.kind for layer in found]


def test_a_module_that_another_thread_calls_meanwhile_is_called() -> None:
    made: list[Tensor] = []
    other = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def meanwhile() -> None:
        thread = Thread(target=lambda: made.append(other(torch.ones(1, 2))))
        thread.start()
        thread.join()

    assert kinds(Interrupted(meanwhile)) == KINDS
    assert made
    assert all(type(x) is Tensor for x in made)


def test_two_are_followed_one_after_the_other() -> None:
    made: list[list[str]] = []
    started: list[Thread] = []
    call = nn.Module.__call__

    def meanwhile() -> None:
        if not started:
            started.append(Thread(target=lambda: made.append(kinds(Interrupted(lambda: None)))))
            started[0].start()
            started[0].join(0.3)  # it would be in the middle of it now, if it did not wait

    assert kinds(Interrupted(meanwhile)) == KINDS
    started[0].join()
    assert made == [KINDS]
    assert nn.Module.__call__ is call
