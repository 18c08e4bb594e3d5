"""The C library: compiled at first use by the machine's own compiler, and kept in a folder."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from baton.nn.native import structs

HERE = Path(__file__).parent
# No -ffast-math: it would take the liberty to assume that nothing is NaN, and divergence is told by NaN.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
NATIVE = "-march=native" if platform.machine() in ("x86_64", "AMD64", "i686") else "-mcpu=native"
DIGEST = 32  # bytes of checksum after the library's own


def library(folder: Path | None = None) -> ctypes.CDLL | None:
    """The library; None where BATON_NATIVE=0 turns it off or it cannot be compiled.

    folder: where it is kept from process to process; None: nowhere.
    """
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if os.environ.get("BATON_NATIVE") == "0" or os.name != "posix" or compiler is None:
        return None
    return _library(compiler, folder)


@cache
def _library(compiler: str, folder: Path | None) -> ctypes.CDLL | None:
    try:
        name = f"{_fingerprint(compiler)}.so"
        if folder is not None:
            with suppress(OSError):
                return _kept(compiler, folder / name)
        with tempfile.TemporaryDirectory() as temporary:  # or the folder cannot be written
            return _kept(compiler, Path(temporary) / name)
    except (OSError, subprocess.SubprocessError):
        return None


def _kept(compiler: str, path: Path) -> ctypes.CDLL:
    if not _whole(path):
        _compile(compiler, path)
    code = ctypes.CDLL(str(path))
    structs.check(code)
    return code


def _processor() -> str:
    """What -march=native depends on."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return platform.processor()


def _fingerprint(compiler: str) -> str:
    """16 hex digits of all that the compiled code depends on."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60).stdout
    digest = hashlib.sha256(repr((FLAGS, NATIVE, compiler, version, _processor())).encode())
    for path in sorted((*HERE.glob("*.c"), *HERE.glob("*.h"))):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _whole(path: Path) -> bool:
    """Whether the file is what was written: loading a damaged library could end the process."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def _compile(compiler: str, path: Path) -> None:
    """One rename puts the library in place, so that several processes may do this at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as temporary:
        made = Path(temporary) / path.name
        command = [compiler, *FLAGS, NATIVE, "-pthread", str(HERE / "leg.c"), "-o", str(made), "-lm"]
        subprocess.run(command, capture_output=True, check=True, timeout=600)
        content = made.read_bytes()
        made.write_bytes(content + hashlib.sha256(content).digest())
        os.replace(made, path)
