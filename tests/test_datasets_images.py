"""Normalising and augmenting stored images: against plain loops, over lanes, and evenly drawn."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.func import grad, vmap

from baton.datasets.images import Normaliser, crop_and_flip

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


def images(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(1, 256, shape, dtype=np.uint8))


def plain(image: Tensor, down: int, right: int, flip: bool, pad: int = 4) -> Tensor:
    """Pad, crop, flip: one image [C, H, W]."""
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 2 * pad, width + 2 * pad, dtype=image.dtype)
    padded[:, pad : pad + height, pad : pad + width] = image
    crop = padded[:, down : down + height, right : right + width]
    return crop.flip(2) if flip else crop


def drawn(x: Tensor, out: Tensor, pad: int = 4) -> Tensor:
    """Which of the crops and flips each image got: [b, 3] of (down, right, flip); each must be one of them."""
    found = torch.full((len(x), 3), -1)
    for down in range(2 * pad + 1):
        for right in range(2 * pad + 1):
            for flip in (0, 1):
                made = torch.stack([plain(image, down, right, bool(flip), pad) for image in x])
                same = (made == out).flatten(1).all(1)
                assert bool((found[same] == -1).all()), "two crops look the same; the test's images are too plain"
                found[same] = torch.tensor([down, right, flip])
    assert bool((found >= 0).all()), "an image that is no crop of its original"
    return found


def test_normalising_is_the_textbook_formula() -> None:
    x = images(5, 3, 4, 6)
    for dtype in (torch.float32, torch.float64):
        ready = Normaliser(MEAN, STD)(x, dtype)
        assert ready.dtype == dtype
        for c in range(3):
            torch.testing.assert_close(ready[:, c], (x[:, c].to(dtype) / 255 - MEAN[c]) / STD[c], rtol=1e-6, atol=1e-6)
    grey = Normaliser((0.1307,), (0.3081,))(images(2, 1, 28, 28), torch.float64)
    assert grey.shape == (2, 1, 28, 28)


def test_an_augmented_image_is_a_crop_of_the_padded_one_perhaps_flipped() -> None:
    x = images(40, 3, 32, 32)
    out = crop_and_flip(x, torch.tensor(7))
    assert out.dtype == torch.uint8
    draws = drawn(x, out)
    assert len(set(map(tuple, draws.tolist()))) > 20
    kept = images(40, 3, 32, 32)
    assert torch.equal(x, kept)


@pytest.mark.parametrize(("height", "width", "pad"), [(8, 8, 4), (5, 9, 2), (6, 6, 1)])
def test_any_size_of_image_and_padding(height: int, width: int, pad: int) -> None:
    x = images(30, 2, height, width)
    drawn(x, crop_and_flip(x, torch.tensor(1), pad), pad)


def test_offsets_and_flips_are_even_and_independent() -> None:
    """Every (down, right, flip) as often as any other, over images of one batch and over batches."""
    x = images(500, 1, 6, 6)
    pad, keys = 1, torch.arange(40)
    seen = torch.cat([drawn(x, crop_and_flip(x, key, pad), pad) for key in keys])  # [20,000, 3]
    cell = seen[:, 0] * 6 + seen[:, 1] * 2 + seen[:, 2]
    counts = torch.bincount(cell, minlength=18).numpy()
    assert stats.chisquare(counts).pvalue > 1e-4
    by_image = cell.view(len(keys), len(x))
    for a, b in ((by_image[:, :-1], by_image[:, 1:]), (by_image[:-1], by_image[1:])):  # neighbours; the next batch
        pairs = torch.bincount((a * 18 + b).flatten(), minlength=324).view(18, 18).numpy()
        assert stats.chi2_contingency(pairs).pvalue > 1e-4


def test_all_offsets_of_the_paper_occur() -> None:
    x = images(600, 1, 8, 8)
    draws = drawn(x, crop_and_flip(x, torch.tensor(3)))
    for column, n in ((0, 9), (1, 9), (2, 2)):
        counts = torch.bincount(draws[:, column], minlength=n).numpy()
        assert len(counts) == n
        assert stats.chisquare(counts).pvalue > 1e-4


def test_a_draw_depends_on_the_key_and_the_place_alone() -> None:
    x = images(10, 3, 32, 32)
    one, again, other = (crop_and_flip(x, torch.tensor(key)) for key in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(crop_and_flip(x[:4], torch.tensor(1)), one[:4])


def test_lanes_draw_as_they_would_alone() -> None:
    x, keys = images(3, 4, 3, 32, 32), torch.tensor([5, 6, 5])
    together = vmap(crop_and_flip)(x, keys)
    for lane in range(3):
        assert torch.equal(together[lane], crop_and_flip(x[lane], keys[lane]))
    assert torch.equal(vmap(crop_and_flip, in_dims=(None, 0))(x[0], keys)[2], crop_and_flip(x[0], keys[2]))


def test_inside_a_gradient_over_lanes() -> None:
    """As the leg uses both: augment, prepare, differentiate, all under vmap."""
    x, keys = images(2, 4, 3, 8, 8), torch.tensor([1, 2])
    weight = torch.linspace(-1, 1, 2 * 192, dtype=torch.float64).view(2, 192)
    prepare = Normaliser(MEAN, STD)

    def loss(w: Tensor, images: Tensor, key: Tensor) -> Tensor:
        return (prepare(crop_and_flip(images, key), torch.float64).flatten(1) @ w).square().mean()

    together = vmap(grad(loss))(weight, x, keys)
    for lane in range(2):
        ready = prepare(crop_and_flip(x[lane], keys[lane]), torch.float64).flatten(1)
        right = 2 * ready.T @ (ready @ weight[lane]) / len(ready)
        torch.testing.assert_close(together[lane], right, rtol=1e-12, atol=1e-12)


def test_nothing_waits_for_or_leaves_the_device() -> None:
    """On a device without numbers, whatever looked at one or mixed in a tensor of another device would fail."""
    x, key = images(4, 3, 32, 32).to("meta"), torch.tensor(1, device="meta")
    ready = Normaliser(MEAN, STD)(crop_and_flip(x, key), torch.float32)
    assert ready.device.type == "meta"
    assert ready.shape == (4, 3, 32, 32)
