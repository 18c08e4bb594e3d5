"""Grey pictures of 16 bits are scaled by what their values reach, and a person is told."""

from pathlib import Path

import numpy as np
import pytest

from baton import datasets

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
pytestmark = pytest.mark.trust


def pictures(folder: Path, most: int, kind: type = np.uint16, shape: tuple[int, ...] = (8, 8)) -> dict[str, np.ndarray]:
    """Two classes of pictures, dark and bright; what each file holds."""
    draw, found = np.random.default_rng(0), dict[str, np.ndarray]()
    for name, mean in (("dark", most / 4), ("bright", most * 3 / 4)):
        (folder / name).mkdir(parents=True)
        for i in range(10):
            values = np.clip(draw.normal(mean, most / 20, shape), 0, most).astype(kind)
            values.flat[0] = most if name == "bright" else 0
            Image.fromarray(values).save(folder / name / f"{i}.png")
            found[f"{name}/{i}"] = values
    return found


@pytest.mark.parametrize("most", [1000, 4095, 65535])
def test_deep_grey_pictures_keep_their_greys(most: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of 10, 12 and 16 bits: every value is its share of the deepest, to one step of 255."""
    held = pictures(tmp_path / "x", most)
    data = datasets.load(f"images:{tmp_path / 'x'}", 2)
    every = np.concatenate([data.x.numpy(), data.test_x.numpy()])
    white = (1 << most.bit_length()) - 1
    wanted = sorted(np.rint(v / white * 255).astype(np.uint8).tobytes() for v in held.values())
    assert every.shape[1:] == (1, 8, 8)  # grey, not three colours
    assert sorted(x.tobytes() for x in every) == wanted
    assert str(white) in capfd.readouterr().err


def test_a_deep_picture_among_shallow_ones_does_not_make_colours_of_all(tmp_path: Path) -> None:
    pictures(tmp_path / "x", 255, np.uint8)
    deep = np.full((8, 8), 2048, np.uint16)
    deep[0, 0] = 4095
    Image.fromarray(deep).save(tmp_path / "x" / "dark" / "deep.png")
    data = datasets.load(f"images:{tmp_path / 'x'}", 2)
    every = np.concatenate([data.x.numpy(), data.test_x.numpy()])
    assert every.shape[1:] == (1, 8, 8)
    assert any((x == 128).sum() == 63 for x in every)


def test_scaled_and_coloured_ones_keep_them_too(tmp_path: Path) -> None:
    pictures(tmp_path / "x", 4095)
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(tmp_path / "x" / "dark" / "colour.png")
    data = datasets.load(f"images:{tmp_path / 'x'},size=4", 2)
    every = np.concatenate([data.x.numpy(), data.test_x.numpy()])
    means = every.mean((1, 2, 3))
    assert every.shape[1:] == (3, 4, 4)
    assert ((means > 40) & (means < 90)).sum() == 10  # the dark ones, a quarter
    assert ((means > 170) & (means < 220)).sum() == 10
