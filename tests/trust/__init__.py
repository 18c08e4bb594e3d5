"""What Baton promises most, each promise a test: verdicts, privacy, what a run is made of, the store."""
