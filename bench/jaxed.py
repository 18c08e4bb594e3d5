"""The same rounds in JAX: one compiled scan over the steps of a round, vmapped over lanes.

Convolutions are matrix products of shifted slices, pooling is the maximum of slices: on a CPU, inside a scan and under
vmap, XLA's own (conv_general_dilated, and the gradient of reduce_window) take several times as long.
"""

from collections.abc import Callable
from typing import Any

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import torch
from torch import nn

from baton.datasets import prepared
from baton.models import factory
from work import Work, load

Array = Any  # of jax
Params = list[tuple[Array, Array]]  # weight and bias, layer by layer: [I, O], or [h, w, I, O] for convolutions

PAD = 4  # of the random crop


def flat(module: nn.Module) -> list[nn.Module]:
    """The layers of nested Sequentials."""
    return [layer for layer in module.modules() if not isinstance(layer, nn.Sequential)]


def weights(layers: list[nn.Module]) -> Params:
    """What torch starts from."""
    found = []
    for layer in layers:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            w = layer.weight.detach().numpy()
            assert layer.bias is not None
            found.append((w.T if w.ndim == 2 else w.transpose(2, 3, 1, 0), layer.bias.detach().numpy()))
    return found


def forward(layers: list[nn.Module], params: Params, x: Array, key: Array) -> Array:
    """x [b, H, W, C] -> logits [b, classes], in training."""
    rest = iter(params)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            w, bias = next(rest)
            x = x @ w + bias
        elif isinstance(layer, nn.Conv2d):
            w, bias = next(rest)
            x = convolution(x, w, int(layer.padding[0])) + bias
        elif isinstance(layer, nn.ReLU):
            x = jnp.maximum(x, 0)
        elif isinstance(layer, nn.MaxPool2d):
            rows = jnp.maximum(x[:, ::2], x[:, 1::2])
            x = jnp.maximum(rows[:, :, ::2], rows[:, :, 1::2])
        elif isinstance(layer, nn.Flatten):
            x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)  # in torch's order
        elif isinstance(layer, nn.Dropout):
            x = jnp.where(jax.random.bernoulli(key, 1 - layer.p, x.shape), x / (1 - layer.p), 0)
        else:
            raise NotImplementedError(type(layer).__name__)
    return x


def convolution(x: Array, w: Array, padding: int) -> Array:
    """x [b, H, W, I], w [h, w, I, O] -> [b, H', W', O]."""
    x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    high, wide = x.shape[1] - w.shape[0] + 1, x.shape[2] - w.shape[1] + 1
    shifted = [x[:, i : i + high, j : j + wide] for i in range(w.shape[0]) for j in range(w.shape[1])]
    return jnp.concatenate(shifted, -1) @ w.reshape(-1, w.shape[-1])


def crop_and_flip(x: Array, key: Array) -> Array:
    """Random crops of padded images [b, H, W, C], half of them mirrored."""
    where, which = jax.random.split(key)
    corner = jax.random.randint(where, (len(x), 2), 0, 2 * PAD + 1)
    size = (x.shape[1] - 2 * PAD, x.shape[2] - 2 * PAD, x.shape[3])
    cut = jax.vmap(lambda image, at: jax.lax.dynamic_slice(image, (at[0], at[1], 0), size))(x, corner)
    return jnp.where(jax.random.bernoulli(which, 0.5, (len(x), 1, 1, 1)), cut[:, :, ::-1], cut)


def jaxed(work: Work, lanes: int) -> Callable[[], None]:
    """One round of so many runs."""
    settings, data, held = [work.setting(i) for i in range(lanes)], load(work.dataset), work.held()
    s, build = settings[0], factory(work.model, tuple(data.x.shape[1:]), data.classes)
    layers, augmented = flat(build()), data.augment is not None
    dark, bright = (prepared(data, torch.full_like(data.x[:1], v), torch.float32)[0, :, 0, 0].numpy() for v in (0, 255))

    def loss(params: Params, pixels: Array, y: Array, weight: Array, key: Array) -> Array:
        mask, crop = jax.random.split(key)
        pixels = crop_and_flip(pixels, crop) if augmented else pixels
        x = pixels.astype(jnp.float32) * ((bright - dark) / 255) + dark
        each = -jnp.take_along_axis(jax.nn.log_softmax(forward(layers, params, x, mask)), y[:, None], 1)[:, 0]
        return (each * weight).sum() / weight.sum()

    def leg(params: Params, lr: Array, batches: tuple[Array, ...], pool: tuple[Array, Array]) -> Params:
        def step(params: Params, batch: tuple[Array, ...]) -> tuple[Params, None]:
            at, weight, key = batch
            g = jax.grad(loss)(params, pool[0][at], pool[1][at], weight, key)
            if s.clip:
                norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(g)))
                g = jax.tree.map(lambda leaf: leaf * jnp.minimum(s.clip / (norm + 1e-6), 1), g)
            return jax.tree.map(lambda leaf, slope: leaf - lr * (slope + s.weight_decay * leaf), params, g), None

        trained: Params = jax.lax.scan(step, params, batches)[0]
        return trained

    def round(
        params: Params, lr: Array, at: Array, weight: Array, key: Array, pool: tuple[Array, Array]
    ) -> tuple[Params, Array]:
        key, here = jax.random.split(key)
        batches = (at, weight, jax.random.split(here, at.shape[:2]))  # [S, K, ...]
        if s.algorithm == "parallel":
            trained = jax.vmap(leg, in_axes=(None, None, 0, None))(params, lr, batches, pool)
            return jax.tree.map(lambda leaf: leaf.mean(0), trained), key
        one_after_another = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batches)
        return leg(params, lr, one_after_another, pool), key

    draw = np.random.default_rng(s.seed)

    def batches() -> tuple[Array, Array]:
        """Places in the pool [L, S, K, b], and weights: 0 where a short batch is padded."""
        at = np.zeros((lanes, s.participants, s.local_steps, s.batch_size), np.int32)
        weight = np.zeros(at.shape, np.float32)
        for lane in range(lanes):
            for i, m in enumerate(draw.choice(s.clients, s.participants, replace=False)):
                k = 0
                while k < s.local_steps:
                    shuffled = draw.permutation(mine[m])
                    for first in range(0, len(shuffled), s.batch_size)[: s.local_steps - k]:
                        batch = shuffled[first : first + s.batch_size]
                        at[lane, i, k, : len(batch)], weight[lane, i, k, : len(batch)] = batch, 1
                        k += 1
        return at, weight

    mine = [places.numpy() for places in held]
    pixels = data.x.numpy().transpose(0, 2, 3, 1)
    if augmented:
        pixels = np.pad(pixels, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    pool = (jnp.asarray(pixels), jnp.asarray(data.y.numpy().astype(np.int32)))
    lr = jnp.asarray([setting.lr for setting in settings], jnp.float32)
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[weights(flat(build())) for _ in settings])
    key = jax.random.split(jax.random.key(s.seed), lanes)
    all_lanes = jax.vmap(round, in_axes=(0, 0, 0, 0, 0, None))
    compiled = jax.jit(all_lanes, donate_argnums=0).lower(params, lr, *batches(), key, pool).compile()

    def go() -> None:
        nonlocal params, key
        params, key = compiled(params, lr, *batches(), key, pool)
        jax.tree.map(lambda leaf: leaf.block_until_ready(), params)

    return go
