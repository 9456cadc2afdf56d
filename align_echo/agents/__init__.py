"""Agents: each maps the history of an episode to the next reply."""
