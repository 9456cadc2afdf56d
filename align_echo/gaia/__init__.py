"""GAIA (paper 3): train a critic on labelled candidates, evaluate it, and collect again under its guidance."""
