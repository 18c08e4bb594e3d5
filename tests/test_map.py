"""The map of who is ahead: what is known in closed form comes out of it, and it survives being asked again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from baton import cli
from baton.errors import BadInput
from baton.report import map as maps

SMALL = ["map", "--delta", "0,0.75", "--zeta", "0,3", "-K", "1,4", "-S", "2,4", "-M", "4", "--rates", "6"]
SMALL += ["-R", "60", "--seeds", "16"]  # the order of four clients is much of a run: few seeds do not settle it


def test_who_is_ahead_where_it_is_known(tmp_path: Path) -> None:
    """All clients: without delta or with K = 1 parallel has no drift; with both, sequential is the nearer one."""
    words = [*SMALL, "--runs", str(tmp_path / "runs"), "-q"]
    done = CliRunner().invoke(cli.app, [*words, "--json", "--out", str(tmp_path / "map.png")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    found = {(p["delta"], p["zeta"], p["K"], p["S"]): p for p in json.loads(done.stdout)["places"]}
    assert len(found) == 16
    for (delta, zeta, K, S), place in found.items():
        if zeta == 0:
            assert place["promised"] == ""
        elif S == 4:
            assert place["ahead"] == ("sequential" if delta and K > 1 else "parallel"), place
            assert place["promised"] == "sequential"
            assert place["bounds"]["sequential"] >= place["measured"]["sequential"]
    again = CliRunner().invoke(cli.app, words)
    assert "16 places" in again.output


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(BadInput, match="K: 4, 1; different values, smallest first"):
        maps.check(maps.Grid(K=(4, 1)))
    with pytest.raises(BadInput, match="seeds: 1; at least 2"):
        maps.check(maps.Grid(seeds=1))
