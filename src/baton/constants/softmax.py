"""What holds for logistic regression at every x, from its inputs alone.

One sample's Hessian is (diag(p) - p p') kron z z', z being its input with a 1 for the bias; the first factor's largest
eigenvalue is at most 1/2 (1/4 in the binary, one-output form), its smallest 0. One sample's gradient is (p - e_y) z',
and |p - e_y|^2 <= 2.
"""

from functools import partial

from torch import Tensor

from baton.constants.found import BOUND, EXACT, Constant
from baton.constants.noise import factor, keyed
from baton.constants.objective import Objective
from baton.constants.regression import inputs
from baton.constants.spectrum import ends


def bounds(objective: Objective) -> dict[str, Constant]:
    """L, mu, sigma^2, (beta^2, zeta^2) and delta that hold for all x, over all clients."""
    top, variance, reach = 0.0, 0.0, 0.0
    for some, group in objective.groups(range(objective.clients)):
        z = inputs(objective, group.places.flatten()).view(*group.places.shape, -1)  # [C, n, p]
        found = ends(partial(_gram, z, group.weight), len(some), z.shape[2], 1e-4, 1, z.device)
        top = max(top, float((found.high + found.high_error).max()) / 2)
        length = z.norm(dim=2)
        scale = z.new_tensor([factor(int(objective.sizes[m]), objective.setting) for m in some])
        variance = max(variance, float((2 * scale * (length.square() * group.weight).sum(1)).max()))
        reach += float(2 * (length * group.weight).sum(1).square().sum()) / objective.clients
    wd = objective.decay
    flat = "the loss is flat: one vector may be added to all classes' weights"
    result = {
        "L": Constant(top + wd, BOUND, note="largest eigenvalue of a client's Z'Z/n, halved, + weight_decay"),
        "mu": Constant(wd, EXACT, note="weight_decay; " + flat),
        "beta2": Constant(0.0, BOUND, note="with zeta2: gradients of the loss are bounded"),
        "zeta2": Constant(reach, BOUND, note="2 (mean |z|)^2, over clients"),
        "delta": Constant((1 - 1 / objective.clients) * top, BOUND, note="(1 - 1/M) (L - weight_decay)"),
    }
    if not keyed(objective):  # augmented inputs are not those counted here
        result["sigma2"] = Constant(variance, BOUND, note="2 mean |z|^2 of a client, times its factor for b of n")
    return result


def _gram(z: Tensor, weight: Tensor, v: Tensor) -> Tensor:
    """Z' W Z v for v [C, s, p]."""
    along = v @ z.mT * weight.unsqueeze(1)  # [C, s, n]
    return along @ z
