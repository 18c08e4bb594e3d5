"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

import errno
import os
import sys

from baton.cli import (
    advise,
    bounds,
    compare,
    constants,
    crossover,
    data,
    deploy,
    export,
    leak,
    ledger,
    look,
    mapping,
    orders,
    pages,
    partition,
    privacy,
    train,
    tune,
    upkeep,
)
from baton.cli.common import app
from baton.cli.interrupted import asked_again
from baton.errors import BadInput
from baton.limits import enough
from baton.shown import print
from baton.usercode import blamed

__all__ = [
    "advise",
    "app",
    "bounds",
    "compare",
    "constants",
    "crossover",
    "data",
    "deploy",
    "export",
    "leak",
    "ledger",
    "look",
    "main",
    "mapping",
    "orders",
    "pages",
    "partition",
    "privacy",
    "train",
    "tune",
    "upkeep",
]


def main() -> None:
    """Bad input: one line, exit code 2. What the system refuses: one line, exit code 1. Interrupted: 130."""
    try:
        with asked_again(), blamed(), enough("memory: too little is free, or 'ulimit -v' allows too little"):
            app()
    except BadInput as error:
        print(f"baton: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # `baton list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"baton: {where}{error.strerror or error}{_hint(error)}", file=sys.stderr)
        raise SystemExit(1) from None
    except Exception as error:
        if _stopped_while_it_loads(error):
            raise SystemExit(130) from None
        raise


def _stopped_while_it_loads(error: Exception) -> bool:
    """Ctrl-C while pydantic builds its classes comes out as an error of pydantic's."""
    return type(error).__name__ == "SchemaError" and "KeyboardInterrupt" in str(error)


def _hint(error: OSError) -> str:
    """What helps where the disk is to blame."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "; what was saved before is safe: make room, and the same command goes on from there"
    if error.errno == errno.EROFS:
        return "; a folder that may be written to is right"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "; its owner can allow it, or another folder is right"
    return ""
