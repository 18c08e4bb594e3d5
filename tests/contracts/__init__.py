"""What every registered algorithm, schedule, partition, model and data set must do."""
