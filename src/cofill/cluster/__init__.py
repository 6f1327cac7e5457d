"""The same training, scoring and search on many machines, with Ray."""
