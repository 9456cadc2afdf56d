"""How much the probe finds of what is so, on text worlds made from a seed that nobody tuned it to."""
