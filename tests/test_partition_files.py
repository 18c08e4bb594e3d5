"""Maps in files: what is written is read, what is wrong is one line, the published ones fit what ExDir draws here."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from baton.clients import owners
from baton.errors import BadInput
from baton.names import bind, canonical, signature, split
from baton.partitions import PARTITIONS
from baton.partitions.exdir import balanced, exdir
from baton.partitions.from_file import dump, file, parse
from baton.partitions.holders import Holders
from baton.partitions.measures import table
from baton.setting import Setting
from baton.simulate.engine import Program, start

SHARED = Path(__file__).parents[2] / "shared" / "data"
PUBLISHED = [f"{data}_M500_exdir_C{C}_a10" for data in ("mnist", "fashionmnist", "cifar10") for C in (1, 2)]


def refused(content: str | bytes, samples: int = 4, clients: int = 2) -> str:
    with pytest.raises(BadInput) as error:
        parse(content.encode() if isinstance(content, str) else content, samples, clients)
    assert "\n" not in str(error.value)
    return str(error.value)


# Reading and writing


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(7, 9))
def test_written_and_read(owner: list[int], clients: int) -> None:
    text = dump(np.array(owner), clients)
    assert list(json.loads(text)) == [str(m) for m in range(clients)]
    assert parse(text.encode(), len(owner), clients).tolist() == owner


def test_clients_and_samples_in_any_order() -> None:
    assert parse(b'{"1": [3, 0], "0": [2], "2": [1]}', 4, 3).tolist() == [1, 2, 0, 1]
    assert parse(b'{"0": [1, 0], "1": []}', 2, 2).tolist() == [0, 0]
    assert parse(b'\xef\xbb\xbf {"0": [0]}\n', 1, 1).tolist() == [0]


BAD = {
    "": "not JSON (Expecting value",
    '{"0": [0, 1], ': "not JSON",
    b"\xff\xfe\x00\xd8": "not JSON",
    "[" * 100_000: "not JSON",
    "[[0, 1], [2, 3]]": "not a map of clients",
    "3": "not a map of clients",
    "null": "not a map of clients",
    "{}": 'it has 0 clients, and clients = 2; "0" to "1" are right',
    '{"0": [0, 1], "one": [2, 3]}': "client 'one' is not a number",
    '{"0": [0, 1], "-1": [2, 3]}': "client '-1' is not a number",
    '{"0": [0, 1], "01": [2, 3]}': "client '01' is not a number",
    '{"0": [0, 1], "": [2, 3]}': "client '' is not a number",
    '{"0": [0, 1], "٣": [2, 3]}': "is not a number",
    '{"0": [0, 1, 2, 3]}': "it has 1 clients, the last is 0, and clients = 2",
    '{"0": [0, 1], "2": [2, 3]}': "it has 2 clients, the last is 2, and clients = 2",
    '{"0": [0, 1], "1": [2], "2": [3]}': "it has 3 clients, the last is 2, and clients = 2",
    '{"0": [0, 1], "1": [2], "1": [3]}': "client 1 occurs twice",
    '{"0": [0, 1], "1": 3}': "client 1 has 3; a list of sample indices is right",
    '{"0": [0, 1], "1": null}': "client 1 has None; a list",
    '{"0": [0, 1], "1": {"2": 3}}': "client 1 has [('2', 3)]; a list",
    '{"0": [0, 1], "1": {}}': "client 1 has []; a list",
    '{"0": [0, 1], "1": "23"}': "client 1 has '23'; a list",
    '{"0": [0, 1], "1": [2, 3.0]}': "3.0 is not an index of a sample; whole numbers are right",
    '{"0": [0, 1], "1": [2, "3"]}': "'3' is not an index",
    '{"0": [0, 1], "1": [2, true]}': "True is not an index",
    '{"0": [0, 1], "1": [2, null]}': "None is not an index",
    '{"0": [0, 1], "1": [2, NaN]}': "nan is not an index",
    '{"0": [0, 1], "1": [2, [3]]}': "[3] is not an index",
    '{"0": [0, 1], "1": [2, 4]}': "sample 4 is not in the data set; 0 to 3 is right",
    '{"0": [0, 1], "1": [2, -1]}': "sample -1 is not in the data set",
    '{"0": [0, 1], "1": [2, 99999999999999999999999999999]}': "sample 99999999999999999999999999999 is not",
    '{"0": [0, 1], "1": [2, 0]}': "sample 0 occurs 2 times; each sample has one client",
    '{"0": [0, 1], "1": [2, 2]}': "sample 2 occurs 2 times",
    '{"0": [0, 1], "1": [3]}': "3 of the 4 training samples have a client, sample 2 for one has none",
}


@pytest.mark.parametrize("content", BAD, ids=[str(i) for i in range(len(BAD))])
def test_a_wrong_map_is_one_line(content: str | bytes) -> None:
    assert BAD[content] in refused(content)


def test_the_line_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"0": [0, 5]}')
    with pytest.raises(BadInput) as error:
        file(np.zeros(2, dtype=np.int64), 1, path=str(path))
    assert str(error.value) == f"partition: {str(path)!r}: sample 5 is not in the data set; 0 to 1 is right"


# The spec


@pytest.mark.parametrize("name", ["m.json", "a,b.json", "C=1,alpha=2", "a:b:c.json", "with space #1.json", "ä=ö", "#"])
def test_any_path_has_one_spelling(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("{}")
    spec = canonical("partition", f"file:{path}", PARTITIONS)
    assert spec == f"file:{path}#44136fa355b3"  # sha256 of {}
    assert canonical("partition", spec, PARTITIONS) == spec
    assert bind("partition", spec, PARTITIONS)[2] == {"path": f"{path}#44136fa355b3"}
    assert split("partition", spec, PARTITIONS)[0] == "file"


def test_how_it_is_listed() -> None:
    assert signature("file", file) == "file:PATH"
    assert signature("exdir", exdir) == "exdir:C=…,alpha=…,form=plain,[min_samples=…],exact=false,seed=0"


@pytest.mark.parametrize("spec", ["file", "file:", "file: "])
def test_a_path_is_needed(spec: str) -> None:
    with pytest.raises(BadInput, match="partition: file needs its path, as in file:PATH"):
        Setting(partition=spec)


def test_no_such_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path, Path("/dev/null"), "a\0b"):
        with pytest.raises(BadInput, match=r"partition: .*file") as error:
            Setting(partition=f"file:{path}")
        assert "\n" not in str(error.value)


def test_other_content_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, owner = Path("m.json"), np.arange(1437) % 3
    path.write_text(dump(owner, 3))
    first = Setting(partition="file:m.json", clients=3)
    assert np.array_equal(owners(first.dataset, first.partition, 3), owner)
    path.write_text(dump(2 - owner, 3))
    second = Setting(partition="file:m.json", clients=3)
    assert second.run_id != first.run_id
    assert second.shape_key == first.shape_key
    assert np.array_equal(owners(second.dataset, second.partition, 3), 2 - owner)
    path.unlink()
    assert Setting.from_json(first.to_json()) == first  # a stored run is read without the file
    path.write_text(dump((owner + 1) % 3, 3))
    with pytest.raises(BadInput, match="has other content"):
        file(np.zeros(1437, dtype=np.int64), 3, path=first.partition.removeprefix("file:"))


def test_a_map_trains(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    drawn = owners("digits", "exdir:C=2,alpha=10", 12)
    path.write_text(dump(drawn, 12))
    base = {"clients": 12, "participants": 3, "rounds": 2}
    settings = [Setting(partition=spec, **base) for spec in ("exdir:C=2,alpha=10", f"file:{path}")]
    program = Program(settings, torch.device("cpu"))
    at = start(program)
    for name, series in at.history.items():
        assert series[-1][1][0] == series[-1][1][1], name


# The published maps


def published(name: str) -> Path:
    path = SHARED / "partitions" / f"{name}.json"
    if not path.is_file():
        pytest.skip("the published partitions are not in ../shared/data/partitions")
    return path


def labels_of(name: str) -> NDArray[np.int64]:
    """The official training labels, where ../shared has them."""
    idx, batches = SHARED / "mnist" / "train-labels-idx1-ubyte.gz", SHARED / "cifar10-jpeg.npz"
    if name.startswith("mnist") and idx.is_file():
        return np.frombuffer(gzip.decompress(idx.read_bytes())[8:], dtype=np.uint8).astype(np.int64)
    if name.startswith("cifar10") and batches.is_file():
        return np.load(batches)["ytr"].astype(np.int64)
    pytest.skip(f"the labels of {name.split('_')[0]} are not in ../shared/data")


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_maps_read(name: str) -> None:
    content = published(name).read_bytes()
    samples = 50_000 if name.startswith("cifar10") else 60_000
    owner = parse(content, samples, 500)
    sizes = np.bincount(owner, minlength=500)
    assert sizes.mean() == samples / 500
    assert sizes.min() >= 10
    again = json.loads(dump(owner, 500))
    assert again == {client: sorted(part) for client, part in json.loads(content).items()}


def facts(held: NDArray[np.int64]) -> dict[str, float]:
    """What the comparison looks at: sizes, clients with one class, spread of each class over its clients."""
    sizes = held.sum(1)
    parts = [column[column > 0] for column in held.T]
    low, high = np.quantile(sizes, [0.1, 0.9])
    return {
        "smallest": sizes.min(),
        "largest": sizes.max(),
        "10%": low,
        "90%": high,
        "deviation": sizes.std(),
        "one class": ((held > 1).sum(1) < 2).sum(),
        "within classes": np.mean([part.std() / part.mean() for part in parts]),
    }


@pytest.mark.parametrize("name", [name for name in PUBLISHED if "fashion" not in name])
def test_the_dirichlet_step_is_the_published_one(name: str) -> None:
    """Over the published allocation of classes, 200 draws here: the published partition is one of their kind.

    A client that was full before its second class shows one class only; its second is drawn from the later ones. One
    published client has single samples of four more classes, leftovers of rounding: they are put back.
    """
    C, labels = int(name[-5]), labels_of(name)
    seen = table(parse(published(name).read_bytes(), len(labels), 500), labels, 500, 10)
    seen[(seen > 0).sum(1) > 2] *= seen[(seen > 0).sum(1) > 2] > 1
    sizes, draw, found = np.bincount(labels), np.random.default_rng(0), []
    for _ in range(200):
        holds = seen > 0
        for m in np.flatnonzero(holds.sum(1) < C):
            later = np.arange(np.flatnonzero(holds[m])[-1] + 1, 10)
            holds[m, draw.choice(later if len(later) else np.flatnonzero(~holds[m]))] = True
        kind, client = np.nonzero(holds.T)
        counts = balanced(draw, 10.0, sizes, Holders(client, np.concatenate([[0], np.cumsum(holds.sum(0))])))
        held = np.zeros_like(seen)
        held[client, kind] = counts
        found.append(facts(held))
    for what, value in facts(seen).items():
        drawn = np.array([one[what] for one in found])
        assert drawn.min() <= value <= drawn.max(), what
        assert abs(value - drawn.mean()) <= 3 * drawn.std(), what
    if C == 1:  # each share against its Beta marginal
        holders = (seen > 0).sum(0)
        u = [stats.beta(10, 10 * (holders[c] - 1)).cdf(seen[seen[:, c] > 0, c] / sizes[c]) for c in range(10)]
        assert stats.kstest(np.concatenate(u), "uniform").pvalue > 0.01


def test_classes_are_allocated_as_in_the_published_maps() -> None:
    """Clients a class are binomial; over all maps with labels together, as over draws here."""
    statistic, draws = 0.0, 0
    for name in PUBLISHED:
        if "fashion" not in name:
            C, labels = int(name[-5]), labels_of(name)
            held = table(parse(published(name).read_bytes(), len(labels), 500), labels, 500, 10) > 1
            p = C / 10
            statistic += (((held.sum(0) - 500 * p) ** 2) / (500 * p * (1 - p))).sum() * 0.9  # 9 degrees of freedom
            draws += 9
    assert 1e-3 < stats.chi2(draws).sf(statistic) < 1 - 1e-3


@pytest.mark.parametrize("C", [1, 2])
def test_own_draws_look_like_the_published(C: int) -> None:
    """Allocation included: sizes within the range of 40 draws here, most clients with C classes."""
    labels = labels_of("mnist")
    seen = facts(table(parse(published(f"mnist_M500_exdir_C{C}_a10").read_bytes(), 60_000, 500), labels, 500, 10))
    made = [facts(table(exdir(labels, 500, C=C, alpha=10.0, seed=s), labels, 500, 10)) for s in range(40)]
    for what in ("smallest", "largest", "10%", "within classes"):
        drawn = [one[what] for one in made]
        assert min(drawn) * 0.95 <= seen[what] <= max(drawn) * 1.05, what
