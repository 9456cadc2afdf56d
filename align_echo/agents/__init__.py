"""Agents: functions from what was seen so far to the next reply."""
