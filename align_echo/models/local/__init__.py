"""Models that run here: token ids in, token ids and log-probabilities out."""
