"""Methods whose clients keep a correction of their own steps."""

import numpy as np

from reference.federation import Pushes
from reference.method import BOTH, CLIENT, SERVER, Drawers, Method, average


class Controls(Method):
    """What clients keep, and the server's mean of it over all M clients.

    weighting=size: the mean is by samples, n_i c_i / n. A server learns n_i with a client's first answer; those that it
    does not know yet count as the mean of the others (and have c_i = 0).
    """

    def __init__(self, *run, weighting="uniform"):
        super().__init__(*run)
        self.weighting, self.sizes = weighting, {}
        self.c = np.zeros_like(self.x)
        self.c_i = [np.zeros_like(self.x)] * self.fed.clients

    def learn(self, answers):
        """Note the sizes of clients that came back."""
        self.sizes = {**self.sizes, **{a.client: a.samples for a in answers if a.came}}

    def renew(self, told):
        """Take clients' new controls, {client: c_i+}, and their mean."""
        self.c_i = [told.get(m, c) for m, c in enumerate(self.c_i)]
        self.c = self.mean_of(self.c_i)

    def mean_of(self, each):
        if self.weighting == "uniform":
            return np.mean(each, 0)
        if not any(self.sizes.values()):
            return np.zeros_like(self.x)
        all_samples = np.mean(list(self.sizes.values())) * self.fed.clients
        return sum(n * each[m] for m, n in self.sizes.items()) / all_samples

    def drawers(self) -> Drawers:
        return {"server/": self.c, "clients/": np.array(self.c_i)}


class Scaffold(Controls):
    """SCAFFOLD (Karimireddy et al., 2020), Algorithm 1. A leg's steps are y -= lr (g - c_i + c)."""

    def __init__(self, *run, server_lr=1.0, weighting="uniform", option=2, of="parallel"):
        super().__init__(*run, weighting=weighting)
        self.server_lr, self.option, self.of = server_lr, option, of

    def correction(self, client):
        return Pushes(shift=self.c - self.c_i[client])

    def renewed(self, start, answer):
        """Return c_i+ of line 12, option II: c_i - c + (x - y) / (K lr); the old one where nothing moved."""
        way = answer.reach * self.fed.lr
        if not answer.came or way == 0:
            return self.c_i[answer.client]
        return self.c_i[answer.client] - self.c + (start - answer.x) / way

    def round(self, number, order):
        self.fed.fetch()
        if self.of == "sequential":
            end, told = self.along_a_chain(order)
        else:
            answers = self.side_by_side(pushes=self.correction, extra=1)
            end = average(answers, self.weighting)
            self.learn(answers)
            if self.option == 2:
                told = {a.client: self.renewed(self.x, a) for a in answers}
            else:  # option I: the gradient at x
                looks = [self.fed.look(self.x, place) for place in range(len(order))]
                told = {a.client: a.x for a in looks if a.came and a.steps and self.fed.lr}
        self.x = self.x + self.server_lr * (end - self.x)  # line 16
        self.renew(told)  # line 17: c += (1/M) sum of c_i+ - c_i keeps c the mean of all c_i

    def along_a_chain(self, order):
        """The same controls, each client's from where it began its leg; the server's c is renewed after the round."""
        y, told = self.x, {}
        before = self.c_i
        for place in range(len(order)):
            by = CLIENT if place else self.fed.holder
            start, answer = y, self.fed.train(y, place, self.correction, by=by, extra=1)
            y = answer.x
            told[answer.client] = self.renewed(start, answer)
            self.c_i = [told.get(m, c) for m, c in enumerate(before)]  # a client may come twice
        return y, told

    def ends(self, number):
        return BOTH if self.of == "sequential" and self.server_lr == 1 else SERVER


class FedDyn(Controls):
    """FedDyn (Acar et al., 2021), Algorithm 1; c_i is h_i, minus the paper's gradient of L_i at its last model."""

    def __init__(self, *run, alpha=0.1, weighting="uniform"):
        super().__init__(*run, weighting=weighting)
        self.alpha = alpha

    def round(self, number, order):
        self.fed.fetch()
        answers = self.side_by_side(pushes=lambda m: Pushes(pull=self.alpha, shift=-self.c_i[m]))
        self.learn(answers)
        self.renew({a.client: self.c_i[a.client] - self.alpha * (a.x - self.x) for a in answers if a.came})
        self.x = average(answers, self.weighting) - self.c / self.alpha


class AmplifiedScaffold(Controls):
    """Amplified SCAFFOLD (Crawshaw and Liu, 2024), Algorithm 1.

    Controls count for a period of P rounds: a client's is the mean direction of all its legs in the period before; who
    had none keeps the old one.
    """

    def __init__(self, *run, every, server_lr=1.0, weighting="uniform"):
        super().__init__(*run, weighting=weighting)
        self.every, self.server_lr, self.old = every, server_lr, self.x
        self.period, self.found = 0, {}  # client -> the directions of its legs in this period

    def round(self, number, order):
        self.fed.fetch()
        self.begin_period(number // self.every)
        answers = self.side_by_side(pushes=lambda m: Pushes(shift=self.c - self.c_i[m]), extra=1, numbers=1)
        self.learn(answers)
        for a in answers:
            way = a.reach * self.fed.lr
            if a.came and way > 0:
                direction = (self.x - a.x) / way - (self.c - self.c_i[a.client])
                self.found = {**self.found, a.client: [*self.found.get(a.client, []), direction]}
        self.x = average(answers, self.weighting)
        if number % self.every == self.every - 1:
            self.x = self.old = self.old + self.server_lr * (self.x - self.old)

    def begin_period(self, period):
        """Renew the controls, also where the last round of the period before was aborted."""
        if period > self.period:
            self.renew({m: np.mean(legs, 0) for m, legs in self.found.items()})
            self.period, self.found = period, {}

    def drawers(self) -> Drawers:
        return {}
