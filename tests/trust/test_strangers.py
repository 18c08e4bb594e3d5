"""A stranger's store, data, cache or neighbour on the machine: asked before code, bounded, escaped, passed over."""

import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import baton
from baton import cli, datasets
from baton import study as studies
from baton.caches import keep_kernels
from baton.errors import BadInput
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Snapshot, Store

pytestmark = pytest.mark.trust
EVIL = (
    'open("PWNED", "w").close()\nfrom torch import nn\ndef net(shape, classes): return nn.Linear(shape[0], classes)\n'
)
RED, CONTROLS = "rome\x1b[31mred", {"\x1b", "\x07", "\x9b"}
FORMULA = "=cmd|' /C calc'!A0"
HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    datasets.forget()
    yield tmp_path
    datasets.forget()


def table(path: Path, sites: tuple[str, ...] = ("a", "b")) -> Path:
    draw = np.random.default_rng(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        file.write("u,v,site,y\n")
        for i in range(80):
            u, v = draw.normal(size=2)
            file.write(f'{u:.4f},{v:.4f},"{sites[i % len(sites)]}",{"yes" if u > v else "no"}\n')
    return path


def command(*words: str) -> str:
    """All that it prints; it has to end well."""
    done = CliRunner().invoke(cli.app, list(words))
    assert isinstance(done.exception, SystemExit | BadInput | None), done.exception
    return done.output


def trained(sites: tuple[str, ...] = ("a", "b"), **more: Any) -> str:
    setting = Setting(dataset=f"csv:{table(Path('c.csv').absolute(), sites)},label=y,site=site", rounds=2, **more)
    return baton.run(setting, "runs", quiet=True)[0].id


# Code


def stored(folder: Path, **more: Any) -> str:
    """A run that a stranger put into a store."""
    values = json.loads(Setting(dataset="breast_cancer", rounds=4).to_json()) | more
    setting = Setting.from_json(json.dumps(values))
    history = History({"test_loss": [(4, np.zeros(1))]})
    model = {"weight": torch.zeros(1, 2, 30), "bias": torch.zeros(1, 2)}
    Store(folder).finish([setting], Snapshot(4, State(model), {}, torch.tensor([-1]), history))
    return setting.run_id


def with_code(folder: Path) -> str:
    """A stored run that names code in the working folder."""
    Path("evil_net.py").write_text(EVIL)
    code = {"code": {"evil_net": "0" * 16}}
    written = json.loads(Setting(dataset="breast_cancer", rounds=4).to_json())["format"]
    return stored(folder, format=max(2, written), model="evil_net:net", made_of=code)


PLAN = (
    '[federation]\nname = "hearts"\nserver = "localhost"\n[data]\nfeatures = ["a"]\nlabel = "y"\nclasses = ["0", "1"]\n'
)


def test_a_plan_does_not_import_the_code_of_the_run_it_is_made_from() -> None:
    run = with_code(Path("runs"))
    Path("fed.toml").write_text(PLAN + "".join(f'[[sites]]\nname = "{site}"\n' for site in "wxyz"))
    done = CliRunner().invoke(cli.app, ["deploy", "plan", "fed.toml", "--from", run])
    assert isinstance(done.exception, BadInput)
    assert "evil_net:net" in str(done.exception)
    assert not Path("PWNED").exists()


def test_the_model_of_a_stored_run_is_built_only_if_its_code_is_trusted() -> None:
    from baton.trained import Run

    store = Store("runs")
    found = Run(store.read(with_code(Path("runs"))), store)
    with pytest.raises(BadInput, match="evil_net:net"):
        found.module()
    assert not Path("PWNED").exists()


# Terminals


def test_names_of_sites_and_machines_do_not_reach_the_terminal_as_commands() -> None:
    run = trained((RED, "b"), metrics="accuracy")
    with open("runs/journal.jsonl", "a") as file:
        file.write(json.dumps({"runs": [run], "how": {"host": "\x1b]0;owned\x07\x9b2J"}}) + "\n")
    said = command("show", run)
    assert "rome" in said
    assert "owned" in said
    assert not set(said) & CONTROLS


@pytest.mark.parametrize("words", [["list", "runs"], ["list", "runs", "--where", "M=4"]], ids=["all", "some"])
def test_what_a_stranger_wrote_does_not_reach_the_terminal_as_commands(words: list[str]) -> None:
    stored(Path("runs"), algorithm="\x1b]0;owned\x07\x1b[2J")
    said = command(*words)
    assert not set(said) & CONTROLS


# Tables and pages for others


def test_exported_tables_hold_no_formulas() -> None:
    trained((FORMULA, "+1", "-x"), metrics="accuracy")
    command("export", "--to", "csv", "--out", "t.csv", "--quiet")
    cells = [cell for line in Path("t-sites.csv").read_text().splitlines() for cell in line.split(",")]
    assert any(FORMULA in cell for cell in cells)
    assert not [cell for cell in cells if cell.strip('"')[:1] in "=+-@" and not is_number(cell)]


def is_number(cell: str) -> bool:
    try:
        return not isnan(float(cell))
    except ValueError:
        return cell == ""


STUDY = """
title = "A study"
[base]
dataset = "csv:{path},label=y,site=site"
rounds = 2
metrics = "accuracy"
[axes]
algorithm = ["sequential", "parallel"]
seed = [1, 2]
[groups."{group}"]
lr = 0.1
"""


def reported(here: Path, group: str = "all", journal: str = "") -> dict[str, str]:
    path = table(here / "home" / "clinic.csv", (FORMULA, "b"))
    Path("s.toml").write_text(STUDY.format(path=path, group=group))
    study = studies.read("s.toml")
    ids = [run.id for run in baton.run(study.settings, "runs", quiet=True)]
    with open("runs/journal.jsonl", "a") as file:
        file.write(journal.replace("RUN", ids[0]))
    done = CliRunner().invoke(cli.app, ["report", "s.toml", "--out", "page"])
    assert done.exception is None, done.exception
    return {p.name: p.read_text() for p in Path("page").iterdir() if p.suffix in (".md", ".csv", ".html", ".tex")}


def test_reported_tables_hold_no_html_no_formulas_and_no_folders(here: Path) -> None:
    found = reported(here, HTML)
    assert any("img src=x" in text for name, text in found.items() if name.endswith(".md"))
    assert not [name for name, text in found.items() if name.endswith(".md") and "<img" in text]
    assert any("clinic.csv" in text for text in found.values())
    assert not [name for name, text in found.items() if str(here) in text]
    lines = [line for name, text in found.items() if name.endswith(".csv") for line in text.splitlines()]
    cells = [cell.strip('"') for line in lines for cell in line.split(",")]
    assert not [cell for cell in cells if cell[:1] in "=+-@" and not is_number(cell)]


def test_exports_name_files_without_their_folders(here: Path) -> None:
    trained()
    command("export", "--to", "csv", "--out", "t.csv", "--quiet")
    assert "csv:c.csv" in Path("t.csv").read_text()
    assert str(here) not in Path("t.csv").read_text()


# Wrong types


JOURNAL = [
    {"runs": [["a"]]},
    {"runs": ["RUN"], "seconds": "abc"},
    {"runs": ["RUN"], "device": ["x"]},
    {"runs": ["RUN"], "versions": ["a"]},
    {"runs": ["RUN"], "ended": 5},
]


def test_lines_of_wrong_types_do_not_end_a_report(here: Path) -> None:
    huge = '{"runs": ["RUN"], "seconds": 1e400}\n'
    assert reported(here, journal="".join(json.dumps(line) + "\n" for line in JOURNAL) + huge)


def test_a_line_of_a_wrong_type_does_not_end_show() -> None:
    run = trained()
    with open("runs/journal.jsonl", "a") as file:
        file.write(json.dumps({"runs": [run], "how": "abc"}) + "\n")
    assert run in command("show", run)


@pytest.mark.parametrize("words", [["list", "runs"], ["export", "--to", "csv", "--out", "t.csv"]], ids=lambda w: w[0])
@pytest.mark.parametrize("chunk", [{"settings": [5]}, {"runs": ["a\0b"]}], ids=["settings", "id"])
def test_a_chunk_of_wrong_types_ends_nothing(chunk: dict[str, Any], words: list[str]) -> None:
    run, setting = trained(), Setting(rounds=4)
    folder = Path("runs/.work/chunks/00000000000000000001-01234567")
    folder.mkdir(parents=True)
    laid: dict[str, Any] = {"runs": [setting.run_id], "settings": [setting.to_json()], "device": "cpu", "how": {}}
    laid |= {"precision": "fp32", "share": 1, "memory": 1, "begun": 0, "by": "x", **chunk}
    (folder / "chunk.json").write_text(json.dumps(laid))
    done = CliRunner().invoke(cli.app, words)
    assert done.exception is None, done.exception
    assert list(Store("runs").ids()) == [run]


def test_a_title_that_is_no_text_is_refused_by_its_name() -> None:
    Path("s.toml").write_text("title = 5\n[base]\nrounds = 2\n")
    done = CliRunner().invoke(cli.app, ["report", "s.toml"])
    assert isinstance(done.exception, BadInput)
    assert "title" in str(done.exception)


# Data and caches


def test_a_small_archive_does_not_take_all_memory() -> None:
    np.savez_compressed("bomb.npz", x=np.zeros((4, 10**8), np.uint8), y=np.arange(4) % 2)
    assert Path("bomb.npz").stat().st_size < 10**6
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + (1 << 30), before[1]))
    try:
        with pytest.raises(BadInput, match=r"bomb\.npz"):
            datasets.load("npz:bomb.npz", 2)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def spoiled() -> tuple[str, list[int], Path]:
    """A table whose decoded labels somebody turned round, checksums and all."""
    spec = datasets.spelled(f"csv:{table(Path('c.csv').absolute())},label=y")
    labels = datasets.load(spec, 0).test_y.tolist()
    datasets.forget()
    (folder,) = (Path(os.environ["XDG_CACHE_HOME"]) / "baton" / "decoded").glob("csv-*")
    array = np.load(folder / "test_y.npy")
    np.save(folder / "test_y.npy", 1 - array)
    names = [path.stem for path in folder.glob("*.npy")]
    said = json.loads((folder / "checksums.json").read_text())
    sums: dict[str, Callable[[bytes], Any]] = {"crc32": zlib.crc32, "sha256": lambda b: hashlib.sha256(b).hexdigest()}
    (kind,) = sums.keys() & said.keys()
    both = {sums[kind]((folder / f"{name}.npy").read_bytes()) for name in names}
    place = next(i for i, found in enumerate(said[kind][:-1]) if found not in both)
    said[kind][place] = sums[kind]((folder / "test_y.npy").read_bytes())
    (folder / "checksums.json").write_text(json.dumps(said))
    return spec, labels, folder


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    for each in (path, *path.iterdir()):
        os.chown(each, 12345, 12345)


