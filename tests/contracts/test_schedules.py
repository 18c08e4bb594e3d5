"""Every schedule: S of M clients, no one twice, pure, lane by lane, and uniform over seeds."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from baton.names import bind
from baton.schedules import SCHEDULES
from contracts.examples import BAD, examples, missing, refused

EVERY = pytest.mark.parametrize("spec", examples("schedule"))
SEEDS = torch.arange(20_000)


def order(spec: str, seed: torch.Tensor, round: int, clients: int, participants: int) -> torch.Tensor:
    _, schedule, options = bind("schedule", spec, SCHEDULES)
    return schedule(seed, round, clients, participants, **options)


def test_every_name_has_an_example() -> None:
    assert missing("schedule") == []


@pytest.mark.parametrize("spec", BAD["schedule"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    line = refused({"schedule": spec})
    assert "schedule: " in line
    assert "\n" not in line


@EVERY
@given(
    people=st.integers(1, 2_000).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, min(m, 50)))),
    round=st.integers(0, 5_000),
    seeds=st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=5),
)
def test_participants_are_different_clients_and_each_lane_has_its_own(
    spec: str, people: tuple[int, int], round: int, seeds: list[int]
) -> None:
    clients, participants = people
    seed = torch.tensor(seeds)
    drawn = order(spec, seed, round, clients, participants)
    assert drawn.shape == (len(seeds), participants)
    assert drawn.dtype == torch.int64
    for lane, row in enumerate(drawn.tolist()):
        assert len(set(row)) == participants
        assert set(row) <= set(range(clients))
        assert order(spec, seed[lane : lane + 1], round, clients, participants)[0].tolist() == row
    assert seed.tolist() == seeds  # not changed
    assert torch.equal(order(spec, seed, round, clients, participants), drawn)


@EVERY
def test_full_participation_is_a_permutation(spec: str) -> None:
    drawn = order(spec, torch.arange(50), 3, 30, 30)
    assert torch.equal(drawn.sort(1).values, torch.arange(30).expand(50, 30))


@EVERY
@pytest.mark.parametrize("round", [0, 7])
@pytest.mark.parametrize(("clients", "participants"), [(4, 2), (10, 10), (1_000_000, 3)])
def test_every_place_is_uniform_over_clients(spec: str, round: int, clients: int, participants: int) -> None:
    drawn = order(spec, SEEDS, round, clients, participants)
    bins = min(clients, 50)
    for place in range(participants):
        counts = torch.bincount(drawn[:, place] * bins // clients, minlength=bins).numpy()
        assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("spec", ["shuffled", "fixed"])
@pytest.mark.parametrize(("clients", "participants"), [(4, 2), (5, 3), (4, 4)])
def test_random_orders_are_uniform_over_ordered_subsets(spec: str, clients: int, participants: int) -> None:
    cells = {subset: i for i, subset in enumerate(permutations(range(clients), participants))}
    drawn = order(spec, SEEDS, 3, clients, participants)
    counts = np.bincount([cells[tuple(row)] for row in drawn.tolist()], minlength=len(cells))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_shuffled_draws_anew_each_round_and_fixed_never() -> None:
    first, second = (order("shuffled", SEEDS, round, 3, 1)[:, 0] for round in (4, 5))
    table = torch.bincount(3 * first + second, minlength=9).view(3, 3).numpy()
    assert stats.chi2_contingency(table).pvalue > 1e-4
    assert stats.chisquare(table.ravel()).pvalue > 1e-4
    kept = [order("fixed", SEEDS, round, 20, 7) for round in (0, 1, 499)]
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[0], kept[2])
