"""A machine of a Ray cluster that has another Baton, or none, trains nothing; a token that is missing is named."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'baton-fl[ray]'")

from clusters import cluster

pytestmark = pytest.mark.trust
STUDY = """
[base]
dataset = "digits"
model = "logistic"
rounds = 2
clients = 4
[axes]
algorithm = ["sequential"]
seed = [1, 2]
"""
WORKER = "import sys\nif any('default_worker.py' in word for word in sys.orig_argv):\n"  # a process of a machine's
OTHER = WORKER + "    import baton\n    baton.__version__ = '0.0.7'\n"
NONE = (
    WORKER
    + """
    class Without:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "baton":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Without())
"""
)


def swept(folder: Path, on: str, **variables: str) -> tuple[int, str]:
    """A study on a cluster: how the command ended, and what it said."""
    (folder / "study.toml").write_text(STUDY)
    words = [sys.executable, "-m", "baton", "sweep", str(folder / "study.toml"), "--runs", str(folder / "runs")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= variables
    done = subprocess.run(
        [*words, "--on", on], env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("shim", "said"), [(OTHER, "has Baton 0.0.7"), (NONE, "Baton is not installed")], ids=["another", "none"]
)
def test_a_machine_with_another_baton_or_none_is_refused_in_one_line(shim: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(shim)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    code, lines = swept(tmp_path, "ray:local", PYTHONPATH=path)
    assert code == 2, lines
    assert said in lines
    assert "Traceback" not in lines
    assert not list((tmp_path / "runs").glob("*/metrics.csv"))


def test_a_missing_token_is_named(tmp_path: Path) -> None:
    with cluster([1]) as (ours, _):
        began = time.monotonic()
        code, lines = swept(tmp_path, f"ray:{ours.address}")
        took = time.monotonic() - began
    assert code == 2, lines
    assert "RAY_AUTH_TOKEN" in lines
    assert len(lines.splitlines()) == 1
    assert took < 60  # it is asked once, not for as long as Ray tries


def test_an_open_cluster_is_joined_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clusters import Machines

    begin = Machines.__init__

    def open_to_all(self: Machines, client: bool = False) -> None:
        begin(self, client)
        self.key = {"RAY_AUTH_MODE": "disabled"}

    monkeypatch.setattr(Machines, "__init__", open_to_all)
    with cluster([1]) as (ours, _):
        code, lines = swept(tmp_path, f"ray:{ours.address}")
    assert code == 0, lines
    assert "token" in lines
