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

from baton import private
from baton.nn.native import structs
from baton.notice import once

HERE = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")  # the first that is there
# No -ffast-math: it would take the liberty to assume that nothing is NaN, and divergence is told by NaN.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
NATIVE = "-march=native" if platform.machine() in ("x86_64", "AMD64", "i686") else "-mcpu=native"
DIGEST = 32  # bytes of checksum after the library's own


class _NotLoaded(OSError):
    """The system does not take the library."""


def library(folder: Path | None = None) -> ctypes.CDLL | None:
    """The library; None where BATON_NATIVE=0 turns it off or it cannot be compiled.

    folder: where it is kept from process to process; None: nowhere.
    """
    found = found_or_why(folder)
    return None if isinstance(found, str) else found


def found_or_why(folder: Path | None = None) -> ctypes.CDLL | str:
    """The library, or why there is none."""
    compiler = _compiler()
    if os.environ.get("BATON_NATIVE") == "0":
        return "BATON_NATIVE=0"
    if os.name != "posix":
        return f"not on {os.name}"
    if compiler is None:
        return f"no compiler found ({', '.join(COMPILERS)})"
    return _library(compiler, folder)


def _compiler() -> str | None:
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


@cache
def _library(compiler: str, folder: Path | None) -> ctypes.CDLL | str:
    try:
        name = f"{_fingerprint(compiler)}.so"
        if folder is not None:
            with suppress(OSError):
                place = private.made(folder)
                why = private.open_to(place)
                if not why:
                    return _kept(compiler, place / name)
                once(f"code compiled before is not used, since {why}; it is compiled anew ('chmod go-w' would do)")
        with tempfile.TemporaryDirectory(prefix="baton-") as temporary:  # or the folder cannot be written
            return _kept(compiler, Path(temporary) / name)
    except _NotLoaded as error:
        return f"loading the compiled code failed ({error})"
    except (OSError, subprocess.SubprocessError) as error:
        return f"compiling failed ({_said(error)})"


def _said(error: Exception) -> str:
    """The compiler's last line, the last that speaks of an error if any does."""
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
    lines = [line.strip() for line in (text or b"").decode(errors="replace").splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
    return last or " ".join(str(error).split())


def _kept(compiler: str, path: Path) -> ctypes.CDLL:
    if not _whole(path):
        _compile(compiler, path)
    try:
        code = ctypes.CDLL(str(path))
    except OSError as error:
        raise _NotLoaded(" ".join(str(error).split())) from None
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
    """Whether the file is what we wrote: loading a damaged one could end the process, another's could do anything."""
    content = private.content(path)
    return content is not None and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def _compile(compiler: str, path: Path) -> None:
    """One rename puts the library in place, so that several processes may do this at once."""
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as temporary:
        made = Path(temporary) / path.name
        command = [compiler, *FLAGS, NATIVE, "-pthread", str(HERE / "leg.c"), "-o", str(made), "-lm"]
        subprocess.run(command, capture_output=True, check=True, timeout=600)
        content = made.read_bytes()
        made.write_bytes(content + hashlib.sha256(content).digest())
        made.chmod(0o700)  # whatever the umask
        os.replace(made, path)


@cache
def compiler() -> str:
    """What made the library, for people: the compiler's own line, and all that the code depends on as a number."""
    path = _compiler()
    if path is None:
        return "none"
    said = subprocess.run([path, "--version"], capture_output=True, check=True, timeout=60, text=True).stdout
    return f"{said.splitlines()[0]}, {_fingerprint(path)}"
