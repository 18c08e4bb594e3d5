"""One round of all lanes: drawn ahead on a CPU, captured and replayed on a GPU."""

from collections.abc import Callable
from functools import partial
from threading import Lock

import torch
from torch import Tensor

from baton import clients
from baton.algorithms.base import State
from baton.clients import Batches
from baton.lanes import Params, finite, where
from baton.simulate.program import Program

# (round, state, diverged) -> order, state, diverged
Round = Callable[[int, State, Tensor], tuple[Tensor, State, Tensor]]

_CAPTURING = Lock()  # other threads may go on with theirs, but not begin another capture
LEGS, DRAWS = 16384, 65536  # at most so many legs and samples are drawn in one go: few cost more in calls than in draws


class Simulation:
    """Sites in this process: the clients of one round.

    drawn: the minibatches of all its participants `order`, where they are known beforehand.
    """

    def __init__(
        self, program: Program, round: int | Tensor, order: Tensor | None = None, drawn: list[Batches] | None = None
    ) -> None:
        self.program, self.round, self.order, self.drawn = program, round, order, drawn

    def train(self, x: Params, client: Tensor) -> Params:
        """One leg a lane: client [L]."""
        column = _column(client, self.order)
        if self.drawn is None or column is None:
            leg = self.program.draw(self.round, client.unsqueeze(1))[0]
        else:
            leg = self.drawn[column]
        return self.program.legs.train(x, self.program.lanes, leg)

    def train_all(self, x: Params, order: Tensor) -> Params:
        """All participants' legs, S folded into the lane axis: order [L, S] -> [L, S, ...]."""
        count = order.shape[1]
        drawn = self.drawn if order is self.order and self.drawn else self.program.draw(self.round, order)
        flat = Batches(*(torch.stack(field, 1).flatten(0, 1) for field in zip(*drawn, strict=True)))
        trained = self.program.legs.train(x, self.program.lanes.repeat(count), flat)
        return {name: leaf.view(*order.shape, *leaf.shape[1:]) for name, leaf in trained.items()}

    def sizes(self, order: Tensor) -> Tensor:
        """Samples at each client: [L, S]."""
        return clients.spans(self.program.clients, self.program.lanes, order)[1]

    def sides(self, x: Params) -> tuple[Params, Params]:
        """(the clients' side, the server's)."""
        return self.program.apart(x)


def _column(client: Tensor, order: Tensor | None) -> int | None:
    """Which column of order [L, S] the view `client` is, without looking at the numbers, which may be on a GPU."""
    if order is None or client.stride() != order.stride()[:1] or client.shape != order.shape[:1]:
        return None
    inside = client.untyped_storage().data_ptr() == order.untyped_storage().data_ptr()
    place = int(client.storage_offset() - order.storage_offset())
    return place if inside and 0 <= place < order.shape[1] else None


def _train(
    program: Program, round: int | Tensor, order: Tensor, drawn: list[Batches], state: State, diverged: Tensor
) -> tuple[State, Tensor]:
    """The algorithm's round; a lane that leaves the finite numbers, or has left them, keeps its last finite state."""
    new = program.algorithm.round(state, order, Simulation(program, round, order, drawn))
    sound = finite(new) & (diverged < 0)
    if not sound.is_cuda and bool(sound.all()):
        return new, diverged
    number = torch.where(sound | (diverged >= 0), diverged, round + 1)
    return where(sound, new, state), number


def ahead(program: Program) -> Round:
    """Orders and minibatches of some rounds at once: those of one lane's round are too small to be worth a call."""
    setting = program.setting
    legs = len(program.seeds) * setting.participants  # of one round
    samples = setting.local_steps * clients.width(setting, program.clients.largest)  # of one leg
    many = max(1, min(LEGS, DRAWS // samples) // legs)
    known: dict[int, tuple[Tensor, list[Batches]]] = {}

    def look(first: int) -> None:
        numbers = range(first, min(first + many, setting.rounds))
        orders = program.orders(numbers)
        count = setting.participants
        drawn = program.draw(torch.tensor(numbers).repeat_interleave(count), orders.flatten(1))
        known.clear()
        for i, (round, order) in enumerate(zip(numbers, orders.unbind(1), strict=True)):
            known[round] = order, drawn[i * count : (i + 1) * count]

    def train(round: int, state: State, diverged: Tensor) -> tuple[Tensor, State, Tensor]:
        if round not in known:
            look(round)
        order, drawn = known[round]
        return order, *_train(program, round, order, drawn, state, diverged)

    return train


def captured(program: Program) -> Round:
    """The round as one CUDA graph: captured at the first call, then replayed; nothing crosses to the host inside it."""
    replay: Callable[[], tuple[State, Tensor]] | None = None
    inputs: dict[str, Tensor] = {}
    running: list[torch.cuda.Event] = []

    def whole() -> tuple[State, Tensor]:
        state = {name[6:]: leaf for name, leaf in inputs.items() if name.startswith("state/")}
        round, order = inputs["round"], inputs["order"]
        return _train(program, round, order, program.draw(round, order), state, inputs["diverged"])

    def train(round: int, state: State, diverged: Tensor) -> tuple[Tensor, State, Tensor]:
        nonlocal replay
        order = program.order(round)
        given = {f"state/{name}": leaf for name, leaf in state.items()} | {"order": order, "diverged": diverged}
        if replay is None:
            inputs.update({name: leaf.clone() for name, leaf in given.items()})
            inputs["round"] = torch.full((), round, device=order.device)
            replay = _capture(whole)
        for name, leaf in given.items():
            inputs[name].copy_(leaf)
        inputs["round"].fill_(round)
        new, number = replay()
        _keep_pace(running)
        return order, {name: leaf.clone() for name, leaf in new.items()}, number.clone()

    return train


def _capture(whole: Callable[[], tuple[State, Tensor]]) -> Callable[[], tuple[State, Tensor]]:
    """What gives the same as whole(), by replaying it; whole itself where it asks the device something on its way."""
    # torch hands streams out of a pool of 32, so that two may be one: those that are captured come from the
    # pool of high priority, where no chunk trains, and one chunk at a time has hold of them.
    aside = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    with _CAPTURING:
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # once as it is: kernels are compiled, libraries set up
            whole()
        torch.cuda.current_stream().wait_stream(aside)
        try:
            with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
                made = whole()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # an algorithm of the user's own that reads numbers back
            torch.cuda.synchronize()
            return partial(_alone, whole)

    def replay() -> tuple[State, Tensor]:
        graph.replay()
        return made

    return replay


def _alone(whole: Callable[[], tuple[State, Tensor]]) -> tuple[State, Tensor]:
    with _CAPTURING:
        return whole()


def _keep_pace(running: list[torch.cuda.Event], most: int = 2) -> None:
    """The host stays at most so many rounds ahead of the device, so that stopping stops soon."""
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()
    running.append(done)
    if len(running) > most:
        running.pop(0).synchronize()
