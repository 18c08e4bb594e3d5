"""Baton: sequential and parallel federated learning, compared by measurement and by theory."""

TYPE_CHECKING = False  # nothing is imported here: under `python -m` the working folder still comes first
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"
__all__ = ["BadInput", "Data", "Setting", "Store", "Study", "compare", "run", "tune"]

_HOMES = {
    "BadInput": "errors",
    "Data": "datasets",
    "Setting": "setting",
    "Store": "store",
    "Study": "study",
    "compare": "api",
    "run": "api",
    "tune": "api",
}


def __getattr__(name: str) -> "Any":
    """Loaded on first use: `baton --help` need not wait for torch."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'baton' has no attribute {name!r}")
    return getattr(import_module(f"baton.{_HOMES[name]}"), name)