def give_a_file_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path / "test_y.npy", 12345, 12345)


OTHERS: dict[str, Callable[[Path], object]] = {
    "a folder of another's": give_away,
    "a file of another's": give_a_file_away,
    "a folder open to all": lambda path: path.chmod(0o777),
    "a cache open to all": lambda path: path.parents[1].chmod(0o777),
}


@pytest.mark.parametrize("way", OTHERS)
def test_samples_that_another_user_can_have_written_are_decoded_anew(
    way: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    spec, labels, folder = spoiled()
    OTHERS[way](folder)
    assert datasets.load(spec, 0).test_y.tolist() == labels


def test_kernels_are_not_kept_where_another_user_can_write(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    monkeypatch.delenv("TRITON_CACHE_DIR")
    folder = here / "cache" / "baton" / "triton"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    keep_kernels()
    assert not Path(os.environ["TRITON_CACHE_DIR"]).resolve().is_relative_to(here)
    assert Path(os.environ["TRITON_CACHE_DIR"]).stat().st_mode & 0o777 == 0o700


# The live page


@pytest.fixture
def address() -> Iterator[str]:
    """Of a page, served by a process of its own."""
    Path("s.toml").write_text('[base]\ndataset = "quadratic_random:dim=2"\nrounds = 2\n[axes]\nseed = [1, 2]\n')
    env = os.environ | {"PYTHONPATH": str(Path(baton.__file__).parents[1])}
    words = [sys.executable, "-m", "baton", "watch", "s.toml", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.kill()


def answer(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=10) as got:
            return int(got.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_is_for_those_who_know_its_address_and_connections_are_bounded(address: str) -> None:
    port = int(address.split(":")[2].split("/")[0])
    assert answer(address) == answer(f"{address}state") == 200
    assert {answer(f"http://127.0.0.1:{port}/{path}") for path in ("", "state", "fresh", "s.csv", "wrong/state")} == {
        403
    }
    held = [socket.create_connection(("127.0.0.1", port), timeout=2) for _ in range(60)]
    try:
        for each in held:
            each.sendall(b"GET / HTTP/1.0\r\n")
        assert sum(map(closed, held)) > 10
    finally:
        for each in held:
            each.close()


def closed(connection: socket.socket) -> bool:
    """Whether the server has hung up."""
    connection.settimeout(0.1)
    try:
        return not connection.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True
