"""FedDyn (Acar et al., 2021): a penalty that each client adapts, so that all local minima move to the global one."""

from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, weights
from baton.algorithms.shares import shares, unknown
from baton.lanes import Params, per_lane, per_leg, zeros
from baton.names import lane
from baton.seam import Cohort, Leg, Local, Sites, State


def feddyn(*, alpha: Tensor = lane(0.1, above=0.0), weighting: str = "uniform") -> Algorithm:
    """Each step adds alpha (y - x) - h_i; then h_i -= alpha (y - x), x = mean - h / alpha (Acar et al., 2021).

    h is the mean of all clients' h_i, by samples as the models' with weighting=size. The first round is
    fedprox:mu=alpha with server_lr = 1 + S/M.
    """
    check_weighting("feddyn", weighting)

    def begin(kept: Params, sent: Params) -> Params:  # noqa: ARG001
        return {n: -leaf for n, leaf in kept.items()}

    def end(kept: Params, sent: Params, leg: Leg) -> Params:  # noqa: ARG001
        """Not from the leg's direction, which loses digits where the rate is small."""
        new = {}
        for n, leaf in kept.items():
            far = leg.end[n] - leg.start[n]
            new[n] = leaf.addcmul_(far, per_leg(alpha.to(far).unsqueeze(1), far), value=-1)
        return new

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, reply = state.model, sites.train(state.model, order, pull=alpha)
        weight = weights(reply, weighting)
        share = shares(state.server, order, reply, weight > 0, sites.now)
        mean, h, new = average(reply.x, weight), Params(), Params()
        came = share.each.sum(1)
        for n, leaf in x.items():
            way, force = mean[n] - leaf, per_lane(alpha, leaf)
            before = state.server[n] if share.keep is None else state.server[n] * per_lane(share.keep, leaf)
            h[n] = before - force * per_lane(came, leaf) * way
            new[n] = mean[n] - h[n] / force
        return State(new, {**h, **share.samples})

    return Algorithm(
        round, server=lambda x, now: {**zeros(x), **unknown(weighting, now)}, local=Local(zeros, begin, end), once=True
    )
