"""GAIA: a critic learns from labelled candidates, is put on trial, and leads the next collection (paper 3)."""
