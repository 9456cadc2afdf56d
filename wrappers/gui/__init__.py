"""Shared parts of graphical environments and datasets: actions, recorded steps, and the test of a right action."""
