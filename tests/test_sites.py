"""Every algorithm with one process a client, each with its own samples alone: what the simulation gives, to the bit.

In float32 both sides train in C, where a lane is the same alone and among others; in float64 vmap may batch products
differently, and legs in split form are torch's between machines.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import pytest
import torch

from baton import clients, datasets, failures
from baton.setting import Setting
from baton.simulate.engine import Program, advance, first
from baton.sites.halves import Message
from baton.sites.server import Server
from baton.sites.visit import Answer, Order, Own, visit
from baton.store import Snapshot
from contracts.examples import CPU, cases, examples
from site_process import Hold, Told, serve

CLIENTS = 5
SPECS = [*(spec for spec in examples("algorithm") if spec != "pooled"), "fedseq:groups=2"]  # sites keep their samples


@pytest.fixture(scope="module")
def pipes() -> Iterator[list[Connection]]:
    """One process a client, ended however the tests end."""
    spawn = multiprocessing.get_context("spawn")
    ends = [spawn.Pipe() for _ in range(CLIENTS)]
    running = []
    try:
        for _, theirs in ends:
            running.append(spawn.Process(target=serve, args=(theirs,), daemon=True))
            running[-1].start()
            theirs.close()
        yield [ours for ours, _ in ends]
    finally:
        for ours, _ in ends:
            ours.close()
        for process in running:
            process.join(10)
            process.kill()


def setting(spec: str, **more: object) -> Setting:
    base = {"model": "mlp:hidden=6", "clients": CLIENTS, "participants": 4, "partition": "dirichlet:alpha=0.5"}
    numbers = {
        "local_steps": 3,
        "batch_size": 16,
        "rounds": 3,
        "lr": 0.07,
        "clip": 0.8,
        "weight_decay": 0.01,
        "seed": 5,
    }
    return Setting(**{**base, **numbers, "algorithm": spec, "eval_every": 3, **more})


def simulated(s: Setting) -> Snapshot:
    program = Program([s], CPU)
    *_, last = advance(program, first(program))
    return last


def distributed(
    s: Setting, pipes: Sequence[Connection]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], list]:
    """(model, what the server keeps, what each client keeps)."""
    data = datasets.load(s.dataset, s.clients)
    owner = torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients).copy())
    failing = failures.failing(s.failures)

    def lost(order: Order) -> bool:
        asked = torch.full((1, 1, 1 + order.attempt), order.client)
        return bool(failures.lost(failing, torch.tensor([s.seed]), order.round, asked)[0, 0, -1])

    def post(orders: Sequence[Order]) -> list[Answer | None]:
        sent = [order for order in orders if not lost(order)]
        for order in sent:  # all at once, then all answers: two orders to one client queue up in its pipe
            pipes[order.client].send(order)
        answers = [pipes[order.client].recv() for order in sent]
        found = iter(answers)
        return [None if lost(order) else next(found) for order in orders]

    def ask(client: int, message: Message) -> object:
        pipes[client].send(message)
        return pipes[client].recv()

    server = Server(s, data, post, ask)
    state = server.start()
    for m, pipe in enumerate(pipes):
        mine = owner == m
        pipe.send(
            Hold(s.to_json(), data.x[mine].clone(), data.y[mine].clone(), {n: x[0] for n, x in state.model.items()})
        )
    assert [pipe.recv() for pipe in pipes] == ["ready"] * len(pipes)
    for number in range(s.rounds):
        state = server.round(number, state)
    for m, pipe in enumerate(pipes):
        pipe.send(Told(s.rounds, m in server.void))
    return state.model, state.server, [pipe.recv() for pipe in pipes]


def compare(s: Setting, pipes: Sequence[Connection], exact: bool) -> None:
    at = simulated(s)
    model, server, kept = distributed(s, pipes)
    close = (
        {"rtol": 0.0, "atol": 0.0}
        if exact
        else {"rtol": 1e-10, "atol": 1e-12}
        if s.dtype == "float64"
        else {
            "rtol": 2e-5,
            "atol": 2e-6,
        }
    )
    assert model.keys() == at.state.model.keys()
    torch.testing.assert_close(model, at.state.model, **close)
    torch.testing.assert_close(server, at.state.server, **close)
    for m, own in enumerate(kept):
        assert own.keys() == at.clients.keys()
        torch.testing.assert_close(own, {name: leaf[0, m] for name, leaf in at.clients.items()}, **close)


SHORT = ("fedprox:mu=0.3", "scaffold", "fedseq:groups=2", "ssl:cut=1,head=4,smash_noise=0.1", "splitfed:cut=1")
CASES = cases(SPECS, SHORT)


@pytest.mark.parametrize("spec", CASES)
def test_one_process_a_client_is_the_simulation(spec: str, pipes: list[Connection]) -> None:
    compare(setting(spec), pipes, exact=not spec.startswith(("ssl", "splitfed")))


@pytest.mark.parametrize("spec", cases(SPECS, SHORT[:2]))
def test_in_double_precision_with_every_term(spec: str, pipes: list[Connection]) -> None:
    more = {"dtype": "float64", "momentum": 0.4, "lr_schedule": "exponential:factor=0.8", "sampling": "replacement"}
    compare(setting(spec, **more), pipes, exact=False)


@pytest.mark.parametrize("policy", ["skip", "retry:times=1", "reroute:times=2", "abort"])
@pytest.mark.parametrize("spec", ["sequential", "parallel:weighting=size", "scaffold", "fedseq:groups=2"])
def test_one_rule_for_legs_that_do_not_come_back(spec: str, policy: str, pipes: list[Connection]) -> None:
    compare(setting(spec, failures="share:p=0.3", on_failure=policy, participants=4, rounds=6), pipes, exact=True)


def test_clients_without_samples(pipes: list[Connection]) -> None:
    s = setting("scaffold", partition="user_modules:by_label:drop=3", model="logistic")
    compare(s, pipes, exact=True)


def test_a_visit_is_pure() -> None:
    """The same order twice gives the same bits, and what the client keeps is not written to."""
    s, data = setting("scaffold"), datasets.load("digits", CLIENTS)
    own = Own(s, data._replace(x=data.x[:40], y=data.y[:40]))
    model = {n: leaf[0] for n, leaf in own.net.init([1]).items()}
    kept = {n: torch.randn_like(leaf) for n, leaf in model.items()}
    before = {n: leaf.clone() for n, leaf in kept.items()}
    sent = {n: torch.randn_like(leaf) for n, leaf in model.items()}
    order = Order(model, 3, 5, 2, 0, 3, 16, 0.1, clip=0.5, pull=0.2, shift=sent, sent=sent)
    one, two = (visit(own, order, kept) for _ in range(2))
    for a, b in zip((one[0].model, one[1]), (two[0].model, two[1]), strict=True):
        assert all(torch.equal(a[n], b[n]) for n in a)
    assert all(torch.equal(kept[n], before[n]) for n in kept)
    assert not any(torch.equal(one[1][n], kept[n]) for n in kept)
