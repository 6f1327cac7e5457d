"""What operators see: the log and the figures."""
