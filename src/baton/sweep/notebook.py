"""Progress in a notebook: one line of a cell's output, written anew."""

import sys
from typing import Any


def line() -> Any:
    """What shows a line in place of the one before; None outside of a notebook."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    if getattr(get_ipython(), "kernel", None) is None:
        return None
    shown = display({"text/plain": "starting"}, raw=True, display_id=True)
    return None if shown is None else lambda text: shown.update({"text/plain": text}, raw=True)
