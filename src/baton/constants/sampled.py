"""What `view.View` finds, of a network that is too large for all of it: from samples, with float32 products.

F and its gradient are over samples drawn as F weighs them: clients alike, and at each with replacement. Squares of such
means are too large by their variance, which is taken off (`replicates`).
"""

import time
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.constants import noise
from baton.constants.blocks import Blocks, Curvature
from baton.constants.found import mean
from baton.constants.lanczos import orthonormal, top
from baton.constants.objective import Objective
from baton.constants.plan import FEW_DRAWS, FEW_STEPS, REPLICATES, TOLERANCE, Plan, replicates
from baton.constants.replicates import jackknife, leaving_one_out, square, variance
from baton.constants.view import Eigen, Point
from baton.constants.work import GRADIENT
from baton.legs.plain import gradient

COLUMNS = 1 << 20  # of float32 that are made float64 at once


class Drawn(NamedTuple):
    """A mean gradient as it was estimated: replicates [B, d] of float32 whose mean it is."""

    rows: Tensor
    left: float  # the share of the population that was not drawn; 0: the mean is exact


class Sampled:
    """A network, and those of its clients that are looked at one by one: gradients of all, Hessians of some."""

    def __init__(self, objective: Objective, plan: Plan, chosen: list[int], blocks: Blocks) -> None:
        self.objective, self.plan, self.chosen, self.blocks = objective, plan, chosen, blocks
        self.draws = FEW_DRAWS
        key = rng.bits(torch.tensor([objective.setting.seed], device=objective.device), rng.EVALUATE, -3)
        order = rng.choose(key, len(chosen), min(plan.few, len(chosen)))[0].tolist()
        self.bent = [chosen[i] for i in sorted(order)]  # whose Hessians are looked at
        of = f"of {objective.clients:,} clients"
        self.of = "over clients" if len(chosen) == objective.clients else f"over {len(chosen)} {of}"
        self.few = "over clients" if len(self.bent) == objective.clients else f"over {len(self.bent)} {of}"
        self._step = gradient(blocks.net, objective.data, blocks.threads)
        self._tops: tuple[Tensor, Tensor] | None = None  # a point, and the clients' vectors there [n, d]
        self._seen: tuple[Tensor, tuple[Drawn, float, float | None]] | None = None  # a point, and F there

    def expects(self, passes: float) -> str:
        """How long so many forward passes take here, by a block of gradients on each core."""
        o, threads = self.objective, self.blocks.threads
        places = o.table.samples[: self.blocks.block].repeat(threads)
        weight = torch.ones(len(places), dtype=torch.float64, device=o.device)
        x, took = o.start(), float("inf")
        for _ in range(3):  # the first warms up
            began = time.monotonic()
            float(self.blocks.gradient(x, places, weight)[1][0])  # a GPU has to be waited for
            took = min(took, time.monotonic() - began)
        minutes = took * passes / (GRADIENT * len(places)) / 60
        on = f"{threads} core{'s' if threads > 1 else ''}" if o.device.type == "cpu" else "this GPU"
        return f"about {minutes:.0f} min on {on}" if minutes >= 1 else f"about {60 * minutes:.0f} s on {on}"

    # Samples

    def own(self, client: int) -> tuple[Tensor, float]:
        """A client's samples [n], at most `plan.most` of them, and the share that was left out."""
        o = self.objective
        first, count = int(o.table.start[0, client]), int(o.sizes[client])
        held = o.table.samples[first : first + count]
        if count <= self.plan.most:
            return held, 0.0
        key = rng.bits(torch.tensor([o.setting.seed], device=o.device), rng.EVALUATE, -4, client)
        return held[rng.choose(key, count, self.plan.most)[0]], 1 - self.plan.most / count

    def of_all(self) -> tuple[Tensor, Tensor, float]:
        """Replicates of samples [B, n] that stand for F, what each counts, and 1; or all samples and 0."""
        o = self.objective
        if int(o.sizes.sum()) <= self.plan.samples:
            whole = o.together(range(o.clients))
            return whole.places, whole.weight, 0.0
        rows, each, spread = replicates(self.plan.samples, o.clients)
        number = torch.arange(rows * each, device=o.device)
        key = rng.bits(number, rng.EVALUATE, o.setting.seed, -2)
        client = rng.below(key, o.clients) if spread else number % o.clients
        place = o.table.start[0][client] + rng.below(rng.bits(key, 1), o.sizes[client])
        weight = torch.full((rows, each), 1 / each, dtype=torch.float64, device=o.device)
        return o.table.samples[place].view(rows, each), weight, 1.0

    # Means over samples

    def level(self, x: Tensor) -> tuple[float, float | None]:
        """F(x), and its standard error."""
        return self._whole(x)[1:]

    def _whole(self, x: Tensor) -> tuple[Drawn, float, float | None]:
        """The gradient of F, F, and its standard error."""
        if self._seen is None or not torch.equal(self._seen[0], x):
            self._seen = x, self._estimated(x)
        return self._seen[1]

    def _estimated(self, x: Tensor) -> tuple[Drawn, float, float | None]:
        places, weight, left = self.of_all()
        decay = self.objective.decay
        rows, losses = [], []
        for at, own in zip(places, weight, strict=True):
            found, slope = self.blocks.gradient(x, at, own)
            losses.append((found * own).sum())
            rows.append((slope + decay * x).to(torch.float32))
        loss = torch.stack(losses)
        value = float(loss.mean() + decay / 2 * x.square().sum())
        return Drawn(torch.stack(rows), left), value, float(loss.std()) / len(loss) ** 0.5 if left else None

    def _client(self, x: Tensor, client: int) -> Drawn:
        """The gradient of F_m."""
        places, left = self.own(client)
        decay = self.objective.decay
        if not left:
            slope = self.blocks.gradient(x, places, _alike(places))[1]
            return Drawn((slope + decay * x).to(torch.float32).unsqueeze(0), 0.0)
        rows = []
        for at in places.chunk(REPLICATES):
            slope = self.blocks.gradient(x, at, _alike(at))[1]
            rows.append((slope + decay * x).to(torch.float32))
        return Drawn(torch.stack(rows), left)

    def point(self, where: str, x: Tensor) -> Point:
        """F and its gradients there."""
        whole, loss, loss_error = self._whole(x)
        gram = _products(whole.rows, whole.rows)
        length = square(gram, whole.left)
        each, across, within = [], [], 0.0
        for m in self.chosen:
            own = self._client(x, m)
            inner, cross = _products(own.rows, own.rows), _products(own.rows, whole.rows)
            each.append(square(inner, own.left) - 2 * cross.mean())
            across.append(cross.mean(0))
            if own.left:
                others = (cross.mean(1).sum() - cross.mean(1)) / (len(cross) - 1)
                within += own.left * jackknife(square(leaving_one_out(inner), own.left) - 2 * others) ** 2
        apart, clients = mean(torch.stack(each), self.objective.clients)
        errors = [clients or 0.0, within**0.5 / (len(each) * self.objective.clients) ** 0.5]
        length_error = None
        if whole.left:
            without = square(leaving_one_out(gram))
            toward = torch.stack(across).mean(0)  # [B] inner products with each of the gradient's replicates
            length_error = jackknife(without)
            errors.append(jackknife(without - 2 * (toward.sum() - toward) / (len(toward) - 1)))
        error = sum(e**2 for e in errors) ** 0.5
        return Point(
            where,
            loss,
            max(0.0, float(length)),
            max(0.0, apart + float(length)),
            error or None,
            loss_error,
            length_error,
        )

    # Hessians

    def _curvature(self, x: Tensor, client: int) -> Curvature:
        places, _ = self.own(client)
        return Curvature(self.blocks, x, places, _alike(places))

    def hessians(self, x: Tensor) -> Eigen:
        """|H_m| of each: L is the largest over clients and x. From its gradient, and a random vector as long."""
        width = max(4, min(FEW_STEPS, self.blocks.memory // 4 // (8 * len(x))))
        place = torch.arange(len(x), device=x.device)
        random = rng.normal(rng.bits(place, rng.DATA, 0), torch.float64)
        random /= random.norm()
        found, tops = [], []
        for m in self.bent:
            curvature = self._curvature(x, m)

            def apply(v: Tensor, curvature: Curvature = curvature) -> Tensor:
                return curvature.products(v.unsqueeze(0))[0] + self.objective.decay * v

            slope = curvature.gradient() + self.objective.decay * x
            start = random + slope / slope.norm().clamp(min=1e-300)
            best = top(apply, start, TOLERANCE, width)
            found.append(x.new_tensor([best.value, best.error]))
            tops.append(best.vector.to(torch.float32))
        self._tops = x, torch.stack(tops)
        value, error = torch.stack(found).unbind(1)
        return value, error

    def differences(self, x: Tensor) -> Eigen:
        """|H_m - H| of each, H being their mean: in the span of the vectors that belong to the largest of the H_m.

        H is applied to every vector once, and serves all clients; each then takes the best combination of the vectors.
        """
        if self._tops is None or self._tops[0] is not x:
            self.hessians(x)
        assert self._tops is not None
        tops, count = self._tops[1], len(self.bent)
        fits = max(1, int((self.blocks.memory // 4 // (4 * len(x))) ** 0.5) - 1)  # images of so many vectors, squared
        found = []
        for first in range(0, count, fits):
            some = range(first, min(count, first + fits))
            basis = orthonormal(tops[first : first + fits].to(torch.float64))
            middle, own = torch.zeros_like(basis), {}
            for j, m in enumerate(self.bent):
                image = self._curvature(x, m).products(basis)
                middle += image / count
                if j in some:
                    own[j] = image.to(torch.float32)
            found += [_largest(own[j] - middle, basis) for j in some]
        value, error = torch.tensor(found, dtype=torch.float64, device=x.device).unbind(1)
        return value, error

    # Minibatches

    def variances(self, x: Tensor) -> tuple[Tensor, float]:
        """sigma^2 of each, and the standard error of their mean that comes from drawn minibatches."""
        found = []
        for m in self.bent:
            of = self.objective, x.to(torch.float32), m, self._step, self.draws, self.blocks.threads
            rows, at = x.new_empty(self.draws, len(x), dtype=torch.float32), 0
            for some in noise.drawn(*of):
                rows[at : at + len(some)] = some
                at += len(some)
                self.blocks.spend(GRADIENT * len(some) * self.objective.setting.batch_size)
            gram = _products(rows, rows)
            found.append((float(variance(gram)), jackknife(variance(leaving_one_out(gram)))))
        value, error = torch.tensor(found, dtype=torch.float64).unbind(1)
        if not noise.keyed(self.objective):  # the step with the largest variance, from the first
            ratio = [noise.over_first(int(self.objective.sizes[m]), self.objective.setting) for m in self.bent]
            scale = torch.tensor(ratio, dtype=torch.float64)
            value, error = value * scale, error * scale
        return value, float(error.norm()) / len(error)


def _alike(places: Tensor) -> Tensor:
    """What each of these samples [n] counts in their mean."""
    return torch.full_like(places, 1, dtype=torch.float64) / len(places)


def _products(one: Tensor, other: Tensor) -> Tensor:
    """Inner products [A, B] of rows, added up in float64, a part of the columns at a time."""
    parts = zip(torch.split(one, COLUMNS, 1), torch.split(other, COLUMNS, 1), strict=True)
    return sum((a.double() @ b.double().mT for a, b in parts), start=one.new_zeros((), dtype=torch.float64))


def _largest(image: Tensor, basis: Tensor) -> tuple[float, float]:
    """The largest |Rayleigh quotient| in the span of an orthonormal basis, from its image, and its residual."""
    inside = image @ basis.mT
    value, weight = torch.linalg.eigh((inside + inside.mT) / 2)
    place = int(value.abs().argmax())
    rest = weight[:, place] @ image - value[place] * (weight[:, place] @ basis)
    return float(value[place].abs()), float(rest.norm())
