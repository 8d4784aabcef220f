"""Real servers of nemo-gym, started by its own command line under `pushmetrics run`, and what they push."""
