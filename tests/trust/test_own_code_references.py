"""What a user's factory refers to is part of the run's id, so that another value is another run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import baton
from test_usercode import forget

pytestmark = pytest.mark.trust

SAME: dict[str, Any] = {"dataset": "breast_cancer", "rounds": 2, "local_steps": 2, "batch_size": 8}

SCRIPT = """
import baton
from torch import nn

def net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes))

for WIDTH in (1, 64):
    (run,) = baton.run(baton.Setting(dataset="breast_cancer", model=net, rounds=2), "runs", quiet=True)
    print(sum(leaf.numel() for leaf in run.module().parameters()))
"""

SIZES = """
WIDTH = 4
"""
MINE = """
import sizes
from torch import nn
from sizes import WIDTH

TABLE = {"width": [4]}
class Choice:
    width = 4
    def __init__(self, width):
        self.own = width
CHOICE = Choice(4)

def layers(shape, classes, width):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], width), nn.ReLU(), nn.Linear(width, classes))

def by_global(shape, classes):
    return layers(shape, classes, WIDTH)

def by_helper(shape, classes):
    return by_global(shape, classes)

def by_container(shape, classes):
    return layers(shape, classes, TABLE["width"][0])

def by_object(shape, classes):
    return layers(shape, classes, CHOICE.own)

def by_class(shape, classes):
    return layers(shape, classes, Choice.width)

def by_module(shape, classes):
    return layers(shape, classes, sizes.WIDTH)

def by_default(shape, classes, *, width=[4]):
    return layers(shape, classes, width[0])
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The user's module."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sizes.py").write_text(SIZES)
    (tmp_path / "choosing.py").write_text(MINE)
    forget(tmp_path)
    import choosing  # type: ignore[import-not-found]

    yield choosing
    forget(tmp_path)


def widen(module: Any, name: str) -> None:
    """Change the value that a factory refers to."""
    if name in ("by_global", "by_helper"):
        module.WIDTH = 8
    elif name == "by_container":
        module.TABLE["width"][0] = 8
    elif name == "by_object":
        module.CHOICE.own = 8
    elif name == "by_class":
        module.Choice.width = 8
    elif name == "by_module":
        module.sizes.WIDTH = 8
    else:
        module.by_default.__kwdefaults__["width"][0] = 8


@pytest.mark.parametrize(
    "name", ["by_global", "by_helper", "by_container", "by_object", "by_class", "by_module", "by_default"]
)
def test_another_value_is_another_run(name: str, mine: Any) -> None:
    model = f"choosing:{name}" if name != "by_default" else mine.by_default
    before = baton.Setting(**SAME, model=model).run_id
    assert baton.Setting(**SAME, model=model).run_id == before
    widen(mine, name)
    assert baton.Setting(**SAME, model=model).run_id != before


def test_a_scripts_loop_over_a_global_trains_each(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, "loop.py"], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.split() == [str(30 + 1 + 2 + 2), str(30 * 64 + 64 + 64 * 2 + 2)]
    assert len(list((tmp_path / "runs").glob("*/setting.json"))) == 2


@pytest.mark.parametrize("made", ["(n for n in ())", "__import__('threading').Lock()", "np.random.default_rng(0)"])
def test_what_no_id_can_tell_is_refused(made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = f"import numpy as np\nHELD = {made}\n\ndef cut(labels, clients):\n    HELD\n    return labels * 0\n"
    (tmp_path / "untold.py").write_text(text)
    forget(tmp_path)
    with pytest.raises(baton.BadInput, match=r"untold\.py, line 4") as error:
        _ = baton.Setting(dataset="digits", partition="untold:cut").run_id
    assert "HELD" in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    __import__("untold").__dict__.pop("HELD")
    forget(tmp_path)
