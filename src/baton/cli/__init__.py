"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

import os
import sys

from baton.cli import advise, bounds, constants, data, export, leak, ledger, look, pages, partition, train, tune
from baton.cli.common import app
from baton.errors import BadInput
from baton.usercode import blamed

__all__ = [
    "advise",
    "app",
    "bounds",
    "constants",
    "data",
    "export",
    "leak",
    "ledger",
    "look",
    "main",
    "pages",
    "partition",
    "train",
    "tune",
]


def main() -> None:
    """Bad input: one line, exit code 2. Interrupted: 130."""
    sys.path.insert(0, os.getcwd())  # yourmodule:factory is looked for here too, as under `python -m`
    try:
        with blamed():
            app()
    except BadInput as error:
        print(f"baton: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # `baton list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
