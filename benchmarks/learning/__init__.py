"""Studies of learning: which methods, from which start, at what cost, measured on held-out tasks."""
