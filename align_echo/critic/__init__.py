"""Critics: what they are asked and how their answers are read. Left out: training them, choosing actions with them."""
