"""Theory: the bounds of Theorems 1 and 2, their corollaries and lemmas, as functions of numbers or NumPy arrays.

    bound("sequential", "strongly_convex", L=1, mu=0.1, sigma=1, zeta=1, D=1, M=10, S=5, K=5, R=1000)

No torch here.
"""

from baton.theory.average import average, weights
from baton.theory.bounds import Result, bound
from baton.theory.corollaries import orders
from baton.theory.crossover import OVER, Crossing, Curves, crossover
from baton.theory.groups import Groups, groups, groups_bound, groups_costs, groups_error, parted
from baton.theory.lemmas import (
    Drift,
    covariance,
    drift_bound,
    mean_variance,
    partial_sum,
    participation,
    path_variance,
    path_variance_bound,
)
from baton.theory.ordering import (
    ORDER_RATES,
    ORDERS,
    Chain,
    Cost,
    Least,
    chain,
    costs,
    least_error,
    order_bound,
    order_error,
)
from baton.theory.rates import best_rate, largest_rate, tuned_rate
from baton.theory.recursions import Recursion, Summable, recursion, summable, useful_steps
from baton.theory.related import cyclic, related, shuffled
from baton.theory.symbols import ALGORITHMS, CASES, MEANING, TERMS, Symbols
from baton.theory.table import Row, table
from baton.theory.typeset import latex, markdown

__all__ = [
    "ALGORITHMS",
    "CASES",
    "MEANING",
    "ORDERS",
    "ORDER_RATES",
    "OVER",
    "TERMS",
    "Chain",
    "Cost",
    "Crossing",
    "Curves",
    "Drift",
    "Groups",
    "Least",
    "Recursion",
    "Result",
    "Row",
    "Summable",
    "Symbols",
    "average",
    "best_rate",
    "bound",
    "chain",
    "costs",
    "covariance",
    "crossover",
    "cyclic",
    "drift_bound",
    "groups",
    "groups_bound",
    "groups_costs",
    "groups_error",
    "largest_rate",
    "latex",
    "least_error",
    "markdown",
    "mean_variance",
    "order_bound",
    "order_error",
    "orders",
    "parted",
    "partial_sum",
    "participation",
    "path_variance",
    "path_variance_bound",
    "recursion",
    "related",
    "shuffled",
    "summable",
    "table",
    "tuned_rate",
    "useful_steps",
    "weights",
]
