"""What the site makes while it is built: a page of the notebook, and one of the commands.

The notebook is docs/notebook.py, in the percent format that Jupyter (with jupytext) and VS Code open; `# %%` begins a
cell, `# %% [markdown]` a text.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

HERE = Path(__file__).parent


def on_files(files: Any, config: Any) -> Any:
    """Two pages that no file has."""
    for name, text in {"notebook.md": notebook(), "reference/commands.md": commands()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def notebook() -> str:
    """The cells as Markdown."""
    found = []
    for kind, body in re.findall(r"^# %%( \[markdown\])?\n(.*?)(?=^# %%|\Z)", _cells(), re.DOTALL | re.MULTILINE):
        text = body.strip("\n")
        found.append(re.sub(r"^# ?", "", text, flags=re.MULTILINE) if kind else f"```python\n{text}\n```")
    return "\n\n".join(found)


def _cells() -> str:
    return (HERE / "notebook.py").read_text()


def commands() -> str:
    """Every command by group, with all its flags."""
    import typer.main

    from baton.cli import app
    from baton.cli.help import PANELS

    group: Any = typer.main.get_command(app)
    parts = [
        "# Commands",
        "Every command, in the order of use. `baton COMMAND --help` says the same in a terminal, and "
        "`baton --install-completion` teaches your shell the names.",
    ]
    for panel, names in PANELS.items():
        known = [name for name in names if name in group.commands]
        parts += [f"## {panel}", *(_command(f"baton {name}", group.commands[name]) for name in known)]
    return "\n\n".join(parts)


def _command(name: str, command: Any) -> str:
    inner = getattr(command, "commands", {})
    if inner:
        return "\n\n".join(_command(f"{name} {sub}", each) for sub, each in inner.items())
    rows = [f"| `{_flags(p)}` | {_cell(p.help)} |" for p in command.params if not getattr(p, "hidden", False)]
    table = "\n".join(["| flag | |", "|---|---|", *rows]) if rows else ""
    return f"### {name}\n\n{_cell(command.help)}\n\n{table}"


def _flags(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name)
    return ", ".join([*reversed(param.opts), *param.secondary_opts]) + (f" {param.metavar}" if param.metavar else "")


def _cell(text: str | None) -> str:
    plain = re.sub(r"\\(\[)", r"\1", text or "").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
    return " ".join(plain.split()).replace("[", "\\[")
