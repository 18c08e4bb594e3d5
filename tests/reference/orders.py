"""Orders that balance clients' updates, two by two: PairGraB and FL-GraB (Li and Lyu, 2025)."""

import numpy as np

from reference.method import BOTH, CLIENT, Method, average, weigh


class GraB(Method):
    """An epoch is M/S rounds; next epoch's order is the front list, then the back list reversed."""

    def __init__(self, *run):
        super().__init__(*run)
        self.epoch, self.sequence = 0, []  # which epoch it is, and its order; that of the first is the schedule's
        self.s = np.zeros_like(self.x)
        self.front, self.back = [], []

    @property
    def rounds(self):
        """Of an epoch."""
        return -(-self.fed.clients // self.fed.s.participants)

    def order(self, number, drawn):
        if number // self.rounds > self.epoch:
            self.next_epoch(number // self.rounds)
        if self.epoch == 0:
            return drawn
        begin = min(number % self.rounds * len(drawn), self.fed.clients - len(drawn))
        return self.sequence[begin : begin + len(drawn)]

    def balance(self, who, updates):
        """Take updates u = x - y two by two: the one that brings the running sum nearer to 0 goes to the front."""
        for i in range(0, len(who) - 1, 2):
            d = updates[i] - updates[i + 1]
            if np.linalg.norm(self.s + d) <= np.linalg.norm(self.s - d):
                self.s, first, second = self.s + d, "front", "back"
            else:
                self.s, first, second = self.s - d, "back", "front"
            self.put(who[i], first)
            self.put(who[i + 1], second)
        if len(who) % 2:
            self.put(who[-1], "front")

    def next_epoch(self, epoch):
        """Clients that had no turn, as in rounds that were aborted, stand in the middle."""
        seen = self.front + self.back
        missed = [m for m in range(self.fed.clients) if m not in seen]
        if seen or not self.sequence:  # else all of its rounds were aborted
            self.sequence = [*self.front, *missed, *reversed(self.back)]
        self.epoch, self.s, self.front, self.back = epoch, np.zeros_like(self.s), [], []

    def put(self, client, where):
        """At the end of a list; who came before in this epoch stands where it was put last."""
        self.front, self.back = ([m for m in each if m != client] for each in (self.front, self.back))
        (self.front if where == "front" else self.back).append(client)


class PairGraB(GraB):
    """A chain along this order."""

    def round(self, number, order):
        x, who, updates, pairs = self.x, [], [], len(order) // 2
        if pairs:
            self.fed.fetch()
        for place in range(len(order)):
            answer = self.fed.train(x, place, by=CLIENT if place else self.fed.holder, up=place < 2 * pairs)
            who.append(answer.client)
            updates.append(x - answer.x)
            x = answer.x
        self.x = x
        self.balance(who, updates)

    def ends(self, number):
        return CLIENT if self.fed.s.participants % 2 else BOTH


class FLGraB(GraB):
    """Parallel rounds along this order."""

    def __init__(self, *run, weighting="uniform"):
        super().__init__(*run)
        self.weighting = weighting

    def round(self, number, order):
        answers = self.side_by_side()
        counts = weigh(answers, self.weighting) if self.weighting == "size" else np.ones(len(answers))
        self.balance([a.client for a in answers], [n * (self.x - a.x) for n, a in zip(counts, answers, strict=True)])
        self.x = average(answers, self.weighting)
