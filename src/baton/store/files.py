"""Files that appear whole or not at all, and say what they should hold: JSON and tensors with a checksum inside."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save as serialised
from safetensors.torch import save_file

from baton import limits, regular
from baton.errors import BadInput
from baton.lanes import Params
from baton.nolinks import is_file, is_link

SUM = "sha256"  # the key of a JSON file's own checksum, and of a tensor file's


class Damaged(BadInput):
    """A file that is not what was written."""


@contextmanager
def replaced(path: Path, keep: bool = False) -> Iterator[Path]:
    """Where to write what then takes the place of `path` at once: a reader sees the old file or the new one.

    keep: also safe against a power cut. The temporary name is nobody else's, on whatever machine.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        if keep:
            with open(temporary, "r+b") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if keep:
            _name_kept(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _name_kept(folder: Path) -> None:
    """A folder's list of names is a file of its own; some file systems do not let it be written by hand."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write(path: Path, data: bytes, keep: bool = False) -> None:
    """A whole file."""
    with replaced(path, keep) as temporary:
        temporary.write_bytes(data)


def read(path: Path, most: int | None = None) -> bytes:
    """A whole file; what is no plain file (a pipe would wait for ever), a link, or too large for memory is damaged."""
    try:
        return regular.read(path, most, links=False)
    except BadInput as error:
        raise Damaged(str(error)) from None


def checksum(data: bytes) -> str:
    """SHA-256, in hex digits."""
    return hashlib.sha256(data).hexdigest()


# JSON


def sealed(table: Mapping[str, Any]) -> str:
    """A table as JSON in one line, with its own checksum."""
    return json.dumps({**table, SUM: checksum(_plain(table))}, sort_keys=True)


def opened(text: str | bytes) -> dict[str, Any]:
    """What `sealed` wrote, and tables of before without a checksum; ValueError where it is neither."""
    try:
        table = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(table, dict):
        raise ValueError("it is no table")
    wanted = table.pop(SUM, None)
    if wanted is not None and wanted != checksum(_plain(table)):
        raise ValueError("its checksum is that of something else")
    return table


def _plain(table: Mapping[str, Any]) -> bytes:
    return json.dumps(table, sort_keys=True).encode()


def write_json(path: Path, table: Mapping[str, Any], keep: bool = False) -> None:
    """A table, with its checksum."""
    write(path, (sealed(table) + "\n").encode(), keep)


def read_json(path: Path, most: int | None = None) -> dict[str, Any]:
    """What write_json wrote, of at most so many bytes."""
    try:
        return opened(read(path, most))
    except Damaged:
        raise
    except (ValueError, UnicodeDecodeError) as error:
        raise Damaged(f"{path.name} is damaged ({error})") from None


# Tensors


def packed(tensors: Params, about: Mapping[str, Any]) -> bytes:
    """Tensors as a file, with a line of JSON about them, and the checksum of both."""
    own = _own(tensors)
    return serialised(own, _metadata(own, about))


def save(path: Path, tensors: Params, about: Mapping[str, Any], keep: bool = False) -> None:
    """The same straight to a file: they may be large."""
    own = _own(tensors)
    with replaced(path, keep) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # whatever others may read here: safetensors makes files for their owner only
        try:
            save_file(own, temporary, _metadata(own, about))
        except safetensors.SafetensorError as error:
            raise _as_os_error(error, path) from None
        temporary.chmod(mode)


def _own(tensors: Params) -> Params:
    """On the CPU, in one piece, and each in a place of its own: safetensors refuses two names for one memory."""
    own: Params = {}
    places = {0}
    for name, leaf in tensors.items():
        own[name] = leaf.cpu().contiguous()
        if own[name].data_ptr() in places:
            own[name] = own[name].clone()
        places.add(own[name].data_ptr())
    return own


def _metadata(own: Params, about: Mapping[str, Any]) -> dict[str, str]:
    """One key: safetensors writes several in no fixed order, and the same run must give the same bytes."""
    return {"baton": json.dumps({**about, SUM: _sum(own, about)}, sort_keys=True)}


def _as_os_error(error: Exception, path: Path) -> OSError:
    """What safetensors says when the system refuses to write, as the system says it."""
    words = str(error)
    number = words.partition("os error ")[2].partition(")")[0]
    return OSError(int(number), os.strerror(int(number)), str(path)) if number.isdigit() else OSError(words)


def _sum(tensors: Params, about: Mapping[str, Any]) -> str:
    """Of the tensors, on the CPU and in one piece, and of what is said about them."""
    digest = hashlib.sha256(_plain(about))
    for name in sorted(tensors):
        leaf = tensors[name]
        digest.update(f"\0{name}\0{leaf.dtype}\0{tuple(leaf.shape)}\0".encode())
        digest.update(leaf.reshape(-1).view(torch.uint8).numpy().data if leaf.numel() else b"")
    return digest.hexdigest()


def about(path: Path) -> dict[str, Any]:
    """What is said about the tensors."""
    with _tensors(path) as file:
        return _about(file)[0]


def _about(file: Any) -> tuple[dict[str, Any], str | None]:
    found = json.loads(file.metadata()["baton"])
    return found, found.pop(SUM, None)


def has_sum(path: Path) -> bool:
    """Whether a file of tensors knows its checksum: those of before do not."""
    with _tensors(path) as file:
        return _about(file)[1] is not None


def load(path: Path, but: tuple[str, ...] = ()) -> Params:
    """The tensors, but for those whose names begin so, once all of them are what was written."""
    with _tensors(path) as file:
        limits.fits(2 * path.stat().st_size, f"{path.name} is too large")
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        told, wanted = _about(file)
        if wanted is not None and wanted != _sum(found, told):
            raise Damaged(f"{path.name} is damaged: its checksum is that of something else")
        return {name: leaf for name, leaf in found.items() if not name.startswith(but)}


def part(path: Path, prefixes: tuple[str, ...]) -> tuple[dict[str, Any], Params]:
    """What is said about the tensors, and those whose names begin so, unchecked: for a look while it trains."""
    with _tensors(path) as file:
        names = [name for name in file.keys() if name.startswith(prefixes)]  # noqa: SIM118
        return _about(file)[0], {name: file.get_tensor(name) for name in names}


@contextmanager
def _tensors(path: Path) -> Iterator[Any]:
    if not is_file(path):
        if is_link(path):
            raise Damaged(f"{path}: cannot be read: it is a link, not a regular file")
        raise FileNotFoundError(2, "No such file", str(path))
    try:
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except BadInput:
        raise
    except (safetensors.SafetensorError, TypeError, KeyError, ValueError, AttributeError, RecursionError):
        raise Damaged(f"{path.name} is damaged") from None
