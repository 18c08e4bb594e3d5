"""How --help looks: commands in groups, in the order of use; words in brackets stay; switches have no type."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import HAS_RICH, TyperCommand, TyperGroup

PANELS = {  # every command, in the order in which a person meets them
    "Start": ("demo", "list"),
    "Train": ("run", "sweep", "tune", "watch"),
    "Compare": ("compare", "advise", "show", "report", "ledger", "leak", "privacy"),
    "Theory": ("bounds", "crossover", "orders", "map", "constants", "drift"),
    "Data": ("data", "partition"),
    "Real sites": ("deploy", "site"),
    "Keep": ("export", "verify", "repair", "rm"),
}
F = TypeVar("F", bound=Callable[..., Any])
_PANEL = {name: panel for panel, names in PANELS.items() for name in names}
_PLACE = {name: place for place, name in enumerate(_PANEL)}


class Command(TyperCommand):
    """A command whose texts are shown as they are written."""

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self.help = _shown(self.help)

    def get_params(self, ctx: Any) -> Any:
        """Its own, and --help."""
        return [_plain(param) for param in super().get_params(ctx)]


class Group(TyperGroup):
    """A group of such commands."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.help = _shown(self.help)

    def get_params(self, ctx: Any) -> Any:
        """Its own, and --help."""
        return [_plain(param) for param in super().get_params(ctx)]

    def get_command(self, ctx: Any, name: str) -> Any:
        """One of them, knowing its panel."""
        found = super().get_command(ctx, name)
        if found is not None and ctx.parent is None:
            found.rich_help_panel = _PANEL.get(name)  # type: ignore[attr-defined]
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of use; what has no place comes last."""
        return sorted(super().list_commands(ctx), key=lambda name: _PLACE.get(name, len(_PLACE)))


class App(typer.Typer):
    """A Typer of such commands."""

    def __init__(self, **words: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, **words)

    def command(self, name: str | None = None, **words: Any) -> Callable[[F], F]:
        """As Typer's."""
        return super().command(name, cls=Command, **words)


def _plain(param: Any) -> Any:
    """Once: words in brackets stay, and a switch does not say that it is a bool."""
    if not getattr(param, "is_plain", False):
        param.is_plain = True
        param.help = _shown(getattr(param, "help", None))
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return param


def _shown(text: str | None) -> str | None:
    """Rich takes [all] for a colour, so that a person would never see it."""
    if not text or not HAS_RICH:
        return text
    from rich.markup import escape

    return escape(text)
