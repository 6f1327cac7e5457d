"""Search for the best settings: ranges, the genetic algorithm of the paper as an Optuna sampler, workers, results."""
