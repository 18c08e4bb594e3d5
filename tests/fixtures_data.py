"""Fixtures for data sets of files; a test module that wants them says `pytest_plugins = ["fixtures_data"]`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from baton import datasets
from baton.datasets import find


def forget() -> None:
    """What is loaded is remembered by name, whatever folder it came from."""
    datasets.forget()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty data folder, looked in first; the user's own cache is out of sight."""
    root = tmp_path / "data"
    root.mkdir()
    monkeypatch.setenv("BATON_DATA", str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    yield root
    forget()


@pytest.fixture(scope="session")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's tests keep what they decode."""
    return tmp_path_factory.mktemp("decoded")


@pytest.fixture
def real_data(decoded: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], datasets.Dataset]]:
    """Load a real data set from $BATON_DATA or the standard places; the test is skipped where it is absent."""

    def load(name: str) -> datasets.Dataset:
        found = find.look(name)
        if found is None or found.missing:
            pytest.skip(f"{name} is not on this machine: 'baton data get {name}', or set BATON_DATA")
        if found.folder.parent != Path("/usr/share/datasets"):
            monkeypatch.setenv("BATON_DATA", str(found.folder.parent))
        monkeypatch.setenv("XDG_CACHE_HOME", str(decoded))
        loaded: datasets.Dataset = datasets.LOADERS[name](500)
        return loaded

    forget()  # what tests of before took for them
    yield load
    forget()
