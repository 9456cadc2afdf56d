"""What `studies.rollout` measures against each other."""
