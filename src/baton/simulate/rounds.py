"""One round of all lanes: drawn ahead on a CPU, captured and replayed on a GPU."""

from collections.abc import Callable, Hashable
from functools import partial
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor

from baton import clients, schedules
from baton.clients import Batches
from baton.errors import BadInput
from baton.lanes import finite, summable, where
from baton.seam import Cohort, Now, State
from baton.simulate.kept import Kept, Table
from baton.simulate.program import Program
from baton.simulate.simulation import Simulation
from baton.usercode import written_in


class Trained(NamedTuple):
    """All lanes after a round; what clients keep is written in place."""

    order: Tensor  # [L, S] who took part
    state: State
    diverged: Tensor  # [L] the round that left the finite numbers, -1 while there


Round = Callable[[int, State, Table, Tensor], Trained]  # (round, state, what clients keep, diverged)

_CAPTURING = Lock()  # other threads may go on with theirs, but not begin another capture
LEGS, DRAWS = 16384, 65536  # at most so many legs and samples are drawn in one go: few cost more in calls than in draws


def one(
    program: Program, now: Now, order: Tensor, drawn: list[Batches] | None, state: State, kept: Kept, diverged: Tensor
) -> Trained:
    """The algorithm's round; a lane that leaves the finite numbers, or has left them, keeps its last finite state."""
    if program.algorithm.order is not None:
        order = _chosen(program, now, order, state)
        drawn = program.ahead(now.round, order) if program.roomy else None
    sites = Simulation(program, now, order, drawn, kept)
    new = program.algorithm.round(state, Cohort.whole(order), sites)
    if list(new.model) != list(state.model):  # leaves in another order: the files keep one
        new = new._replace(model={name: new.model[name] for name in state.model})
    sound = finite(new.model) & (diverged < 0)
    if new.server:
        sound = sound & summable(new.server)
    stays = sound
    if sites.aborted is not None:  # what the round came to is thrown away, finite or not
        stays, sound = sound & ~sites.aborted, sound | sites.aborted
    if not sound.is_cuda and bool(stays.all()):
        kept.settle(None)
        return Trained(order, new, diverged)
    kept.settle(stays)
    number = torch.where(sound | (diverged >= 0), diverged, now.round + 1)
    return Trained(order, State(*(where(stays, a, b) for a, b in zip(new, state, strict=True))), number)


def _chosen(program: Program, now: Now, order: Tensor, state: State) -> Tensor:
    """The round's order as the algorithm makes it of the schedule's; a user's own is held to what an order is."""
    choose = program.algorithm.order
    assert choose is not None
    made = choose(state, order, now)
    if not program.theirs:
        return made
    name = f"algorithm: {program.called!r} ({written_in(choose)})"
    made = schedules.shaped(made, name, len(order), now.participants, "lane").to(order.device)
    if not (made.is_cuda and torch.cuda.is_current_stream_capturing()):  # asked before a round is recorded
        schedules.inside(made, name, now.clients)
        if not program.repeats:
            schedules.once(made, name, "a schedule that @declares(repeats=True)")
    return made


