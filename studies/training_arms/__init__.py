"""What the benchmarks of training measure against each other."""
