"""The compiled library: loaded only where nobody else can have written it; why there is none is told, once."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from baton import notice, private
from baton.models import logistic
from baton.nn import cuda, graph
from baton.nn.native import build
from baton.setting import Setting
from baton.simulate.engine import Program
from contracts.examples import CPU
from test_native import compiled, made, pytestmark  # noqa: F401  none of this without a compiler

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """cache/baton/native with a library in it that was just compiled."""
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))
    monkeypatch.setattr(notice, "_said", set())
    place = tmp_path / "cache" / "baton" / "native"
    assert build.library(place) is not None
    build._library.cache_clear()
    return place


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are loaded."""
    found: list[Path] = []

    def load(path: str) -> ctypes.CDLL:
        found.append(Path(path))
        return real(path)

    real = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", load)
    return found


def give_away(path: Path) -> None:
    os.chown(path, 12345, -1)


def test_a_library_of_ones_own_is_loaded_again(folder: Path, loaded: list[Path]) -> None:
    (kept,) = folder.iterdir()
    before = kept.stat().st_ino
    assert build.library(folder) is not None
    assert loaded == [kept]
    assert kept.stat().st_ino == before
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent, folder.parents[1], kept)} == {0o700}


@pytest.mark.parametrize("above", range(3))
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.chmod(0o770), "is writable by others"),
        (lambda path: path.chmod(0o702), "is writable by others"),
        pytest.param(give_away, "belongs to another user", marks=needs_root),
    ],
)
def test_a_folder_that_another_can_write_to(
    folder: Path,
    loaded: list[Path],
    spoil: Callable[[Path], None],
    says: str,
    above: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The library's own, Baton's, or the user's cache folder: something else could be loaded from there tomorrow."""
    place = [folder, *folder.parents][above]
    spoil(place)
    assert build.library(folder) is not None
    (used,) = loaded
    assert folder not in used.parents
    assert not used.exists()  # compiled for this process alone
    line = capsys.readouterr().err
    assert line.startswith(f"baton: code compiled before is not used, since {place} {says}")
    assert line.count("\n") == 1


def test_a_folder_as_tmp_may_lie_above(folder: Path, loaded: list[Path]) -> None:
    folder.parents[1].chmod(0o1777)
    assert build.library(folder) is not None
    assert loaded == list(folder.iterdir())
    folder.parents[1].chmod(0o700)
    folder.chmod(0o1777)  # but the library itself does not lie there
    build._library.cache_clear()
    assert build.library(folder) is not None
    assert folder not in loaded[-1].parents


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o720),
        lambda path: path.chmod(0o602),
        pytest.param(give_away, marks=needs_root),
        lambda path: path.rename(path.with_suffix(".real")) and path.symlink_to(path.with_suffix(".real")),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
    ids=["group", "world", "another's", "link", "fifo"],
)
def test_a_file_that_another_can_have_written_is_made_again(folder: Path, spoil: Callable[[Path], object]) -> None:
    (kept,) = folder.iterdir()
    spoil(kept)
    assert private.content(kept) is None
    assert not build._whole(kept)
    assert build.library(folder) is not None
    assert build._whole(kept)


@needs_root
def test_what_root_made_is_loaded_by_others(folder: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert build.library(folder) is not None
    assert loaded == list(folder.iterdir())


def kernels() -> object:
    return compiled(made(logistic, (1, 4, 4)), (1, 4, 4))


def script(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A compiler of this kind is the only one there is."""
    (folder / "cc").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/nowhere")


def test_why_there_is_no_c_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notice, "_said", set())

    def told() -> str:
        for _ in range(2):
            assert kernels() is None
        return capsys.readouterr().err

    head = "baton: training in PyTorch, not in C, which is faster: "
    monkeypatch.setenv("BATON_NATIVE", "0")
    assert told() == f"{head}BATON_NATIVE=0\n"
    monkeypatch.delenv("BATON_NATIVE")
    monkeypatch.setenv("PATH", "")
    assert told() == f"{head}no compiler found (cc, gcc, clang)\n"
    version = '[ "$1" = --version ] && exit 0; '
    fail = "echo 'leg.c:1: error: no such thing' >&2; echo >&2; echo terminated. >&2; exit 1"
    script(tmp_path, monkeypatch, version + fail)
    assert told() == f"{head}compiling failed (leg.c:1: error: no such thing)\n"
    build._library.cache_clear()
    script(tmp_path, monkeypatch, version + "echo the licence has run out >&2; exit 1")
    assert told() == f"{head}compiling failed (the licence has run out)\n"
    build._library.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script(tmp_path, monkeypatch, version + 'while [ "$1" != -o ]; do shift; done; echo no library > "$2"')
    assert told().startswith(f"{head}loading the compiled code failed (")
    build._library.cache_clear()


def test_it_is_told_only_of_what_would_be_trained_in_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notice, "_said", set())
    monkeypatch.setenv("BATON_NATIVE", "0")
    for fields in ({"dtype": "float64"}, {"dataset": "quadratic"}, {"model": "user_modules:tiny"}):
        Program([Setting(**fields)], CPU)
        assert capsys.readouterr().err == "", fields
    Program([Setting()], CPU)
    assert "BATON_NATIVE=0" in capsys.readouterr().err


def test_a_gpu_without_triton_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(notice, "_said", set())
    monkeypatch.setattr(cuda, "find_spec", lambda _: None)
    module = made(logistic, (1, 4, 4))
    found = graph.layers(module, torch.zeros(1, 1, 4, 4))
    assert found is not None
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    for _ in range(2):
        assert cuda.compile(found, sizes, (1, 4, 4), "bf16") is None
    assert capsys.readouterr().err == (
        "baton: training by PyTorch's own operations, not by kernels, which are faster: no package 'triton' found\n"
    )
