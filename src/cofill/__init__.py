"""cofill: hybrid collaborative filtering with autoencoders."""

__version__ = "0.1.0"
