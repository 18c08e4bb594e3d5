"""A site: it answers frames by frames, from its own samples, as far as its policy goes.

Whatever goes wrong, what it says is one of a few words (messages.WHYS): no text of an exception ever crosses.
"""

import hashlib
import math
import sys
import traceback
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

import baton
from baton import algorithms, metrics, privacy
from baton.datasets import Dataset
from baton.deploy.book import Unreadable
from baton.deploy.checks import metric_range
from baton.deploy.frames import Garbled, refusal
from baton.deploy.keeping import Keeping
from baton.deploy.like import like
from baton.deploy.messages import Evaluate, Half, Halved, Here, Look, Message, Sums, Train, Trained
from baton.deploy.orders import Orders
from baton.deploy.policy import No, Policy
from baton.deploy.record import Entry, Record
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
        self.record = Record(folder, self.releases.lock)
        self._open: tuple[str, Own, Orders] | None = None
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
        except Unreadable as error:
            _log(str(error))
            return refusal("books")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)  # the site's own log
            return refusal("memory" if isinstance(error, MemoryError | torch.OutOfMemoryError) else "failed")

    def _answer(self, message: Message) -> Message:
        match message:
            case Look(setting):
                self._own(setting)
                return Here(self._held() if self.policy.tells_sizes else -1, baton.__version__)
            case Train():
                return self._train(message)
            case Half():
                return self._halved(message)
            case Evaluate():
                return self._evaluate(self._own(message.setting), message)
            case _:
                raise No("message")

    def _own(self, text: str) -> Own:
        """The run, open; its setting is only read, until the policy has agreed to it."""
        if self._open is None or self._open[0] != text:
            try:
                setting = Setting.from_json(text)
            except BadInput:
                raise No("setting") from None
            try:
                self.policy.check(setting, len(self.samples.y))
                data = self._data(like(setting))
                own = Own(setting, data)
                privacy.refuse(setting.dp, own.algorithm, algorithms.called(setting.algorithm))
                self._afford(setting)
            except Unreadable:
                raise
            except BadInput:
                traceback.print_exc(file=sys.stderr)
                raise No("setting") from None
            self._open, self._half, self._leg = (text, own, Orders(own)), None, ""
        return self._open[1]

    def _data(self, known: Dataset) -> Dataset:
        s = self.samples
        same = s.x.shape[1:] == known.x.shape[1:] and s.x.dtype == known.x.dtype
        labelled = not known.classes or (not len(s.y) or 0 <= int(s.y.min()) <= int(s.y.max()) < known.classes)
        if not same or not labelled:
            raise No("shape")
        return known._replace(x=s.x, y=s.y, test_x=s.test_x, test_y=s.test_y)

    def _check(self, own: Own, order: Order, names: set[str] | None = None) -> None:
        """Refuse an order that this run's server would not give, and one whose answer would rest on too few rows."""
        assert self._open is not None
        orders = self._open[2]
        if fault := orders.fault(order):
            _log(f"refused an order: {fault}")
            raise No("order")
        sizes = own.net.sizes()
        for given in (order.model, order.anchor, order.shift, order.stiff):
            if given is not None and not _alike(given, sizes, own.net.dtype, names):
                raise No("message")
        if orders.rows(order) < self.policy.least_rows:
            raise No("rows")

    def _train(self, message: Train) -> Trained:
        own, order = self._own(message.setting), message.order
        if own.algorithm.split is not None:
            raise No("message")
        self._check(own, order)
        if own.algorithm.local is None:  # nothing is kept
            draw = self._drawn(own, self._about(message, own, {}))
            return Trained(message.leg, self._answered(visit(own, order, {}, draw)[0], own))
        with self.releases.lock:
            keeping = self._keeping(own)
            kept = keeping.after(message.base)
            if kept is None:
                raise No("state")
            about = self._about(message, own, kept)
            _once(keeping, message.leg, about)
            draw = self._drawn(own, about)
        answer, new = visit(own, order, kept, draw)
        with self.releases.lock:  # another process of this site may have written meanwhile
            keeping = self._keeping(own)
            _once(keeping, message.leg, about)
            if keeping.after(message.base) is None:
                raise No("state")
            keeping.put(message.base, message.leg, order.round, new, about.hex())
        return Trained(message.leg, self._answered(answer, own))

    def _keeping(self, own: Own) -> Keeping:
        first = own.keeps(without_lane(own.net.init([own.setting.seed])))
        try:
            return Keeping(self.folder / f"{_named(own.setting)}.safetensors", first)
        except (Damaged, OSError, KeyError):
            raise No("state") from None

    def _about(self, message: Train, own: Own, kept: Params) -> bytes:
        """Return a hash of all that a leg's answer depends on; names and counts of tries are not of it."""
        order = message.order._replace(attempt=0, void=False)
        asked = packed(Train(own.setting.to_json(), "", "", order))
        parts = (asked, _hash(kept), self._rows["train"], baton.__version__.encode())
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()

    # --- noise on legs

    def _afford(self, setting: Setting) -> None:
        """Whether the policy's epsilon has room for the whole of a run, beside what was told in others."""
        noise = privacy.noise_of(setting.dp)
        if noise < self.policy.least_noise:
            raise No("noise")
        if setting.dp != "none":
            self.releases.check()
        if self.policy.most_epsilon:
            others = self.releases.losses(but=_named(setting))
            self._within(others + privacy.turns(setting) * privacy.loss(noise))

    def _within(self, losses: float) -> None:
        if privacy.epsilon(losses, self.policy.delta) > self.policy.most_epsilon:
            raise No("epsilon")

    def _drawn(self, own: Own, about: bytes) -> privacy.Draw | None:
        """The noise of a leg, which is written down before it is used; about: all that the leg depends on."""
        if own.dp is None:
            return None
        noise, own_secret = float(own.dp.noise), self.releases.secret
        leg = hashlib.sha256(about + own_secret).hexdigest()
        with self.releases.lock:
            if leg not in self.releases.lines:
                if self.policy.most_epsilon:
                    self._within(self.releases.losses() + privacy.loss(noise))
                self.releases.put(leg, _named(own.setting), noise)
        return None if self.open_noise else privacy.secret(own_secret, about)

    @cached_property
    def _rows(self) -> dict[str, bytes]:
        """Hashes of the rows: other rows have other noise."""
        s = self.samples
        return {"train": _hash({"x": s.x, "y": s.y}), "test": _hash({"x": s.test_x, "y": s.test_y})}

    def _answered(self, answer: Answer, own: Own) -> Answer:
        """With the number of samples as far as it is told; steps of whole passes tell it too."""
        held, s = self._held() if self.policy.tells_sizes else 1, own.setting
        blurred = s.epochs and self.policy.noise
        steps = s.epochs * -(-held // s.batch_size) if blurred else answer.steps
        return answer._replace(samples=held, steps=steps)

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
            answer = self._answered(answer, own)
        assert isinstance(answer, int | Tensor | Up | Answer)
        return Halved(message.leg, message.number, answer)

    # --- numbers

    def _evaluate(self, own: Own, asked: Evaluate) -> Sums:
        if not _alike(asked.model, own.net.sizes(), own.net.dtype, None):
            raise No("message")
        if not self.policy.tells_metrics:
            return Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        model = _model(own, asked.model)
        if not self.policy.bounded:
            return self._sums(own, asked, model)[0]
        return self._recorded(own, asked, model)

    def _recorded(self, own: Own, asked: Evaluate, model: bytes) -> Sums:
        """Exact numbers beside legs with noise: once a round that is evaluated, and a model's only once."""
        s, run = own.setting, _named(own.setting)
        about = hashlib.sha256(model + f"{s.metrics} {asked.train}".encode()).hexdigest()
        with self.releases.lock:
            if (known := self.record.find(about)) is not None:
                return known.told()
            due = asked.round == s.rounds or (0 <= asked.round < s.rounds and asked.round % s.eval_every == 0)
            if not due or asked.round in self.record.rounds(run):
                raise No("numbers")
            sums, count = self._sums(own, asked, model)
            metrics = {label: float(x) for label, x in sums.metrics.items()}
            entry = Entry(run, asked.round, about, count + len(metrics), [*map(float, sums[:6])], metrics)
            self.record.add(entry, exact=not self.policy.noise)
            return entry.told()

    def _sums(self, own: Own, asked: Evaluate, model: bytes) -> tuple[Sums, int]:
        """Return what is told of a model, and how many numbers of it are not metrics."""
        s, outputs, told = self.samples, list[Tensor](), list[tuple[float, float, float]]()
        tests = len(s.test_y) >= self.policy.least_samples
        for rows, x, y, wanted in (("test", s.test_x, s.test_y, tests), ("train", s.x, s.y, asked.train)):
            if not wanted or not len(y):
                told.append((0.0, 0.0, 0.0))
                continue
            loss, right = self._cost(own, asked.model, x, y, outputs if rows == "test" else None)
            loss = self._blurred(loss, f"{rows} loss", self._rows[rows], model)
            right = self._blurred(right, f"{rows} right", self._rows[rows], model, most=len(y))
            count = self._told(len(y), f"{rows} rows", self._rows[rows]) if self.policy.tells_sizes else 1
            share = count / len(y)
            told.append((loss * share, right * share, float(count)))
        count = sum(2 + self.policy.tells_sizes for each in told if each[2])
        return Sums(*told[0], *told[1], self._each(own, outputs, model)), count

    def _each(self, own: Own, outputs: list[Tensor], model: bytes) -> Params:
        """The metrics that the run asks for, of the site's own test rows; none where those are not told of."""
        if not outputs:
            return {}
        every, labels = torch.cat(outputs).unsqueeze(0), self.samples.test_y
        found = metrics.build(metrics.wanted(own.setting.metrics, own.data), own.data)
        made = dict[str, Tensor]()
        for label, metric in found.items():
            value, (least, most) = metric.of(every, labels, None)[0], metric_range(label)
            blurred = self._blurred(float(value), label, self._rows["test"], model, least=least, most=most)
            made[label] = torch.full_like(value, blurred) if self.policy.noise else value
        return made

    def _cost(
        self, own: Own, model: Params, x: Tensor, y: Tensor, keep: list[Tensor] | None = None
    ) -> tuple[float, float]:
        """(sum of losses, right answers); keep: takes the outputs."""
        loss, right = 0.0, 0.0
        pool = x if x.dtype == torch.uint8 else x.to(own.net.dtype)
        for places in torch.split(torch.arange(len(y)), BLOCK):
            output = own.legs.outputs(with_lane(model), pool, places)[0]
            if keep is not None:
                keep.append(output)
            loss += float(own.data.loss(output, y[places]).double().sum())
            right += float((predicted(output) == y[places]).sum()) if own.data.classes else float(len(places))
        return loss, right

    def _held(self) -> int:
        """How many samples it trains on, as it is told."""
        return self._told(len(self.samples.y), "train rows", self._rows["train"])

    def _told(self, count: int, what: str, rows: bytes) -> int:
        return max(1, round(count * (1 + self._noise(what, rows)))) if count else 0

    def _blurred(
        self, value: float, what: str, rows: bytes, model: bytes, *, least: float = 0.0, most: float = math.inf
    ) -> float:
        """A number with the policy's noise on it, where there is any; it stays what such a number can be."""
        if not self.policy.noise or math.isnan(value):
            return value
        return min(max(value * (1 + self._noise(what, rows, model)), least), most)

    def _noise(self, what: str, rows: bytes, model: bytes = b"") -> float:
        """The noise on one number. It is drawn from the site's secret and from what the number is of.

        So asking again tells nothing new, and nobody else can compute it.
        """
        if not self.policy.noise:
            return 0.0
        about = hashlib.sha256(b"number\0" + rows + hashlib.sha256(model).digest() + what.encode()).digest()
        return self.policy.noise * float(privacy.secret(self.releases.secret, about)(0, torch.zeros(1, 1).double()))


def _log(line: str) -> None:
    """For the site's own people."""
    print(line, file=sys.stderr, flush=True)


def _once(keeping: Keeping, leg: str, about: bytes) -> None:
    """Refuse another order under the name of a leg that was answered."""
    if keeping.written.get(leg, about.hex()) != about.hex():
        raise No("leg")


def _hash(leaves: Params) -> bytes:
    """Of names, kinds, shapes and numbers."""
    found = hashlib.sha256()
    for name in sorted(leaves):
        leaf = leaves[name].contiguous()
        found.update(f"\0{name}\0{leaf.dtype}\0{tuple(leaf.shape)}\0".encode())
        found.update(leaf.view(-1).view(torch.uint8).numpy().data if leaf.numel() else b"")
    return found.digest()


def _model(own: Own, leaves: Params) -> bytes:
    """Of a model, and of how it is made of its leaves."""
    s = own.setting
    return hashlib.sha256(_hash(leaves) + f"{s.dataset} {s.model} {s.dtype}".encode()).digest()


def _named(setting: Setting) -> str:
    """A run, as the site's files call it."""
    return hashlib.sha256(setting.to_json().encode()).hexdigest()[:16]


def _alike(given: Params, sizes: dict[str, tuple[int, ...]], dtype: torch.dtype, names: set[str] | None) -> bool:
    """Whether leaves are a model's, or those of its client's side."""
    wanted = names if names is not None else sizes.keys()
    return given.keys() == wanted and all(
        tuple(leaf.shape) == tuple(sizes[n]) and leaf.dtype == dtype for n, leaf in given.items()
    )


def _client_side(half: ClientHalf) -> list[str]:
    client = half.client
    return [*client.front.names, *(client.head.side.names if client.head else [])]
