"""Evaluation: metrics over trajectories, comparisons of interface variants on the same tasks, tables."""
