"""The CIFAR pickles: as official ones are written, and nothing in any of them is ever run."""

import os
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baton.datasets import pickled as reader
from baton.errors import BadInput
from made_data import made, pickled


def python2(x: np.ndarray[Any, Any], y: list[int], columns: bool = False) -> bytes:
    """A batch pickled as Python 2 and the numpy of 2009 did: byte strings, numpy.core, protocol 2."""

    def text(word: bytes) -> bytes:
        short = b"U" + struct.pack("<B", len(word)) if len(word) < 256 else b"T" + struct.pack("<i", len(word))
        return short + word

    data = x.tobytes("F" if columns else "C")
    shape = b"M" + struct.pack("<H", len(x)) + b"M" + struct.pack("<H", x.shape[1]) + b"\x86"
    dtype = b"cnumpy\ndtype\nq\x10" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ"
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x0bcnumpy\nndarray\nq\x0cK\x00\x85" + text(b"b") + b"\x87R(K\x01"
    array += shape + dtype + b"\xff\xff\xff\xffK\x00tb" + (b"\x88" if columns else b"\x89") + text(data) + b"tb"
    labels = b"](" + b"".join(b"K" + bytes([label]) for label in y) + b"e"
    names = b"](" + b"r\x40\x9c\x00\x00".join([text(b"leptodactylus_s_000004.png")] * 3) + b"e"
    parts = [text(b"batch_label"), text(b"training batch 1 of 5"), text(b"labels"), labels]
    return b"\x80\x02}q\x01(" + b"".join(parts) + text(b"data") + array + text(b"filenames") + names + b"u."


def read(tmp_path: Path, content: bytes, pixels: int = 3072) -> tuple[np.ndarray[Any, Any], list[int]]:
    (tmp_path / "data_batch_1").write_bytes(content)
    return reader.batch(tmp_path / "data_batch_1", pixels)


def refused(tmp_path: Path, content: bytes) -> str:
    with pytest.raises(BadInput) as error:
        read(tmp_path, content)
    line = str(error.value)
    assert "\n" not in line
    assert str(tmp_path / "data_batch_1") in line
    return line


@pytest.mark.parametrize("columns", [False, True])
def test_a_batch_of_python_2(tmp_path: Path, columns: bool) -> None:
    x, y = made(300, (3072,))
    content = python2(x, y.tolist(), columns)
    plain = pickle.loads(content, encoding="bytes")  # this very file is what numpy itself would read
    assert np.array_equal(plain[b"data"], x)
    pixels, labels = read(tmp_path, content)
    assert np.array_equal(pixels, x)
    assert labels == y.tolist() == plain[b"labels"]


def test_a_batch_of_python_3(tmp_path: Path) -> None:
    x, y = made(20, (3072,))
    pixels, labels = read(tmp_path, pickled(x, y.tolist()))
    assert np.array_equal(pixels, x)
    assert labels == y.tolist()


class Evil:
    """Unpickled, it makes a folder."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def shell(mark: Path) -> dict[str, bytes]:
    """Ways to run something from a pickle, beside __reduce__."""
    command = f"touch {mark}".encode()
    call = b"(S'" + command + b"'\n"
    code = f"__import__('os').mkdir({str(mark)!r})".encode()
    return {
        "GLOBAL os.system": b"cos\nsystem\n" + call + b"tR.",
        "GLOBAL posix.system": b"\x80\x02cposix\nsystem\n" + call + b"tR.",
        "GLOBAL eval": b"c__builtin__\neval\n(S" + repr(code.decode()).encode() + b"\ntR.",
        "INST": b"(S'" + command + b"'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nS'" + command + b"'\no.",
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + call + b"tR.",
        "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x11f2py.os.system.xx\x93" + call + b"tR.",
        "numpy's loader": b"cnumpy\nload\n" + call + b"tR.",
        "numpy's runstring": b"cnumpy.testing._private.utils\nrunstring\n(S'" + code + b"'\n}tR.",
        "behind a batch": pickled(*_tiny())[:-1] + b"0cos\nsystem\n" + call + b"tR.",
    }


def _tiny() -> tuple[np.ndarray[Any, Any], list[int]]:
    x, y = made(2, (3072,))
    return x, y.tolist()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("where", ["alone", "as data", "in labels"])
def test_a_malicious_pickle_is_not_run(tmp_path: Path, protocol: int, where: str) -> None:
    mark = tmp_path / "ran"
    x, y = _tiny()
    evil: Any = {
        "alone": Evil(mark),
        "as data": {b"labels": y, b"data": Evil(mark)},
        "in labels": {b"labels": [Evil(mark)], b"data": x},
    }[where]
    content = pickle.dumps(evil, protocol)
    assert "nothing in it was run" in refused(tmp_path, content)
    assert not mark.exists()
    pickle.loads(content)  # the payload is live
    assert mark.exists()


@pytest.mark.parametrize("way", shell(Path("x")))
@pytest.mark.filterwarnings("ignore")
def test_other_ways_to_run_something(tmp_path: Path, way: str) -> None:
    mark = tmp_path / "ran"
    content = shell(mark)[way]
    refused(tmp_path, content)
    assert not mark.exists()
    with pytest.raises(Exception):  # noqa: B017, PT011  the second guard holds without the first
        reader._Reader(content).load()
    assert not mark.exists()


def test_most_of_these_payloads_are_live(tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    for way in ("GLOBAL os.system", "GLOBAL eval", "INST", "OBJ", "STACK_GLOBAL", "behind a batch"):
        mark = tmp_path / way.replace(" ", "")
        pickle.loads(shell(mark)[way])
        assert mark.exists(), way


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no official CIFAR batch"),
        (b"not a pickle at all", "no official CIFAR batch"),
        (b"\x80\x02}.", "must hold b'data' and b'labels'"),
        (b"\x80\x02](K\x01K\x02e.", "must hold"),
        (b"\x80\x02Pabc\n.", "opcode PERSID"),
        (b"\x80\x02K\x01Q.", "opcode BINPERSID"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "opcode NEWOBJ"),
        (b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.", "opcode FRAME"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "LONG_BINPUT 2147483647"),
        (b"Np2147483647\n.", "PUT 2147483647"),
        (b"\x80\x02T\xff\xff\xff\x7fabc.", "no official CIFAR batch"),
        (b"\x80\x02c_codecs\nencode\n(S'a'\nS'rot13'\ntR.", "encoding"),
        (b"\x80\x02c_codecs\ndecode\n(S'a'\nS'hex'\ntR.", "_codecs.decode"),
        (b"\x80\x02cnumpy\ndtype\nS'O'\n\x85R.", "an array of b'O'"),
        (b"\x80\x02ccopy_reg\n_reconstructor\n.", "copy_reg._reconstructor"),
    ],
)
def test_what_is_no_batch_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in refused(tmp_path, content)


def test_wrong_contents_are_refused(tmp_path: Path) -> None:
    x, y = made(4, (3072,))
    labels = y.tolist()
    whole = pickled(x, labels)
    for spoiled in (whole[:-5], whole[: len(whole) // 2], whole[:1000] + whole[1001:]):
        refused(tmp_path, spoiled)
    assert "3,072 pixels a label is right" in refused(tmp_path, pickled(x, labels[:3]))
    assert "shape (4, 1024)" in refused(tmp_path, pickled(x[:, :1024], labels))
    assert "0 labels" in refused(tmp_path, pickle.dumps({b"labels": [], b"data": x[:0]}, 2))
    for other in (x.astype(np.float32), x.astype(">u2"), x.astype(object), x.tolist()):
        refused(tmp_path, pickle.dumps({b"labels": labels, b"data": other}, 2))
    for wrong in ([1.0] * 4, [None] * 4, ["1"] * 4, [True] * 4, (1, 2, 3, 4), None):
        refused(tmp_path, pickle.dumps({b"labels": wrong, b"data": x}, 2))
    refused(tmp_path, pickle.dumps({"labels": labels, "data": x}, 2))


def test_a_few_bytes_cannot_take_all_memory(tmp_path: Path) -> None:
    """One long text, encoded over and over by references to it."""
    word = b"X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00"
    start = b"\x80\x02" + word + b"0X\x06\x00\x00\x00latin1q\x010c_codecs\nencode\nq\x020]("
    content = start + b"h\x02h\x00h\x01\x86R" * 5000 + b"e."
    assert "more data than a batch holds" in refused(tmp_path, content)


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "data_batch_1", "wb") as file:
        file.truncate(reader.LARGEST + 1)
    with pytest.raises(BadInput, match="has 67,108,865 bytes"):
        reader.batch(tmp_path / "data_batch_1", 3072)


def test_reading_leaves_the_guard_as_it_was(tmp_path: Path) -> None:
    """BUILD may set attributes of what find_class gives; the next file must not meet them."""
    refused(tmp_path, b"\x80\x02c_codecs\nencode\n}(X\x08\x00\x00\x00__code__NX\x01\x00\x00\x00aK\x01ub.")
    refused(tmp_path, b"\x80\x02c_codecs\nencode\nN}X\x08\x00\x00\x00__func__Ns\x86b.")
    x, y = _tiny()
    assert read(tmp_path, pickled(x, y))[1] == y


def test_the_reader_is_a_restricted_unpickler() -> None:
    assert issubclass(reader._Reader, pickle.Unpickler)
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.print"):
        reader._Reader(b"").find_class("builtins", "print")


# Time


def doubled(depth: int) -> bytes:
    """A tuple of two that are the same tuple of two ...: each level doubles the work of hashing it, not the file."""
    return b")q\x00" + b"".join(b"0h%ch%c\x86q%c" % (k, k, k + 1) for k in range(depth))


BOMBS = {
    "shared tuples as a key": b"\x80\x02}" + doubled(60) + b"Ns.",
    "shared tuples in a list": b"\x80\x02](" + doubled(60) + b"e.",
    "a shared list": b"\x80\x02]q\x00K\x01a0h\x00.",
    "a list put after it was filled": b"\x80\x02]K\x01aq\x000h\x00.",
    "a tuple put after it was built upon": b"\x80\x02)}bq\x000h\x00.",
    "a tuple put after what lay on it went": b"\x80\x02)N0q\x000h\x00.",
    "a slot that nothing was put into": b"\x80\x02h\x05.",
    "a number as a key": b"\x80\x02}K\x01Ns.",
    "a tuple as a key": b"\x80\x02}K\x01\x85Ns.",
    "a tuple as one of many keys": b"\x80\x02}(U\x01aNK\x01\x85Nu.",
    "tuples nested deep": b"\x80\x02)" + b"\x85" * 100_000 + b".",
    "lists nested deep": b"\x80\x02" + b"(" * 50_000 + b"l" * 50_000 + b".",
    "lists put into lists": b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "dicts in dicts": b"\x80\x02" + b"}U\x01a" * 5_000 + b"N" + b"s" * 5_000 + b".",
    "opcodes without end": b"\x80\x02" + b"N0" * (10 << 20) + b".",
    "marks without end": b"\x80\x02" + b"(" * (10 << 20) + b".",
    "taking from below a mark": b"\x80\x02N(\x85.",
    "no mark at all": b"\x80\x02Nt.",
    "a copy of the top": b"\x80\x02)2.",
    "a slot by its number on the way": b"\x80\x04)\x94h\x00.",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_would_take_time_without_end_is_refused_before_it_is_built(
    tmp_path: Path, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(_: bytes) -> None:
        raise AssertionError("the unpickler was asked")

    monkeypatch.setattr(reader, "_Reader", built)
    steps, step = 0, reader._Stack.step

    def counted(self: reader._Stack, name: str, slot: int) -> None:
        nonlocal steps
        steps += 1
        step(self, name, slot)

    monkeypatch.setattr(reader._Stack, "step", counted)
    assert "nothing in it was run" in refused(tmp_path, BOMBS[bomb])
    assert steps <= reader.MOST


def test_the_bomb_of_shared_tuples_is_one() -> None:
    """Else the test above would prove nothing: each level doubles how often the innermost is hashed."""
    assert len(BOMBS["shared tuples as a key"]) < 500

    class Counted:
        times = 0

        def __hash__(self) -> int:
            Counted.times += 1
            return 1

    value: object = Counted()
    for _ in range(10):
        value = (value, value)
    hash(value)
    assert Counted.times == 1024


def test_a_batch_of_python_3_with_a_name_an_image_is_read(tmp_path: Path) -> None:
    """The most opcodes that 10,000 images take; and 10,000 times the same empty name."""
    x, y = np.zeros((10_000, 3), np.uint8), [3] * 10_000
    for names in ([f"{i}_s.png".encode() for i in range(10_000)], [b""] * 10_000):
        batch = {b"batch_label": b"b", b"labels": y, b"data": x, b"filenames": names}
        content = pickle.dumps(batch, 2)
        assert 3 * sum(1 for _ in pickletools.genops(content)) < reader.MOST
        assert read(tmp_path, content, 3)[1] == y


def test_a_long_complaint_is_cut(tmp_path: Path) -> None:
    word = b"X" + struct.pack("<I", 1 << 20) + b"a\n" * (1 << 19)
    assert len(refused(tmp_path, b"\x80\x02cnumpy\ndtype\n" + word + b"\x85R.")) < 1000
