"""Baselines, split legs, and one method after another."""

import numpy as np

from reference.method import CLIENT, SERVER, Drawers, Method, average, mean, weigh


class Pooled(Method):
    """Everybody's samples in one place; nothing is sent."""

    def round(self, number, order):
        self.x = self.fed.pool(self.x)


class Alone(Method):
    """Each client trains a model of its own; the round's model is that of the last participant that came back."""

    def __init__(self, *run):
        super().__init__(*run)
        self.models = [self.x] * self.fed.clients

    def round(self, number, order):
        answers = [self.fed.train(self.models[m], place) for place, m in enumerate(order)]
        new = list(self.models)
        for a in answers:
            if a.came:
                new[a.client], self.x = a.x, a.x
        self.models = new

    def model_of(self, client):
        return self.models[client]

    def drawers(self) -> Drawers:
        return {"server/": np.array(self.models)}


class SSL(Method):
    """Sequential split learning: the chain of Algorithm 1, of clients' sides (the paper's appendix)."""

    def __init__(self, *run, relay="peer", **_):
        super().__init__(*run)
        self.relay = relay

    def round(self, number, order):
        for place in range(len(order)):
            between = SERVER if self.relay == "server" else CLIENT
            by = between if place else self.fed.holder
            self.x = self.fed.train(self.x, place, by=by, up=self.relay == "server").x

    def ends(self, number):
        return SERVER if self.relay == "server" else CLIENT


class SplitFed(Method):
    """SplitFed (Thapa et al., 2022). 1: both sides averaged; 2: one server side, trained client after client."""

    def __init__(self, *run, version=1, weighting="uniform", **_):
        super().__init__(*run)
        self.version, self.weighting = version, weighting

    def round(self, number, order):
        if self.version == 1:
            self.x = average(self.side_by_side(), self.weighting)
            return
        mine, x, answers = self.fed.cut.client, self.x, []
        for place in range(len(order)):
            answers.append(self.fed.train(x, place, by=self.fed.holder))
            x = np.where(mine, self.x, answers[-1].x)
        self.x = np.where(mine, mean([a.x for a in answers], weigh(answers, self.weighting)), x)


class Switch(Method):
    """One method for the first rounds, then another, which begins with the model it finds (Zhang et al., 2023)."""

    def __init__(self, *run, after, first, then):
        """first, then: what begins each method, as (federation, x) -> Method."""
        super().__init__(*run)
        self.build, self.after = then, after
        self.first, self.then = first(self.fed, self.x), None

    def phase(self, number):
        """Return the round's method, and its own number there; the second begins in its first round that counts."""
        if number < self.after:
            return self.first, number
        if self.then is None:
            self.then = self.build(self.fed, self.x)
        return self.then, number - self.after

    def order(self, number, drawn):
        method, own = self.phase(number)
        return method.order(own, drawn)

    def round(self, number, order):
        method, own = self.phase(number)
        if number == self.after and method.copies:
            self.fed.fetch()
        method.round(own, order)
        self.x = method.x

    def ends(self, number):
        method, own = self.phase(number)
        return method.ends(own)

    def drawers(self) -> Drawers:
        found = {}
        for name, method in (("first", self.first), ("then", self.then)):
            for prefix, value in (method.drawers() if method else {}).items():
                drawer, _, part = prefix.partition("/")
                found[f"{drawer}/{name}.{part}"] = value
        return found
