"""Student's t: how many standard errors an interval takes, and how likely it is to be so far off by chance."""

import math
from collections.abc import Sequence

MANY = 1e9  # degrees of freedom that are as good as infinitely many
RAREST = 1e-12  # p values below it are not told apart

Error = tuple[float, float]  # a standard error and its degrees of freedom


def quantile(level: float, freedom: float) -> float:
    """Standard errors on each side of a mean that hold it with this probability: 1.96 for 0.95 and many."""
    from scipy.special import stdtrit  # takes a tenth of a second: not for those who ask for nothing

    return float(stdtrit(min(freedom, MANY), (1 + level) / 2))


def half_width(level: float, errors: Sequence[Error]) -> float:
    """Half of an interval for a sum of independent errors: each one's own interval, added in squares.

    Holds at every level and with any freedoms (Banerjee 1960). One t with Satterthwaite's degrees of freedom does not:
    where two seeds agree by luck, it takes the error of thousands of rows for all there is.
    """
    return math.hypot(*(quantile(level, freedom) * error for error, freedom in errors))


def chance(mean: float, errors: Sequence[Error]) -> float:
    """Return the p value of a mean: 1 less the level at which its interval just reaches 0."""
    from scipy.optimize import brentq
    from scipy.special import stdtr, stdtrit

    some = [(error, min(freedom, MANY)) for error, freedom in errors if error > 0]
    if not some:
        return 0.0 if mean else 1.0
    if not mean:
        return 1.0
    if len(some) == 1:
        return float(2 * stdtr(some[0][1], -abs(mean) / some[0][0]))

    def excess(log_p: float) -> float:
        half = math.exp(log_p) / 2
        return math.hypot(*(float(stdtrit(freedom, half)) * error for error, freedom in some)) - abs(mean)

    far = abs(mean) / math.hypot(*(error for error, _ in some))
    ends = [2 * float(stdtr(freedom, -far)) for _, freedom in some]  # were all errors known as well as this one
    least, most = (math.log(max(end, RAREST)) for end in (min(ends), max(ends)))
    if excess(least) <= 0 or least == most:
        return math.exp(least)
    return math.exp(most if excess(most) >= 0 else brentq(excess, least, most, xtol=1e-9, rtol=1e-9))
