"""Where a grid is trained, as it is typed: here, on several devices, on a Ray cluster, as one of several shards."""

import re
from typing import NamedTuple

from baton.errors import BadInput


class Where(NamedTuple):
    """Options of a command that trains many runs."""

    on: str = ""  # "": this machine; else the address of a Ray cluster: auto, local, HOST:PORT, ray://HOST:PORT
    parts: int = 0  # chunks there should be at least; 0: as many as suits
    cores: int = 0  # a chunk's; 0: as many as suits
    shard: tuple[int, int] | None = None  # number from 1, of so many


HERE = Where()


def where(on: str = "", parts: int = 0, cores: int = 0, shard: str = "") -> Where:
    """The options, checked."""
    if shard and on:
        raise BadInput(
            f"shard: {shard!r} together with --on {on}; one of them is right: Ray hands out chunks by itself"
        )
    return Where(_address(on), parts, cores, _shard(shard))


def _address(on: str) -> str:
    kind, _, address = on.partition(":")
    if kind not in ("", "ray") or (kind == "" and on):
        raise BadInput(f"on: {on!r}; ray, ray:local, ray:HOST:PORT or ray://HOST:PORT is right")
    if address.startswith("//"):
        address = on
    known = address in ("", "local", "auto") or re.fullmatch(r"(ray://)?[^\s/:]+:\d{1,5}", address)
    if not known or (":" in on and not address):
        raise BadInput(
            f"on: {on!r}: {address!r} is no address of a cluster; ray:HOST:6379 or ray://HOST:10001 is right"
        )
    return address or ("any" if on else "")


def _shard(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise BadInput(f"shard: {text!r}; I/N with I from 1 to N is right, as 3/16")
    return int(match[1]), int(match[2])
