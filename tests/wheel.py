"""A wheel, built, installed into an empty environment and tried there; `make wheel` runs it.

The environment has Baton from the wheel alone. What Baton needs is taken from the environment that runs this, by a path
file, so that torch is not installed once more.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def call(*words: str | Path, cwd: Path) -> str:
    """A command that has to succeed."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def main() -> None:
    """Outside the repository: versions, studies, a run, a sweep."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        call(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", place, ROOT, cwd=place)
        (wheel,) = place.glob("baton_fl-*.whl")
        venv.create(place / "env", with_pip=False)
        own = next((place / "env" / "lib").glob("python*")) / "site-packages"
        call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", own, wheel, cwd=place)
        needed = [path for path in sys.path if path.endswith("site-packages")]  # after Baton's own
        (own / "needed.pth").write_text("\n".join(needed))
        python, tried = place / "env" / "bin" / "python", place / "tried"
        tried.mkdir()
        where = call(python, "-c", "import baton; print(baton.__file__, baton.__version__)", cwd=tried)
        assert where.startswith(str(own)), where
        assert "digits" in call(python, "-m", "baton", "list", "studies", cwd=tried)
        words = ["run", "-R", "4", "-M", "4", "--runs", "r"]
        assert "complete" in call(python, "-m", "baton", *words, cwd=tried)
        assert "complete" in call(python, "-m", "baton", "sweep", "digits", "--scale", "0.02", cwd=tried)
        print(f"{wheel.name}: built, installed and tried")


if __name__ == "__main__":
    main()
