"""Whole legs of small models on a CPU, in C: all steps of all lanes in one call.

Never required: where there is nothing to gain or no compiler, `compile` gives None, and the lanes go through torch.
"""

import ctypes
import mmap
from collections import Counter
from math import ceil, prod
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from baton.lanes import Params
from baton.nn.graph import SAMPLES, Layer
from baton.nn.native.build import found_or_why
from baton.nn.native.structs import CONV, DROPOUT, LINEAR, NO_MEMORY, NO_SPACE, POOL, RELU, Job, Outline
from baton.notice import once

SPLIT = 5e7  # multiplications of a step from which on it pays to split a lane's batch between threads
ALONE = 1e6  # and of a call below which starting a thread costs more than it gains
BLOCK = 1 << 17  # numbers of the samples that are evaluated at once: what stays close to the core


class Pixels(NamedTuple):
    """How stored bytes become the model's input: byte * scale[c] + shift[c]."""

    scale: tuple[float, ...]  # one a channel, or one for all
    shift: tuple[float, ...]


class _Space:
    """Memory that the kernels work in, kept from call to call: fresh pages would cost as much as a step does."""

    def __init__(self, floats: int) -> None:
        self._pages = mmap.mmap(-1, 4 * floats, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # private: not shared by a fork
        if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
            self._pages.madvise(mmap.MADV_HUGEPAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self.floats = floats


def compile(
    layers: list[Layer],
    sizes: dict[str, tuple[int, ...]],
    sample: tuple[int, ...],
    pixels: Pixels | None,
    cut: int = 0,
    apart: bool = False,
    folder: Path | None = None,
) -> "Kernels | None":
    """Kernels of a chain of layers; sizes: of one lane's parameters, sample: of one input as it is stored.

    cut: of a model in split form, the layers on the client's side; apart: each side clips by its own norm; folder:
    where compiled code is kept from process to process.
    None for layers that are not such a chain, and where there is no compiler.
    """
    stages = _stages(layers, sizes, sample, cut or len(layers))
    planes = sample[0] if len(sample) == 3 else 1
    if pixels is not None and {len(pixels.scale), len(pixels.shift)} - {1, planes}:
        raise ValueError(f"pixels: {len(pixels.scale)} scales and {len(pixels.shift)} shifts for {planes} channels")
    if not stages:
        return None
    code = found_or_why(folder)
    if isinstance(code, str):
        once(f"training in PyTorch, not in C, which is faster: {code}")
        return None
    return Kernels(code, stages, sizes, sample, pixels or Pixels((1.0,), (0.0,)), apart)


def _stages(
    layers: list[Layer], sizes: dict[str, tuple[int, ...]], sample: tuple[int, ...], cut: int
) -> list[Outline] | None:
    """Layers as leg.c takes them: no flattening, and ReLU and pooling right after a convolution as a part of it.

    Those from `cut` on are the server's; no stage is on both sides.
    """
    names, used = list(sizes), Counter[str]()
    calls: Counter[int] = Counter()
    image: tuple[int, ...] = sample if len(sample) == 3 else (prod(sample), 1, 1)  # as the buffers see what comes in
    shape = sample  # as torch sees it
    stages: list[Outline] = []
    for i, layer in enumerate(layers):
        if layer.inputs != ((i - 1,) if i else (SAMPLES,)):
            return None
        c, h, w = image
        new = Outline(side=i >= cut, c=c, h=h, w=w, oc=c, oh=h, ow=w, weight=-1, bias=-1)
        if layer.weight:
            used.update(name for name in (layer.weight, layer.bias) if name)
            new.weight = names.index(layer.weight)
            new.bias = names.index(layer.bias) if layer.bias else -1
        last = stages[-1] if stages and stages[-1].side == new.side else None
        if layer.kind == "conv" and len(shape) == 3:
            new.kind, new.kernel, new.stride, new.padding = CONV, sizes[layer.weight][-1], layer.stride, layer.padding
            new.oc, new.oh, new.ow = image = layer.shape
            stages.append(new)
        elif layer.kind == "linear" and len(shape) == 1:
            new.kind, new.oc, new.oh, new.ow = LINEAR, layer.shape[0], 1, 1
            image = (new.oc, 1, 1)
            stages.append(new)
        elif layer.kind == "pool" and len(shape) == 3:
            if last is not None and last.kind == CONV and not last.pool:
                last.pool = 1
            else:
                new.kind = POOL
                stages.append(new)
            image = layer.shape
        elif layer.kind == "relu":
            if last is not None and last.kind == CONV:  # before or after its pooling: the same
                last.relu = 1
            else:
                new.kind = RELU
                stages.append(new)
        elif layer.kind == "dropout":
            p = float(torch.tensor(layer.p, dtype=torch.float32))  # as torch compares it
            new.kind, new.threshold, new.number, new.call = DROPOUT, ceil(p * 2**24), layer.number, calls[layer.number]
            new.scale = 1.0 / (1.0 - layer.p) if layer.p < 1.0 else 0.0
            calls[layer.number] += 1
            if layer.p > 0.0:
                stages.append(new)
        elif layer.kind == "flatten":
            if not stages:
                image = (prod(image), 1, 1)
        else:
            return None
        shape = layer.shape
    once = len(used) == len(sizes) and set(used.values()) == {1}  # each parameter in one layer
    sides = {stage.side for stage in stages} == ({0, 1} if cut < len(layers) else {0})
    return stages if once and sides and image == (*shape, 1, 1) else None


class _Leaves:
    """One tensor a parameter, and where C finds the list of them while this is alive."""

    def __init__(self, leaves: list[Tensor], repeat: int = 1) -> None:
        """repeat: legs in a row that one lane of theirs stands for."""
        self.leaves, self.repeat = leaves, repeat
        self._pointers = (ctypes.c_void_p * len(leaves))(*(t.data_ptr() for t in leaves))
        self.address = ctypes.addressof(self._pointers)


class Kernels:
    """A model's leg and its evaluation, over lanes."""

    def __init__(
        self,
        code: ctypes.CDLL,
        stages: list[Outline],
        sizes: dict[str, tuple[int, ...]],
        sample: tuple[int, ...],
        pixels: Pixels,
        apart: bool,
    ) -> None:
        self._space: _Space | None = None
        self._apart = apart
        self._run = code.baton_run
        self._run.argtypes, self._run.restype = [ctypes.c_void_p], ctypes.c_int
        self._outlines = (Outline * len(stages))(*stages)
        self._sizes, self._names, self._sample = sizes, list(sizes), sample
        self._floats = torch.tensor([prod(size) for size in sizes.values()], dtype=torch.int64)
        planes = sample[0] if len(sample) == 3 else 1
        self._pixels = [torch.tensor(v * (1 if len(v) > 1 else planes), dtype=torch.float32) for v in pixels]
        self.classes = stages[-1].oc
        numbers = (prod(sizes[list(sizes)[s.weight]]) * s.oh * s.ow if s.weight >= 0 else 0 for s in stages)
        self._products = sum(numbers)  # of one sample's forward pass
        largest = sum(s.c * (s.h + 2 * s.padding) * (s.w + 2 * s.padding) for s in stages)
        self._block = max(32, min(256, BLOCK // largest))

    def steps(
        self,
        params: Params,
        lr: Tensor,
        clip: Tensor,
        weight_decay: Tensor,
        pool_x: Tensor,
        pool_y: Tensor,
        places: Tensor,
        weight: Tensor,
        key: Tensor,
        threads: int,
        *,
        momentum: Tensor | None = None,
        pull: Tensor | None = None,
        anchor: Params | None = None,
        shift: Params | None = None,
        velocity: Params | None = None,
        inverse: Tensor | None = None,
        direction: Params | None = None,
        square: Params | None = None,
    ) -> Params:
        """params after K steps of each lane, g being the gradient of the mean cross-entropy over samples of weight 1.

            d = clip(g) + weight_decay x + pull (x - anchor) + shift;  v = momentum v + d;  x -= lr v

        A term that is None is left out. params may have L / n lanes: then each of theirs is where n in a row start
        from. So may anchor (None: params) and shift, each on its own. lr, clip (0: none), weight_decay, momentum, pull
        [L]; pool_x [N, *sample] uint8 or float32 (taken as it is); pool_y [N]; places [L, K, b] in the pool; weight
        [L, K, b] 1, or 0 for padding; key [L, K] of dropout. A step without samples is not taken, and a lane with
        lr = 0 stays as it is. velocity [L, ...]: v, written over, so that another call can go on from there; None: 0.
        direction [L, ...], where there is an inverse [L]: written over with (start - end) inverse - shift.
        square [L, ...]: written over with the mean of d^2; then all d are taken at the start, x - lr (their sum) is
        what comes back, and there is no momentum.

        A lane's result is the same to the bit alone and among others, unless there are threads left over and the
        model is heavy: then its batch is split between them, and the sums are rounded in another order.
        """
        lanes, steps, batch = places.shape
        start = self._leaves(params, lanes)
        anchors = None if pull is None else start if anchor is None else self._leaves(anchor, lanes)
        shifts = None if shift is None else self._leaves(shift, lanes)
        speeds = None if momentum is None or velocity is None else self._written(velocity, lanes)
        seen = None if square is None else self._written(square, lanes)
        told = None if inverse is None or direction is None else self._written(direction, lanes)
        terms = (lr, clip, weight_decay, momentum, pull, inverse)
        numbers = [None if v is None else self._vector(v, (lanes,), torch.float32) for v in terms]
        weight = self._vector(weight, (lanes, steps, batch), torch.float32)
        places = self._vector(places, (lanes, steps, batch), torch.int64)
        key = self._vector(key, (lanes, steps), torch.int64)
        labels = self._vector(pool_y, (len(pool_x),), torch.int64)
        results = _Leaves([torch.empty(lanes, *size) for size in self._sizes.values()])
        if batch < 1:
            raise ValueError("places: no samples in a batch")
        if lanes:
            job = Job(lanes=lanes, steps=steps, batch=batch, block=batch, apart=self._apart, results=results.address)
            vectors = (None if v is None else v.data_ptr() for v in numbers)
            job.lr, job.clip, job.decay, job.momentum, job.pull, job.inverse = vectors
            job.weight, job.key, job.pool.y = weight.data_ptr(), key.data_ptr(), labels.data_ptr()
            if anchors:
                job.anchor, job.anchor_repeat = anchors.address, anchors.repeat
            if shifts:
                job.shift, job.shift_repeat = shifts.address, shifts.repeat
            if speeds:
                job.velocity = speeds.address
            if told:
                job.direction = told.address
            if seen:
                job.square = seen.address
            self._call(job, start, pool_x, places, 3 * batch, steps, threads)
        return dict(zip(params, results.leaves, strict=True))

    def logits(self, params: Params, pool_x: Tensor, places: Tensor, threads: int) -> Tensor:
        """Outputs [L, n, classes] without dropout; places [n], the same for all lanes, or [L, n]."""
        lanes = len(next(iter(params.values())))
        leaves = self._leaves(params, lanes)
        count = places.shape[-1]
        shared = places.dim() == 1
        places = self._vector(places, (count,) if shared else (lanes, count), torch.int64)
        outputs = torch.empty(lanes, count, self.classes)
        if lanes and count:
            job = Job(lanes=lanes, steps=1, batch=count, shared=shared, block=min(self._block, count))
            job.logits = outputs.data_ptr()
            self._call(job, leaves, pool_x, places, count, 1, threads)
        return outputs

    def _call(
        self, job: Job, params: _Leaves, pool_x: Tensor, places: Tensor, passes: int, steps: int, threads: int
    ) -> None:
        """Fill in what both calls share, and run; passes: forward passes of one sample that a step is worth."""
        if pool_x.dtype not in (torch.uint8, torch.float32) or tuple(pool_x.shape[1:]) != self._sample:
            kind = f"{pool_x.dtype} {tuple(pool_x.shape)}"
            raise ValueError(f"pool: {kind}; uint8 or float32 [N, {', '.join(map(str, self._sample))}] is right")
        pool_x = pool_x.contiguous()
        step = self._products * passes
        job.outlines, job.stages = ctypes.addressof(self._outlines), len(self._outlines)
        job.params, job.repeat, job.sizes = params.address, params.repeat, self._floats.data_ptr()
        job.pool.x, job.pool.bytes, job.pool.samples = pool_x.data_ptr(), pool_x.dtype == torch.uint8, len(pool_x)
        job.pool.planes = len(self._pixels[0])
        job.pool.plane = prod(self._sample) // len(self._pixels[0])
        job.pool.scale, job.pool.shift = (v.data_ptr() for v in self._pixels)
        job.places = places.data_ptr()
        most = job.lanes * job.batch  # one sample a thread
        job.threads = max(1, min(threads, most)) if step * steps * job.lanes >= ALONE else 1
        job.split = step >= SPLIT
        space, self._space = self._space, None  # taken, so that another thread of Python's would find none
        space = space or _Space(1)
        status = self._within(job, space)
        if status == NO_SPACE:
            space = _Space(job.floats)
            status = self._within(job, space)
        self._space = space
        if status == NO_MEMORY:
            raise MemoryError("no memory for the lanes' buffers")
        if status:
            raise IndexError("a place outside the pool, or a label outside the classes")

    def _within(self, job: Job, space: _Space) -> int:
        job.space, job.floats = space.address, space.floats
        status: int = self._run(ctypes.byref(job))
        return status

    def _leaves(self, params: Params, lanes: int) -> _Leaves:
        """Leaves of so many lanes, or a divisor of that, in the order of `sizes`; checked."""
        if list(params) != self._names:
            raise ValueError(f"parameters: {', '.join(params)}; {', '.join(self._names)} is right")
        own = len(params[self._names[0]])
        if own != lanes and (own < 1 or lanes % own):
            raise ValueError(f"parameters: {own} lanes for {lanes} legs; as many, or a divisor is right")
        leaves = []
        for leaf, size in zip(params.values(), self._sizes.values(), strict=True):
            if leaf.dtype != torch.float32 or leaf.is_cuda:
                raise ValueError("parameters: float32 on the CPU is right")
            leaves.append(self._vector(leaf, (own, *size), torch.float32))
        return _Leaves(leaves, lanes // max(1, own))

    def _written(self, params: Params, lanes: int) -> _Leaves:
        """The same where C writes into them: no copies, no lane that stands for several."""
        found = self._leaves(params, lanes)
        if found.repeat != 1 or any(params[name] is not leaf for name, leaf in zip(params, found.leaves, strict=True)):
            raise ValueError(
                f"velocity or direction: it is written over; contiguous tensors of {lanes} lanes are right"
            )
        return found

    def _vector(self, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """tensor as C reads it."""
        if tensor.shape != shape:
            raise ValueError(f"a tensor of shape {tuple(tensor.shape)}; {shape} is right")
        ready = tensor.dtype == dtype and tensor.is_contiguous()  # the rule: five checks are cheaper than five calls
        return tensor if ready else tensor.detach().to(dtype).contiguous()
