"""Methods in which models go from client to client."""

import numpy as np

from reference.federation import Pushes
from reference.method import CLIENT, SERVER, Drawers, Method, mean


class Sequential(Method):
    """Algorithm 1 (cyclic weight transfer; Chang et al., 2018), with what a chain may have.

    mu: FedProx's pull to the model handed over. decay: the i-th client's rate is lr decay^i (Balachandar et al., 2020).
    last: the mean of the round's last models (Izmailov et al., 2018). ema: e = ema e + (1 - ema) y after each client.
    """

    def __init__(self, *run, mu=0.0, decay=1.0, last=1, ema=0.0):
        super().__init__(*run)
        self.mu, self.decay, self.last, self.ema = mu, decay, last, ema

    def round(self, number, order):
        y = e = self.x
        if self.ema:
            self.fed.fetch()
        ends = []
        for place in range(len(order)):
            told = self.ema > 0 or (self.last > 1 and place >= len(order) - self.last)
            y = self.fed.train(
                y,
                place,
                Pushes(pull=self.mu),
                rate=self.decay**place,
                by=CLIENT if place else self.fed.holder,
                up=told,
            ).x
            e = self.ema * e + (1 - self.ema) * y
            ends.append(y)
        self.x = e if self.ema else np.mean(ends[-self.last :], 0)

    def ends(self, number):
        return SERVER if self.ema or self.last > 1 else CLIENT


def groups_of(order, groups):
    """Cut a round's places into chains; where that does not divide, the first ones have one client more."""
    length, longer = divmod(len(order), groups)
    sizes = [length + (g < longer) for g in range(groups)]
    begins = np.cumsum([0, *sizes])
    return [range(begins[g], begins[g + 1]) for g in range(groups)]


class FedSeq(Method):
    """FedSeq (Zaccone et al., 2022), Algorithm 1: a chain in each superclient, their ends averaged."""

    def __init__(self, *run, groups, weighting="uniform"):
        super().__init__(*run)
        self.groups, self.weighting = groups, weighting
        self.starts = [self.x] * groups

    def chains(self, order, by):
        """Return where each chain ends, and what it counts: the samples of those that came, or how many came."""
        ends, counts = [], []
        for start, places in zip(self.starts, groups_of(order, self.groups), strict=True):
            x, count = start, 0
            for place in places:
                answer = self.fed.train(x, place, by=by if place == places[0] else CLIENT, up=place == places[-1])
                x, count = answer.x, count + answer.came * (answer.samples if self.weighting == "size" else 1)
            ends.append(x)
            counts.append(count)
        return ends, np.array(counts, dtype=float)

    def round(self, number, order):
        ends, counts = self.chains(order, self.fed.holder)
        self.x = mean(ends, counts)
        self.starts = [self.x] * self.groups


class FedSeqInter(FedSeq):
    """FedSeqInter (Zaccone et al., 2022), section 3.3: ends go on to the next group, averaged every so many rounds."""

    copies = True

    def __init__(self, *run, groups, every=5, weighting="uniform"):
        super().__init__(*run, groups=groups, weighting=weighting)
        self.every = every

    def round(self, number, order):
        ends, counts = self.chains(order, SERVER)
        self.x = mean(ends, counts)
        met = number % self.every == self.every - 1
        self.starts = [self.x] * self.groups if met else [ends[-1], *ends[:-1]]

    def drawers(self) -> Drawers:
        return {"server/": np.array(self.starts)}


class FedDC(Method):
    """FedDC (Kamp et al., 2023), Algorithm 1: S models, daisy-chained every `swap` rounds, averaged every `every`."""

    copies = True

    def __init__(self, *run, every=10, swap=1, weighting="uniform"):
        super().__init__(*run)
        self.every, self.swap, self.weighting = every, swap, weighting
        self.models = [self.x] * self.fed.s.participants
        self.who = self.fed.drawn

    def order(self, number, drawn):
        return drawn if number % self.swap == 0 else self.who

    def round(self, number, order):
        answers = [self.fed.train(y, place) for place, y in enumerate(self.models)]
        counts = [a.came * (a.samples if self.weighting == "size" else 1) for a in answers]
        self.x = mean([a.x for a in answers], np.array(counts, dtype=float))
        met = number % self.every == self.every - 1
        self.models = [self.x] * len(answers) if met else [a.x for a in answers]
        self.who = [a.client for a in answers]

    def drawers(self) -> Drawers:
        return {"server/x.": np.array(self.models)}


class EWC(Method):
    """Elastic weight consolidation along a chain (Kirkpatrick et al., 2017, equation 3; online: Schwarz et al., 2018).

    Each step adds strength F (y - the model handed over); after each leg F = keep F + the mean square of K minibatch
    gradients at its end.
    """

    def __init__(self, *run, strength=1.0, keep=0.9):
        super().__init__(*run)
        self.strength, self.keep, self.fisher = strength, keep, np.zeros_like(self.x)

    def round(self, number, order):
        for place in range(len(order)):
            stiff = Pushes(stiff=self.strength * self.fisher)
            by, extra = CLIENT if place else self.fed.holder, int(self.strength > 0)
            self.x = self.fed.train(self.x, place, stiff, by=by, up=False, extra=extra).x
            self.fisher = self.keep * self.fisher + self.fed.look(self.x, place).square

    def ends(self, number):
        return CLIENT

    def drawers(self) -> Drawers:
        return {"server/": self.fisher}
