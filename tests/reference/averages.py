"""Methods that average legs side by side, and those with a step of the server's own on top."""

import numpy as np

from reference.federation import Pushes
from reference.method import BOTH, CLIENT, SERVER, Drawers, Method, average, weigh


class Parallel(Method):
    """FedAvg (McMahan et al., 2017), Algorithm 2 of the paper."""

    def __init__(self, *run, weighting="uniform", server_lr=1.0):
        super().__init__(*run)
        self.weighting, self.server_lr = weighting, server_lr

    def round(self, number, order):
        end = average(self.side_by_side(), self.weighting)
        if self.server_lr != 1:
            self.fed.fetch()
        self.x = self.x + self.server_lr * (end - self.x)


class FedProx(Method):
    """FedProx (Li et al., 2020), Algorithm 2: each client minimises F_k(w) + mu/2 |w - w^t|^2."""

    def __init__(self, *run, mu=0.01, weighting="uniform"):
        super().__init__(*run)
        self.mu, self.weighting = mu, weighting

    def round(self, number, order):
        self.x = average(self.side_by_side(pushes=Pushes(pull=self.mu)), self.weighting)


class FedNova(Method):
    """FedNova (Wang et al., 2020), equation (7): x - tau_eff sum of p_i d_i, d_i = (x - y_i) / |a_i|_1.

    |a_i|_1 is what tau_i steps of SGD with momentum reach; tau_eff = sum of p_i |a_i|_1.
    """

    def __init__(self, *run, weighting="uniform", server_lr=1.0):
        super().__init__(*run)
        self.weighting, self.server_lr = weighting, server_lr

    def round(self, number, order):
        answers = self.side_by_side()
        if self.server_lr != 1:
            self.fed.fetch()
        p = weigh(answers, self.weighting) * [a.reach > 0 for a in answers]
        if p.sum() == 0:
            return
        p = p / p.sum()
        tau_eff = sum(share * a.reach for share, a in zip(p, answers, strict=True))
        d = sum(share * (self.x - a.x) / a.reach for share, a in zip(p, answers, strict=True) if share)
        self.x = self.x - self.server_lr * tau_eff * d


class ServerStep(Method):
    """A round of one of the two ways, whose change D = end - x the server makes a step of."""

    def __init__(self, *run, weighting="uniform", of="parallel"):
        super().__init__(*run)
        self.weighting, self.of = weighting, of

    def round(self, number, order):
        self.fed.fetch()
        side_by_side = self.of == "parallel"
        end = average(self.side_by_side(), self.weighting) if side_by_side else self.chain(self.x, end_up=True)
        self.x = self.x + self.step(end - self.x)

    def step(self, change):
        raise NotImplementedError


class FedAvgM(ServerStep):
    """FedAvgM (Hsu et al., 2019), section 4.3: v = beta v + D; x = x + server_lr v."""

    def __init__(self, *run, beta=0.9, server_lr=1.0, **way):
        super().__init__(*run, **way)
        self.beta, self.server_lr, self.v = beta, server_lr, np.zeros_like(self.x)

    def step(self, change):
        self.v = self.beta * self.v + change
        return self.server_lr * self.v

    def drawers(self) -> Drawers:
        return {"server/": self.v}


class Adaptive(ServerStep):
    """FedAdagrad, FedYogi, FedAdam (Reddi et al., 2021), Algorithm 2; v begins at tau^2."""

    def __init__(self, *run, server_lr=0.1, beta1=0.9, beta2=0.99, tau=0.001, **way):
        super().__init__(*run, **way)
        self.server_lr, self.beta1, self.beta2, self.tau = server_lr, beta1, beta2, tau
        self.m, self.v = np.zeros_like(self.x), np.full_like(self.x, tau**2)

    def step(self, change):
        self.m = self.beta1 * self.m + (1 - self.beta1) * change  # line 10
        self.v = self.second(change**2)  # lines 11 to 13
        return self.server_lr * self.m / (np.sqrt(self.v) + self.tau)  # line 14

    def second(self, square):
        raise NotImplementedError

    def drawers(self) -> Drawers:
        return {"server/m.": self.m, "server/v.": self.v}


class FedAdagrad(Adaptive):
    """Line 11."""

    def __init__(self, *run, beta1=0.0, **more):
        super().__init__(*run, beta1=beta1, **more)

    def second(self, square):
        return self.v + square


class FedYogi(Adaptive):
    """Line 12."""

    def second(self, square):
        return self.v - (1 - self.beta2) * square * np.sign(self.v - square)


class FedAdam(Adaptive):
    """Line 13."""

    def second(self, square):
        return self.beta2 * self.v + (1 - self.beta2) * square


class Amplified(Method):
    """Amplified FedAvg (Wang and Ji, 2022), Algorithm 1: every P rounds x = x_old + eta (x - x_old)."""

    copies = True

    def __init__(self, *run, every, server_lr=1.0, weighting="uniform", of="parallel"):
        super().__init__(*run)
        self.every, self.server_lr, self.weighting, self.of = every, server_lr, weighting, of
        self.old = self.x

    def meets(self, number):
        return number % self.every == self.every - 1

    def round(self, number, order):
        meets, side_by_side = self.meets(number), self.of == "parallel"
        x = average(self.side_by_side(), self.weighting) if side_by_side else self.chain(self.x, end_up=meets)
        if meets:
            x = self.old = self.old + self.server_lr * (x - self.old)
        self.x = x

    def ends(self, number):
        if self.of == "parallel":
            return SERVER
        return CLIENT if not self.meets(number) else BOTH if self.server_lr == 1 else SERVER

    def drawers(self) -> Drawers:
        return {"server/": self.old}
