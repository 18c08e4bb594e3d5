"""What people see, at 80 and 120 columns, beside what was stored: tests/screens/*.txt.

After a change that is meant, RENEW_SCREENS=1 pytest tests/test_screens.py writes them anew; git diff shows it.
"""

import os
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from baton import cli
from baton.cli.help import PANELS

HERE = Path(__file__).parent
RUN = ["run", "-d", "quadratic:zeta=1,delta=0.5", "-R", "12", "--eval-every", "4", "--lr", "0.05"]
EXACT = ["--dtype", "float64", "--metrics", "accuracy,auc,per_class"]  # the digits shown are those of any machine
SCREENS: dict[str, list[str]] = {
    "help": ["--help"],
    "help-run": ["run", "--help"],
    "help-bounds": ["bounds", "--help"],
    "help-list": ["list", "--help"],
    "help-compare": ["compare", "--help"],
    "run": RUN,
    "run-sites": ["run", "-d", "breast_cancer", "--epochs", "2", "-R", "8", *EXACT],
    "compare": ["compare", *RUN[1:-2], "--lrs", "0.03,0.1,0.3", "--seeds", "2", "-q"],
    "list-runs": ["list", "runs", "--sort", "result"],
    "list-runs-chosen": ["list", "runs", "--where", "K=5", "-a", "parallel"],
    "list-algorithms": ["list", "algorithms"],
    "list-studies": ["list", "studies"],
    "bounds": ["bounds", "-a", "parallel"],
    "orders": ["orders", "--zeta", "2"],
    "orders-groups": ["orders", "--zeta", "2", "--groups", "5", "-S", "1"],
    "crossover": ["crossover", "--over", "S", "-M", "20", "--case", "nonconvex"],
}
PINNED = dict(re.findall(r"^([\w-]+)==(\S+)$", (HERE.parent / "constraints.txt").read_text(), re.MULTILINE))


def screen(words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = CliRunner().invoke(cli.app, words, prog_name="baton", catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    text = re.sub(r"^(computed|trained) .*\n( {10}.*\n)*", "", done.stdout, flags=re.MULTILINE)  # of this machine
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_it_was(name: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("help") and any(version(each) != PINNED[each] for each in ("typer", "rich")):
        pytest.skip("another typer or rich lays help out in another way")
    monkeypatch.chdir(tmp_path)
    if name.startswith("list-runs"):
        for more in (["-K", "5"], ["-K", "2"], ["-K", "5", "-a", "parallel"], ["--lr", "30"]):
            screen([*RUN, *more, "-q"], columns, monkeypatch)
    shown = screen(SCREENS[name], columns, monkeypatch)
    path = HERE / "screens" / f"{name}-{columns}.txt"
    if os.environ.get("RENEW_SCREENS"):
        path.write_text(shown)
    assert shown == path.read_text()
    assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize("name", [name for names in PANELS.values() for name in names])
def test_help_fits_and_swallows_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = screen([name, "--help"], 80, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    assert "<bool>" not in text
    assert "\\[" not in text
    assert not re.search(r" \.(\s|$)", re.sub(r"\s+│\n│\s+", " ", text))


def test_every_command_has_its_place() -> None:
    known = {each.name or each.callback.__name__ for each in cli.app.registered_commands if each.callback}
    known |= {str(each.name) for each in cli.app.registered_groups}
    assert known <= {name for names in PANELS.values() for name in names}


def test_a_run_of_digits_fits_and_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "-R", "8", "-M", "20", "-S", "5", "-p", "exdir:C=1,alpha=10", "-m", "mlp", "--lr", "0.03"]
    text = screen(words, 80, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    assert "data      handwritten digits (digits); 20 clients, exdir:C=1,alpha=10" in text
    assert "model     a multilayer perceptron (mlp)" in text
    assert re.search(r"\n +8 +\d\.\d+ +\d+\.\d\d ", text)
    after = text[text.index("Next, ") :].replace(" \\\n   ", "").splitlines()
    commands = [line.split() for line in after if line.startswith("  baton ")]
    assert commands[0][1:3] == ["run", "-p"]
    assert [command[1] for command in commands] == ["run", "compare", "list"]
    for command in (commands[0], commands[2]):  # what it says next can be typed
        screen(command[1:], 80, monkeypatch)
    screen([*commands[1][1:], "--seeds", "1", "--lrs", "0.03", "--runs", "others"], 80, monkeypatch)
    plan = screen(["sweep", "digits", "--dry-run"], 80, monkeypatch)
    assert max(map(len, plan.splitlines())) <= 80
    assert "54 lanes x 5,000 steps" in plan
    assert "2, 2 complete" in screen(["list", "runs"], 80, monkeypatch)


def test_a_run_that_diverges_is_told_to_go_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = screen([*RUN[:-1], "1e6", "-R", "200"], 80, monkeypatch)
    assert "Next, a smaller learning rate:\n  baton run -d quadratic:delta=0.5 -R 200 --lr 100000" in text
