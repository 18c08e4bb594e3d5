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
HELD = ("validation_loss", "validation_accuracy")  # at every evaluation, where samples are held back
BYTES = ("bytes_up", "bytes_down", "bytes_peer")  # sent since the run began, at every evaluation
METRICS = (*MEASURED, *HELD, *EXACT, *BYTES)
