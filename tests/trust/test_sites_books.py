"""A site's secret is there whole or not at all; its books bear kills, and count for all of its processes."""

import resource
from pathlib import Path

import pytest

from attacks import ask, order, plain, site
from baton import privacy
from baton.deploy.messages import Message, Refused, Train, Trained
from baton.deploy.site import Site

pytestmark = pytest.mark.trust

LINES = "released.csv"


def leg(at: Site, number: int, **dp: object) -> Message:
    """A leg that no other number has."""
    s = plain(**{"dp": "gaussian:clip=1,noise=5", **dp})
    model = {n: x + number for n, x in order(s).model.items()}
    return ask(at, Train(s.to_json(), f"{number}.0", "", order(s, model=model)))


@pytest.mark.parametrize("length", [0, 16, 33])
def test_a_secret_of_another_length_is_refused(length: int, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(length))
    assert isinstance(leg(site(tmp_path), 1), Refused)


def test_a_secret_is_written_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The disk is full once, as if between open and write."""
    at, before = site(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    at.open_noise = True
    assert isinstance(leg(at, 1), Trained)  # its line is in the book
    (tmp_path / "secret").unlink(missing_ok=True)
    at = site(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        full = leg(at, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(full, Refused)
    assert isinstance(leg(site(tmp_path), 1), Trained)
    assert len((tmp_path / "secret").read_bytes()) == 32
    assert capsys.readouterr().err


@pytest.mark.parametrize("cut", [20, 64, 66, 70, 83, 85])
def test_a_line_that_was_cut_is_mended_with_a_word(
    cut: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site is killed while it writes, is started again, answers a leg, and is started again."""
    book = tmp_path / LINES
    for number in (1, 2):
        assert isinstance(leg(site(tmp_path), number), Trained)
    whole = book.read_text()
    length = len(whole) // 2
    book.write_text(whole[: length + cut])
    for number in (1, 2, 3):
        assert isinstance(leg(site(tmp_path), number), Trained)
    names = [line.split(",")[0] for line in book.read_text().splitlines()]
    assert [len(name) for name in names] == [64] * 3
    assert len(set(names)) == 3
    assert LINES in capsys.readouterr().err


def test_two_processes_of_one_site_count_together(tmp_path: Path) -> None:
    dp = {"dp": "gaussian:clip=1,noise=40", "rounds": 6}
    most = privacy.epsilon(6 * privacy.loss(40.0)) * 1.001
    pair = [site(tmp_path, most_epsilon=most) for _ in range(2)]
    said = [leg(pair[number % 2], number, **dp) for number in range(12)]
    assert sum(isinstance(each, Trained) for each in said) == 6
