"""What `benchmarks.rollout` measures against each other."""