def ahead(program: Program) -> Round:
    """Orders and minibatches of some rounds at once: those of one lane's round are too small to be worth a call."""
    setting = program.setting
    legs = len(program.seeds) * setting.participants  # of one round
    largest = program.clients.largest
    samples = clients.slots(setting, largest) * clients.width(setting, largest)  # of one leg
    many = max(1, min(LEGS, DRAWS // samples) // legs)
    known: dict[int, tuple[Tensor, list[Batches] | None]] = {}
    foreseen = program.foreseen
    room: dict[tuple[str, int], Tensor] = {}

    def look(first: int) -> None:
        numbers = range(first, min(first + many, setting.rounds))
        orders = program.orders(numbers)
        count = setting.participants
        every = torch.tensor(numbers).repeat_interleave(count)
        drawn = program.ahead(every, orders.flatten(1)) if foreseen else None
        known.clear()
        for i, (round, order) in enumerate(zip(numbers, orders.unbind(1), strict=True)):
            known[round] = order, drawn[i * count : (i + 1) * count] if drawn else None

    def train(round: int, state: State, kept: Table, diverged: Tensor) -> Trained:
        if round not in known:
            look(round)
        now = program.now(round, program.rate(round))
        return one(program, now, *known[round], state, Kept(kept, room), diverged)

    return train


class _Inputs(NamedTuple):
    """What a recorded round reads: filled before each replay."""

    round: Tensor
    lr: Tensor
    order: Tensor
    state: State
    diverged: Tensor


def captured(program: Program) -> Round:
    """The round as one CUDA graph a kind: captured at its first call, then replayed; nothing crosses to the host."""
    replays: dict[Hashable, Callable[[], Trained]] = {}
    inputs: _Inputs | None = None
    running: list[torch.cuda.Event] = []
    known: dict[int, Tensor] = {}  # orders, some rounds ahead: those of a user's own schedule are checked on the host
    foreseen = program.foreseen

    def whole(kind: Hashable, tables: Table, trial: bool = False) -> Trained:
        assert inputs is not None
        now = program.now(inputs.round, inputs.lr, kind)
        drawn = program.ahead(inputs.round, inputs.order) if foreseen else None
        diverged = torch.zeros_like(inputs.diverged) if trial else inputs.diverged  # as if all had: nothing is written
        return one(program, now, inputs.order, drawn, inputs.state, Kept(tables), diverged)

    def train(round: int, state: State, tables: Table, diverged: Tensor) -> Trained:
        nonlocal inputs
        if round not in known:
            known.clear()
            numbers = range(round, min(round + 16, program.setting.rounds))
            known.update(zip(numbers, program.orders(numbers).unbind(1), strict=True))
        kind, order = program.algorithm.kind(round), known[round]
        if inputs is None:
            number = torch.full((), round, device=order.device)
            own = State(*({name: leaf.clone() for name, leaf in drawer.items()} for drawer in state))
            inputs = _Inputs(number, program.rate(round).clone(), order.clone(), own, diverged.clone())
        for mine, given in zip(inputs.state, state, strict=True):
            for name, leaf in given.items():
                mine[name].copy_(leaf)
        inputs.order.copy_(order)
        inputs.diverged.copy_(diverged)
        inputs.round.fill_(round)
        if not program.steady:
            inputs.lr.copy_(program.rate(round))
        if kind not in replays:
            replays[kind] = _capture(partial(whole, kind, tables), partial(whole, kind, tables, trial=True))
        new = replays[kind]()
        _keep_pace(running)
        kept = State(*({name: leaf.clone() for name, leaf in drawer.items()} for drawer in new.state))
        chosen = new.order.clone() if program.algorithm.order else order
        return Trained(chosen, kept, new.diverged.clone())

    return train


def _capture(whole: Callable[[], Trained], try_it: Callable[[], object]) -> Callable[[], Trained]:
    """What gives the same as whole(), by replaying it; whole itself where it asks the device something on its way.

    try_it: the same, leaving no trace: so kernels are compiled and libraries set up before anything is recorded.
    """
    # torch hands streams out of a pool of 32, so that two may be one: those that are captured come from the
    # pool of high priority, where no chunk trains, and one chunk at a time has hold of them.
    aside = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    with _CAPTURING:
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            try_it()
        torch.cuda.current_stream().wait_stream(aside)
        try:
            with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
                made = whole()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, BadInput):  # an algorithm of the user's own that reads numbers back
            torch.cuda.synchronize()
            return partial(_alone, whole)

    def replay() -> Trained:
        graph.replay()
        return made

    return replay


def _alone(whole: Callable[[], Trained]) -> Trained:
    with _CAPTURING:
        return whole()


def _keep_pace(running: list[torch.cuda.Event], most: int = 2) -> None:
    """The host stays at most so many rounds ahead of the device, so that stopping stops soon."""
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()
    running.append(done)
    if len(running) > most:
        running.pop(0).synchronize()
