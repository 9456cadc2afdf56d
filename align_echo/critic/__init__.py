"""Critics: asking them, their figures, labels, and choosing actions by them. Not here: training (`gaia/`, `train/`)."""
