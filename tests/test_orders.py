"""Who takes part and in what order: what each schedule promises, and PairGraB against published numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from baton.datasets import Dataset
from baton.errors import BadInput
from baton.schedules import Held, build
from baton.setting import Setting
from contracts.examples import CPU, finish, stages

SEED = torch.tensor([3, 9])


def epoch(spec: str, number: int, clients: int = 12, participants: int = 4) -> list[list[int]]:
    """All places of an epoch, of each seed."""
    rounds = clients // participants
    draws = [
        build(spec).draw(SEED, torch.full_like(SEED, number * rounds + i), clients, participants) for i in range(rounds)
    ]
    return torch.cat(draws, 1).tolist()


@pytest.mark.parametrize("spec", ["incremental", "once", "reshuffled", "flipflop"])
def test_everybody_comes_once_an_epoch(spec: str) -> None:
    for number in (0, 1, 6):
        assert all(sorted(row) == list(range(12)) for row in epoch(spec, number))


def test_what_sets_epochs_apart() -> None:
    assert epoch("incremental", 5)[0] == list(range(12))
    assert epoch("once", 0) == epoch("once", 7)
    assert epoch("reshuffled", 0) != epoch("reshuffled", 1)
    assert [row[::-1] for row in epoch("flipflop", 4)] == epoch("flipflop", 5)
    assert epoch("flipflop", 4) != epoch("flipflop", 6)


def test_groups_take_turns() -> None:
    for round in range(6):
        drawn = build("cyclic:groups=3").draw(SEED, torch.full_like(SEED, round), 12, 2)
        assert (drawn // 4 == round % 3).all()
    with pytest.raises(BadInput, match="S = 5 is more"):
        build("cyclic:groups=3").draw(SEED, SEED, 12, 5)


def test_by_size_the_first_place_is_drawn_by_size() -> None:
    size = torch.tensor([1, 2, 3, 4])
    seeds = torch.arange(20_000)
    held = Held(size.view(1, 4, 1), torch.zeros_like(seeds))
    first = build("sized").draw(seeds, torch.zeros_like(seeds), 4, 2, held)[:, 0]
    share = torch.bincount(first, minlength=4) / len(seeds)
    torch.testing.assert_close(share, size / 10, rtol=0.0, atol=0.015)


def test_clients_come_and_go_a_share_of_the_time() -> None:
    """With S of the clients there, whoever is there today is more likely there tomorrow."""
    seeds = torch.arange(4000)
    draw = build("markov:share=0.25,stay=20").draw
    one, next_, late = (draw(seeds, torch.full_like(seeds, r), 8, 1)[:, 0] for r in (30, 31, 200))
    assert (one == next_).double().mean() > (one == late).double().mean() + 0.1
    assert (torch.bincount(one, minlength=8) / len(seeds) - 1 / 8).abs().max() < 0.03


@pytest.mark.parametrize("by", ["random", "size", "labels"])
def test_groups_are_whole_and_stay(by: str) -> None:
    labels = torch.zeros(1, 12, 3, dtype=torch.int64)
    labels[0, torch.arange(12), torch.arange(12) % 3] = torch.arange(1, 13)
    held = Held(labels, torch.zeros(1, dtype=torch.int64))
    met = {
        frozenset(group)
        for round in range(20)
        for group in build(f"grouped:each=3,by={by}")
        .draw(torch.tensor([5]), torch.tensor([round]), 12, 6, held)
        .view(2, 3)
        .tolist()
    }
    assert len(met) == 4
    assert sorted(m for group in met for m in group) == list(range(12))
    if by == "labels":
        assert all(len({m % 3 for m in group}) == 3 for group in met)
    if by == "size":
        totals = [sum(m + 1 for m in group) for group in met]
        assert max(totals) - min(totals) <= 6


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0 1\n2\n", "line 2"),
        ("0 0\n", "1 clients in 2 places"),
        ("0 9\n", "0 to 3"),
        ("a b\n", "0 to 3"),
        ("\n", "no line"),
    ],
)
def test_a_file_that_is_no_order(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text(text)
    with pytest.raises(BadInput, match=line):
        build(f"file:{tmp_path / 'order.txt'}").draw(SEED, SEED, 4, 2)


def test_a_file_is_followed_and_is_part_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("3 1\n0, 2\n")
    drawn = build(f"file:{path}").draw(torch.zeros(3, dtype=torch.int64), torch.arange(3), 4, 2)
    assert drawn.tolist() == [[3, 1], [0, 2], [3, 1]]
    old = Setting(schedule=f"file:{path}", clients=4, participants=2)
    path.write_text("1 3\n")
    assert Setting(schedule=f"file:{path}", clients=4, participants=2).run_id != old.run_id
    with pytest.raises(BadInput, match="other content"):
        build(old.schedule).draw(SEED, SEED, 4, 2)


# --- the thousand one-dimensional clients, f_m(x) = a_m x^2 + max(-x, 0)^2 / 2 + b_m x

CLIENTS, RATE, DECAY, STEPS, TOGETHER = 1000, 1e-4, 1e-4, 5, 2


def _kinks() -> tuple[np.ndarray, np.ndarray]:
    np.random.seed(0)
    a = np.random.normal(0.5, 1, CLIENTS)
    return a, np.where(np.arange(CLIENTS) < CLIENTS // 2, 1.0, -1.0)


def _identity(output: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001
    return output


def kinked(clients: int) -> Dataset:
    """One sample (a, b) a client."""
    x = torch.from_numpy(np.stack(_kinks(), 1))[:clients]
    y = torch.zeros(clients, dtype=torch.int64)
    return Dataset(x, y, x[:1], y[:1], 0, _identity, owner=torch.arange(clients))


class _Kink(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor(10.0))

    def forward(self, row: Tensor) -> Tensor:
        return row[:, 0] * self.x**2 + 0.5 * torch.clamp(-self.x, min=0) ** 2 + row[:, 1] * self.x


def kink(shape: tuple[int, ...], classes: int) -> nn.Module:  # noqa: ARG001
    return _Kink()


def by_hand(how: str, epochs: int) -> float:
    """The published experiment in plain NumPy: the distance from 0 at its end."""
    a, b = _kinks()
    np.random.seed(0)
    x, order = 10.0, np.arange(CLIENTS)
    if how == "grab":
        order = np.random.choice(CLIENTS, size=CLIENTS, replace=False)
    for _ in range(epochs):
        if how == "rr":
            order = np.random.choice(CLIENTS, size=CLIENTS, replace=False)
        front, back, s = [], [], 0.0
        for first in range(0, CLIENTS, TOGETHER):
            pair = order[first : first + TOGETHER]
            y, slope, bend = np.full(TOGETHER, x), b[pair], 2 * a[pair]
            for _ in range(STEPS):
                y = y - RATE * (bend * y - np.maximum(-y, 0) + slope + DECAY * y)
            d = (x - y[0]) - (x - y[1])
            near = abs(s + d) <= abs(s - d)
            s = s + d if near else s - d
            front.append(pair[0] if near else pair[1])
            back.append(pair[1] if near else pair[0])
            x = y.mean()
        if how == "grab":
            order = np.array(front + back[::-1])
    return abs(x)


PUBLISHED = {"ig": 0.06918190, "rr": 2.3723223e-4, "grab": 8.2548204e-5}


@pytest.mark.parametrize("how", PUBLISHED)
def test_the_plain_loop_gives_the_published_digits(how: str) -> None:
    assert by_hand(how, 100) == pytest.approx(PUBLISHED[how], rel=1e-7)


def trained(how: str, epochs: int, folder: Path) -> float:
    lines = []
    np.random.seed(0)
    for _ in range(epochs):
        order = np.random.choice(CLIENTS, size=CLIENTS, replace=False) if how != "ig" else np.arange(CLIENTS)
        lines += [" ".join(map(str, pair)) for pair in order.reshape(-1, TOGETHER)]
    (folder / "order.txt").write_text("\n".join(lines))
    s = Setting(
        dataset="test_orders:kinked",
        model="test_orders:kink",
        partition="natural",
        dtype="float64",
        clients=CLIENTS,
        participants=TOGETHER,
        local_steps=STEPS,
        rounds=epochs * CLIENTS // TOGETHER,
        eval_every=epochs * CLIENTS // TOGETHER,
        lr=RATE,
        weight_decay=DECAY,
        schedule=f"file:{folder / 'order.txt'}",
        algorithm="flgrab" if how == "grab" else "parallel",
    )
    return abs(float(finish([s])[1].state.model["x"][0]))


@pytest.mark.parametrize("how", PUBLISHED)
def test_two_epochs_are_those_of_the_plain_loop(how: str, tmp_path: Path) -> None:
    assert trained(how, 2, tmp_path) == pytest.approx(by_hand(how, 2), rel=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("how", PUBLISHED)
def test_published_digits(how: str, tmp_path: Path) -> None:
    assert trained(how, 100, tmp_path) == pytest.approx(PUBLISHED[how], rel=1e-7)


# --- PairGraB's own order


@pytest.mark.parametrize("spec", ["pairgrab", "flgrab"])
@pytest.mark.parametrize(("clients", "participants"), [(8, 4), (8, 8), (9, 3), (7, 2)])
def test_every_epoch_visits_everybody(spec: str, clients: int, participants: int) -> None:
    from baton.simulate.engine import Program, first
    from baton.simulate.kept import Table
    from baton.simulate.rounds import ahead

    rounds = -(-clients // participants)
    more = {"clients": clients, "participants": participants, "rounds": 4 * rounds, "local_steps": 2}
    s = Setting(dataset="quadratic_random:dim=3,sigma=1", algorithm=spec, schedule="reshuffled", lr=0.05, **more)
    program = Program([s], CPU)
    at, train, met = first(program), ahead(program), list[int]()
    for round in range(s.rounds):
        order, state, diverged = train(round, at.state, Table({}, None), at.diverged)
        at = at._replace(state=state, diverged=diverged)
        met += order[0].tolist()
    size = rounds * participants
    epochs = [met[i : i + size] for i in range(0, len(met), size)]
    assert all(set(each) == set(range(clients)) for each in epochs)
    assert epochs[1] != epochs[2]
    assert stages([s])[1][-1].round == s.rounds
