"""Training: supervised warm start, and the recipes of the policy and its critic."""
