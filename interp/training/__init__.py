"""Training populations: data layouts, the batched loop, workers, evaluation."""
