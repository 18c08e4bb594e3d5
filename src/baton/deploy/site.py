"""A site: it answers frames by frames, from its own samples, as far as its policy goes.

Whatever goes wrong, what it says is one of a few words (messages.WHYS): no text of an exception ever crosses.
"""

import hashlib
import secrets
import sys
import traceback
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

import baton
from baton import algorithms, metrics, privacy
from baton.datasets import Dataset
from baton.deploy.frames import Garbled, refusal
from baton.deploy.keeping import Keeping
from baton.deploy.like import like
from baton.deploy.messages import Evaluate, Half, Halved, Here, Look, Message, Sums, Train, Trained
from baton.deploy.policy import No, Policy, steps
from baton.deploy.releases import Releases
from baton.deploy.wire import packed, unpacked
from baton.errors import BadInput
from baton.lanes import Params
from baton.metrics import predicted
from baton.setting import Setting
from baton.sites.halves import Begin, ClientHalf, Up
from baton.sites.visit import Answer, Order, Own, visit, with_lane, without_lane
from baton.store.files import Damaged

BLOCK = 8192  # samples that are evaluated at once


class Samples:
    """What a site holds: to train on, and to test on."""

    def __init__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> None:
        self.x, self.y, self.test_x, self.test_y = x, y, test_x, test_y


