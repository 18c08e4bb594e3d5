"""Student's t: how many standard errors an interval takes, and how likely it is to be so far off by chance."""

MANY = 1e9  # degrees of freedom that are as good as infinitely many


def quantile(level: float, freedom: float) -> float:
    """Standard errors on each side of a mean that hold it with this probability: 1.96 for 0.95 and many."""
    from scipy.special import stdtrit  # takes a tenth of a second: not for those who ask for nothing

    return float(stdtrit(min(freedom, MANY), (1 + level) / 2))


def chance(errors: float, freedom: float) -> float:
    """How likely a mean is to be at least so many standard errors from where it should be, on either side."""
    from scipy.special import stdtr

    return float(2 * stdtr(min(freedom, MANY), -abs(errors)))
