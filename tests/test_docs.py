"""What the pages show is run as it stands there: full examples, commands, the notebook; and the site is whole."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def typed(text: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "80"}
    words = ["bash", "-euo", "pipefail", "-c", f'baton() {{ "{sys.executable}" -m baton "$@"; }}\n{text}']
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("page", ["guides/own.md", "guides/compare.md"])
def test_a_guides_examples_run(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    for kind, text in blocks:
        name = re.match(r"# (\w+\.py)\n", text)
        if kind == "python" and name:
            (tmp_path / name[1]).write_text(text)
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    assert len(commands) >= 3
    assert "complete" in typed("\n".join(commands), tmp_path)


@pytest.mark.long
def test_ten_minutes(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "index.md").read_text())
    wanted = ("baton run", "baton compare", "baton list", "baton crossover")
    lines = [line for kind, text in blocks if kind == "sh" for line in text.splitlines() if line.startswith(wanted)]
    assert len(lines) == 5
    assert "test accuracy" in typed("\n".join(lines), tmp_path)
    (code,) = [text for kind, text in blocks if kind == "python"]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 runs\n")


@pytest.mark.skipif(not find_spec("pandas"), reason="the notebook's tables need pandas, which is not installed here")
def test_the_notebook_comes_to_a_verdict(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "docs" / "notebook.py")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^(Parallel|Sequential) is ahead of |^No winner: ", done.stdout, re.MULTILINE)
    assert re.search(r"20 +north +51 +\d+\.\d+ +[01]\.\d+", done.stdout)  # a hospital's own accuracy and AUC
    assert "Linear(in_features=30, out_features=2" in done.stdout


@pytest.mark.skipif(not find_spec("mkdocs"), reason="the site needs mkdocs, which 'make docs' installs")
def test_the_site_is_built_and_a_broken_link_fails(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference" / "python.html").read_text()
    assert "The label of each sample" in reference
    assert "baton crossover" in (tmp_path / "site" / "reference" / "commands.html").read_text()
    config = (ROOT / "mkdocs.yml").read_text().replace("docs_dir: docs", f"docs_dir: {tmp_path / 'docs'}")
    config = config.replace("hooks: [docs/hooks.py]", f"hooks: [{tmp_path / 'docs' / 'hooks.py'}]")
    subprocess.run(["cp", "-r", str(ROOT / "docs"), str(tmp_path / "docs")], check=True)
    with open(tmp_path / "docs" / "index.md", "a") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text(config)
    words = [*words[:-1], str(tmp_path / "other"), "-f", str(tmp_path / "mkdocs.yml")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


@pytest.mark.parametrize("page", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")))
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    assert [target for target in links if not ((ROOT / page).parent / target).exists()] == []