class Site:
    """One site. It holds one run at a time open; what it keeps of others stays on its disk."""

    def __init__(self, samples: Samples, policy: Policy, folder: Path, open_noise: bool = False) -> None:
        """folder: where it keeps what runs leave at their clients.

        open_noise: noise as a simulation of the run draws it, to compare the two. It is no secret, and hides nothing.
        """
        self.samples, self.policy, self.folder, self.open_noise = samples, policy, folder, open_noise
        self.releases = Releases(folder)
        self._open: tuple[str, Own] | None = None
        self._half: ClientHalf | None = None  # of that run
        self._leg = ""  # the one that it is in the middle of, in split form

    def handle(self, frame: bytes | bytearray) -> bytes:
        """The answer to one frame."""
        try:
            return packed(self._answer(unpacked(frame)))
        except No as no:
            return refusal(str(no))
        except Garbled:
            return refusal("message")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)  # the site's own log
            return refusal("memory" if isinstance(error, MemoryError | torch.OutOfMemoryError) else "failed")

    def _answer(self, message: Message) -> Message:
        match message:
            case Look(setting):
                self._own(setting)
                return Here(self._told(len(self.samples.y)) if self.policy.sizes else -1, baton.__version__)
            case Train():
                return self._train(message)
            case Half():
                return self._halved(message)
            case Evaluate(setting, model, train):
                return self._evaluate(self._own(setting), model, train)
            case _:
                raise No("message")

    def _own(self, text: str) -> Own:
        """The run, open; its setting is only read, until the policy has agreed to it."""
        if self._open is None or self._open[0] != text:
            try:
                setting = Setting.from_json(text)
            except BadInput:
                raise No("setting") from None
            self.policy.check(setting, len(self.samples.y))
            try:
                data = self._data(like(setting))
                own = Own(setting, data)
                privacy.refuse(setting.dp, own.algorithm, algorithms.called(setting.algorithm))
                self._afford(setting, _named(text))
            except BadInput:
                traceback.print_exc(file=sys.stderr)
                raise No("setting") from None
            self._open, self._half, self._leg = (text, own), None, ""
        return self._open[1]

    def _data(self, known: Dataset) -> Dataset:
        s = self.samples
        same = s.x.shape[1:] == known.x.shape[1:] and s.x.dtype == known.x.dtype
        labelled = not known.classes or (not len(s.y) or 0 <= int(s.y.min()) <= int(s.y.max()) < known.classes)
        if not same or not labelled:
            raise No("shape")
        return known._replace(x=s.x, y=s.y, test_x=s.test_x, test_y=s.test_y)

    def _check(self, own: Own, order: Order, names: set[str] | None = None) -> None:
        """An order that this run could have, and the policy accepts."""
        if min(order.local_steps, order.epochs, order.round) < 0 or order.batch_size < 1:
            raise No("message")
        if bool(order.local_steps) == bool(order.epochs):
            raise No("message")
        count = steps(order.local_steps, order.epochs, order.batch_size, len(self.samples.y))
        if count > self.policy.most_steps:
            raise No("steps")
        sizes = own.net.sizes()
        for given in (order.model, order.anchor, order.shift, order.stiff):
            if given is not None and not _alike(given, sizes, own.net.dtype, names):
                raise No("message")

    def _train(self, message: Train) -> Trained:
        own, order = self._own(message.setting), message.order
        if own.algorithm.split is not None:
            raise No("message")
        self._check(own, order)
        draw = self._drawn(own, message)
        if own.algorithm.local is None:  # nothing is kept
            return Trained(message.leg, self._answered(visit(own, order, {}, draw)[0]))
        keeping = self._keeping(own, message.setting)
        kept = keeping.after(message.base)
        if kept is None:
            raise No("state")
        answer, new = visit(own, order, kept, draw)
        keeping.put(message.base, message.leg, order.round, new)
        return Trained(message.leg, self._answered(answer))

    def _keeping(self, own: Own, text: str) -> Keeping:
        first = own.keeps(without_lane(own.net.init([own.setting.seed])))
        try:
            return Keeping(self.folder / f"{_named(text)}.safetensors", first)
        except (Damaged, OSError, KeyError):
            raise No("state") from None

    # --- noise on legs

    def _afford(self, setting: Setting, run: str) -> None:
        """Whether the policy's epsilon has room for the whole of a run, beside what was told in others."""
        noise = privacy.noise_of(setting.dp)
        if noise < self.policy.least_noise:
            raise No("noise")
        if self.policy.most_epsilon:
            self._within(self.releases.losses(but=run) + privacy.turns(setting) * privacy.loss(noise))

    def _within(self, losses: float) -> None:
        if privacy.epsilon(losses, self.policy.delta) > self.policy.most_epsilon:
            raise No("epsilon")

    def _drawn(self, own: Own, message: Train) -> privacy.Draw | None:
        """The noise of a leg, which is written down before it is used."""
        if own.dp is None:
            return None
        same = message._replace(leg="", order=message.order._replace(attempt=0, void=False))
        about = hashlib.sha256(packed(same) + self._content + baton.__version__.encode()).digest()
        leg, noise = about.hex(), float(own.dp.noise)
        if leg not in self.releases.lines:
            if self.policy.most_epsilon:
                self._within(self.releases.losses() + privacy.loss(noise))
            self.releases.put(leg, _named(message.setting), noise)
        return None if self.open_noise else privacy.secret(self.releases.secret, about)

    @cached_property
    def _content(self) -> bytes:
        """Of what it trains on: other samples have other noise."""
        found = hashlib.sha256()
        for part in (self.samples.x, self.samples.y):
            found.update(part.contiguous().numpy().data)
        return found.digest()

    def _answered(self, answer: Answer) -> Answer:
        """With the number of samples as far as it is told."""
        return answer._replace(samples=self._told(answer.samples) if self.policy.sizes else 1)

    def _halved(self, message: Half) -> Halved:
        own = self._own(message.setting)
        if own.algorithm.split is None:
            raise No("message")
        half = self._half = self._half or ClientHalf(own)
        if isinstance(message.message, Begin):
            self._check(own, message.message.order, set(_client_side(half)))
            self._leg = message.leg
        if self._leg != message.leg:
            raise No("state")
        answer = half.answer(message.message)
        if isinstance(answer, Answer):
            answer = self._answered(answer)
        assert isinstance(answer, int | Tensor | Up | Answer)
        return Halved(message.leg, message.number, answer)

    def _evaluate(self, own: Own, model: Params, train: bool) -> Sums:
        if not _alike(model, own.net.sizes(), own.net.dtype, None):
            raise No("message")
        if not self.policy.metrics:
            return Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        s, none, outputs = self.samples, (0.0,) * 3, list[Tensor]()
        tests = len(s.test_y) >= self.policy.least_samples
        test = self._cost(own, model, s.test_x, s.test_y, outputs) if tests else none
        return Sums(*test, *(self._cost(own, model, s.x, s.y) if train else none), self._each(own, outputs))

    def _each(self, own: Own, outputs: list[Tensor]) -> Params:
        """The metrics that the run asks for, of the site's own test rows; none where those are not told of."""
        if not outputs:
            return {}
        every, labels = torch.cat(outputs).unsqueeze(0), self.samples.test_y
        found = metrics.build(metrics.wanted(own.setting.metrics, own.data), own.data)
        return {label: metric.of(every, labels, None)[0] * (1 + self._noise()) for label, metric in found.items()}

    def _cost(
        self, own: Own, model: Params, x: Tensor, y: Tensor, keep: list[Tensor] | None = None
    ) -> tuple[float, float, float]:
        """(loss, right answers, samples), as far as they are told; keep: takes the outputs."""
        if not len(y):
            return 0.0, 0.0, 0.0
        loss, right = 0.0, 0.0
        pool = x if x.dtype == torch.uint8 else x.to(own.net.dtype)
        for places in torch.split(torch.arange(len(y)), BLOCK):
            output = own.legs.outputs(with_lane(model), pool, places)[0]
            if keep is not None:
                keep.append(output)
            loss += float(own.data.loss(output, y[places]).double().sum())
            right += float((predicted(output) == y[places]).sum()) if own.data.classes else float(len(places))
        noisy = [each * (1 + self._noise()) for each in (loss, right)]
        return noisy[0], noisy[1], float(len(y))

    def _told(self, count: int) -> int:
        return max(1, round(count * (1 + self._noise()))) if count else 0

    def _noise(self) -> float:
        """Nobody can know it: it is drawn from the system, not from the run's keys."""
        if not self.policy.noise:
            return 0.0
        return self.policy.noise * secrets.SystemRandom().gauss(0.0, 1.0)


def _named(text: str) -> str:
    """A run, as the site's files call it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _alike(given: Params, sizes: dict[str, tuple[int, ...]], dtype: torch.dtype, names: set[str] | None) -> bool:
    """Whether leaves are a model's, or those of its client's side."""
    wanted = names if names is not None else sizes.keys()
    return given.keys() == wanted and all(
        tuple(leaf.shape) == tuple(sizes[n]) and leaf.dtype == dtype for n, leaf in given.items()
    )


def _client_side(half: ClientHalf) -> list[str]:
    client = half.client
    return [*client.front.names, *(client.head.side.names if client.head else [])]
