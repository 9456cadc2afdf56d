"""Audit of an interface: each message is checked for truth by trying its claims in a copy of the state.

`audit.py` reads claims, draws actions, plays and tries; `report.py` does so for each speaker and counts. Nothing here
knows an environment by name. Not covered: the rules text, and claims beyond commands, "already", "not here" and "only
these forms", which count as unread.
"""
