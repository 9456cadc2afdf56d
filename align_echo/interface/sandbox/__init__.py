"""Sandbox for interface code: interpreter sessions, their worker processes, and source preparation."""
