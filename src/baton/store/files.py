"""Files that appear whole or not at all; tensors in a file, with what is to be said about them."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save_file

from baton.errors import BadInput
from baton.lanes import Params


@contextmanager
def replaced(path: Path, keep: bool = False) -> Iterator[Path]:
    """Where to write what then takes the place of `path` at once: a reader sees the old file or the new one.

    keep: also safe against a power cut.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        if keep:
            with open(temporary, "r+b") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: Path, data: bytes, keep: bool = False) -> None:
    """A whole file."""
    with replaced(path, keep) as temporary:
        temporary.write_bytes(data)


def save(path: Path, tensors: Params, about: dict[str, Any], keep: bool = False) -> None:
    """Tensors, wherever they are, and a line of JSON about them."""
    own: Params = {}
    places = {0}
    for name, leaf in tensors.items():
        own[name] = leaf.cpu().contiguous()
        if own[name].data_ptr() in places:  # safetensors refuses two names for one memory
            own[name] = own[name].clone()
        places.add(own[name].data_ptr())
    with replaced(path, keep) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # whatever others may read here: safetensors makes files for their owner only
        # One metadata key: safetensors writes several in no fixed order, and the same run must give the same bytes.
        save_file(own, temporary, {"baton": json.dumps(about, sort_keys=True)})
        temporary.chmod(mode)


def about(path: Path) -> dict[str, Any]:
    """What is said about the tensors."""
    with _opened(path) as file:
        found: dict[str, Any] = json.loads(file.metadata()["baton"])
        return found


def load(path: Path, but: tuple[str, ...] = ()) -> Params:
    """The tensors, but for those whose names begin so."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys() if not name.startswith(but)}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except (safetensors.SafetensorError, TypeError, KeyError):
        raise BadInput(f"{path.name} is damaged; delete {str(path.parent)!r} to train again") from None
