"""What is measured, by name: the columns of metrics.csv, in their order."""

MEASURED = (  # at every evaluation
    "test_loss",
    "test_accuracy",
    "train_loss",
    "train_accuracy",
    "train_random_loss",
    "train_random_accuracy",
)
EXACT = ("distance", "objective_gap")  # of quadratics, at every round
BYTES = ("bytes_up", "bytes_down", "bytes_peer")  # sent since the run began, at every evaluation
REAL = (  # at real sites, since the run began, at every evaluation: bytes, seconds, and legs that did not come back
    "real_bytes_up",
    "real_bytes_down",
    "real_seconds",
    "lost_legs",
)
METRICS = (*MEASURED, *EXACT, *BYTES, *REAL)
