"""What the README shows is run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def block(language: str, holding: str) -> str:
    (found,) = [text for kind, text in BLOCKS if kind == language and holding in text]
    return found


def shell(text: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ten_lines_of_python(tmp_path: Path) -> None:
    code = block("python", "import baton")
    assert len(code.strip().splitlines()) <= 10
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 18


def test_the_first_experiment(tmp_path: Path) -> None:
    shown = shell(block("sh", "baton compare"), tmp_path)
    assert any(word in shown for word in ("is ahead of", "No winner"))
    assert (tmp_path / "report" / "index.html").exists()


def test_five_lines_of_shell(tmp_path: Path) -> None:
    lines = block("sh", "baton run").strip().splitlines()
    assert len(lines) == 5
    shown = shell("\n".join(lines[:4]), tmp_path)
    assert "2, 2 complete" in shown
    assert "108 runs" in shown


@pytest.mark.long
def test_the_study_of_the_readme(tmp_path: Path) -> None:
    shell(block("sh", "baton run").strip().splitlines()[-1], tmp_path)
    assert (tmp_path / "report" / "index.html").stat().st_size > 100_000


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    assert [target for target in links if not ((ROOT / page).parent / target).exists()] == []
