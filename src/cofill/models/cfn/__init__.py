"""The network of the paper: scaling, corruption, layers, kernels and training."""
