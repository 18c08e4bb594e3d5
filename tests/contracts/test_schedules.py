"""Every schedule: S of M clients, pure, pair by pair, and what it says of itself; and that a lie is noticed."""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from baton import rng
from baton.errors import BadInput
from baton.schedules import SCHEDULES, Declared, Held, Schedule, checked, declared, declares
from baton.schedules import build as built
from contracts.examples import BAD, examples, missing
from user_modules import round_robin


def build(spec: str) -> Schedule:
    """The schedule; one that asks for what clients hold is told, that all hold alike."""
    schedule = built(spec)
    if not schedule.declared.held:
        return schedule

    def draw(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
        alike = Held(torch.full((1, clients, 2), 5), torch.zeros_like(seed))
        return schedule.draw(seed, round, clients, participants, alike)

    return schedule._replace(draw=draw)


NAMES = [*examples("schedule"), "user_modules:round_robin", "user_modules:round_robin:stride=3"]
EVERY = pytest.mark.parametrize("spec", NAMES)
UNIFORM = pytest.mark.parametrize("spec", [spec for spec in NAMES if build(spec).declared.uniform])
FRESH = pytest.mark.parametrize("spec", [spec for spec in NAMES if build(spec).declared.fresh])
SEEDS = torch.arange(20_000)
Draw = Callable[[Tensor, Tensor, int, int], Tensor]


def at(draw: Draw, round: int, clients: int, participants: int) -> Tensor:
    """One round's order over many seeds."""
    return draw(SEEDS, torch.full_like(SEEDS, round), clients, participants)


def is_uniform(draw: Draw, round: int, clients: int, participants: int) -> bool:
    """Whether each place of a round is uniform over the clients."""
    drawn = at(draw, round, clients, participants)
    bins = min(clients, 50)
    counts = [torch.bincount(drawn[:, place] * bins // clients, minlength=bins) for place in range(participants)]
    return all(stats.chisquare(count.numpy()).pvalue > 1e-4 for count in counts)


def is_fresh(draw: Draw, first: int, second: int) -> bool:
    """Whether two rounds are independent of each other: of their first places, one says nothing of the other."""
    one, other = (at(draw, round, 3, 1)[:, 0] for round in (first, second))
    table = torch.bincount(3 * one + other, minlength=9).view(3, 3).numpy() + 1  # no empty row, whoever never leads
    return bool(stats.chi2_contingency(table).pvalue > 1e-4)


def test_every_name_has_an_example() -> None:
    assert missing("schedule") == []


@pytest.mark.parametrize("spec", [*BAD["schedule"], "user_modules:round_robin:stride=fast"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    with pytest.raises(BadInput) as error:
        build(spec)
    assert str(error.value).startswith("schedule: ")
    assert "\n" not in str(error.value)


def test_what_they_declare() -> None:
    assert {name: declared(schedule) for name, schedule in SCHEDULES.items()} == {
        "shuffled": Declared(uniform=True, fresh=True),
        "fixed": Declared(uniform=True),
        "replacement": Declared(uniform=True, repeats=True, fresh=True),
        "incremental": Declared(),
        "once": Declared(uniform=True),
        "reshuffled": Declared(uniform=True),
        "flipflop": Declared(uniform=True),
        "sized": Declared(held=True),
        "cyclic": Declared(),
        "grouped": Declared(held=True),
        "markov": Declared(uniform=True),
        "file": Declared(),
    }
    assert declared(round_robin) == Declared() == Declared(uniform=False, repeats=False, fresh=False)
    assert [build(spec).registered for spec in ("fixed", "user_modules:round_robin")] == [True, False]


@EVERY
@given(
    people=st.integers(1, 2_000).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, min(m, 50)))),
    pairs=st.lists(st.tuples(st.integers(0, (1 << 63) - 1), st.integers(0, 5_000)), min_size=1, max_size=5),
)
def test_a_row_is_of_participants_and_depends_on_its_own_pair_alone(
    spec: str, people: tuple[int, int], pairs: list[tuple[int, int]]
) -> None:
    schedule, (clients, participants) = build(spec), people
    seed, round = torch.tensor(pairs).unbind(1)
    drawn = schedule.draw(seed, round, clients, participants)
    repeats = schedule.declared.repeats
    assert torch.equal(checked(drawn, schedule.place, len(pairs), clients, participants, repeats), drawn)
    assert drawn.dtype == torch.int64
    for i, row in enumerate(drawn.tolist()):
        assert schedule.draw(seed[i : i + 1], round[i : i + 1], clients, participants)[0].tolist() == row
    assert torch.stack([seed, round], 1).tolist() == [list(pair) for pair in pairs]  # not changed
    assert torch.equal(schedule.draw(seed, round, clients, participants), drawn)


@EVERY
def test_full_participation_is_a_permutation(spec: str) -> None:
    drawn = build(spec).draw(torch.arange(50), torch.full((50,), 3), 30, 30)
    assert build(spec).declared.repeats or torch.equal(drawn.sort(1).values, torch.arange(30).expand(50, 30))


@UNIFORM
@pytest.mark.parametrize("round", [0, 7])
@pytest.mark.parametrize(("clients", "participants"), [(4, 2), (10, 10), (1_000_000, 3)])
def test_every_place_is_uniform_over_clients(spec: str, round: int, clients: int, participants: int) -> None:
    if spec.partition(":")[0] in ("once", "reshuffled", "flipflop", "markov"):
        clients = min(clients, 100)  # they draw all clients for each row
    assert is_uniform(build(spec).draw, round, clients, participants)


@FRESH
@pytest.mark.parametrize(("first", "second"), [(0, 1), (4, 5), (3, 300)])
def test_rounds_are_independent(spec: str, first: int, second: int) -> None:
    assert is_fresh(build(spec).draw, first, second)


@pytest.mark.parametrize("spec", ["shuffled", "fixed"])
@pytest.mark.parametrize(("clients", "participants"), [(4, 2), (5, 3), (4, 4)])
def test_random_orders_are_uniform_over_ordered_subsets(spec: str, clients: int, participants: int) -> None:
    cells = {subset: i for i, subset in enumerate(permutations(range(clients), participants))}
    drawn = at(build(spec).draw, 3, clients, participants)
    counts = np.bincount([cells[tuple(row)] for row in drawn.tolist()], minlength=len(cells))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_fixed_never_draws_again() -> None:
    kept = [at(build("fixed").draw, round, 20, 7) for round in (0, 1, 499)]
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[0], kept[2])
    assert torch.equal(kept[0], at(build("shuffled").draw, 0, 20, 7))


@declares(uniform=True, fresh=True)
def first_come(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """Says what is not so: the first client always leads."""
    order = rng.choose(rng.bits(seed, rng.ORDER, round), clients, participants)
    return torch.cat([torch.zeros_like(order[:, :1]), order[:, 1:]], 1)


@declares(uniform=True, fresh=True)
def lazy(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """Says what is not so: two rounds share a draw."""
    return rng.choose(rng.bits(seed, rng.ORDER, round // 2), clients, participants)


def draws(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """With replacement."""
    place = torch.arange(participants)
    return rng.below(rng.bits(seed.unsqueeze(1), rng.ORDER, round.unsqueeze(1), place), clients)


def test_a_false_declaration_is_noticed() -> None:
    assert not is_uniform(first_come, 0, 4, 2)
    assert not is_uniform(round_robin, 0, 4, 2)
    assert is_uniform(lazy, 0, 4, 2)
    assert not is_fresh(lazy, 4, 5)
    assert is_fresh(lazy, 3, 4)  # which is why pairs of both kinds are asked
    assert not is_fresh(build("fixed").draw, 4, 5)
    with pytest.raises(BadInput, match="twice in a round"):
        checked(at(draws, 0, 4, 2), "draws", len(SEEDS), 4, 2, declared(draws).repeats)
    said = declares(repeats=True, uniform=True, fresh=True)(draws)
    assert declared(said) == Declared(True, True, True)
    assert torch.equal(checked(at(said, 0, 4, 2), "draws", len(SEEDS), 4, 2, declared(said).repeats), at(said, 0, 4, 2))
    assert is_uniform(said, 0, 4, 2)


GIVEN = {
    "[[0, 1], [1, 2]]": "gives a list; a tensor of whole numbers [2, 2], one row a pair of seed and round, is right",
    "torch.tensor([0, 1])": "gives the shape [2]; a tensor of whole numbers [2, 2]",
    "torch.tensor([[0, 1]])": "gives the shape [1, 2]; a tensor of whole numbers [2, 2]",
    "torch.tensor([[0, 1, 2], [0, 1, 2]])": "gives the shape [2, 3]; a tensor of whole numbers [2, 2]",
    "torch.tensor([[0.0, 1], [1, 2]])": "gives float32; a tensor of whole numbers [2, 2]",
    "torch.tensor([[True, False], [True, False]])": "gives bool; a tensor of whole numbers [2, 2]",
    "torch.tensor([[0, 1], [1, 4]])": "gives client 4; 0 to 3 is right",
    "torch.tensor([[0, 1], [-1, 2]])": "gives client -1; 0 to 3 is right",
    "torch.tensor([[0, 1], [2, 2]])": "has client 2 twice in a round; each once is right, or @declares(repeats=True)",
}


@pytest.mark.parametrize("text", GIVEN)
def test_what_is_no_order_is_refused_in_one_line_that_names_the_function(
    text: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"given_{list(GIVEN).index(text)}"
    (tmp_path / f"{module}.py").write_text(
        f"import torch\n\ndef make(seed, round, clients, participants):\n    return {text}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    schedule = build(f"{module}:make")
    pair = torch.arange(2)
    with pytest.raises(BadInput) as error:
        checked(schedule.draw(pair, pair, 4, 2), schedule.place, 2, 4, 2, schedule.declared.repeats)
    assert str(error.value).startswith(f"schedule: {module}:make (make in {module}.py, line 3) {GIVEN[text]}")
    assert "\n" not in str(error.value)


def test_smaller_whole_numbers_become_int64() -> None:
    order = checked(torch.tensor([[0, 3]], dtype=torch.int32), "mine", 1, 4, 2, False)
    assert order.dtype == torch.int64
    assert order.tolist() == [[0, 3]]


def test_a_schedule_that_fails_says_so_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"schedule: 'user_modules:falling' failed \(TypeError: "):
        build("user_modules:falling").draw(SEEDS, SEEDS, 4, 2)
