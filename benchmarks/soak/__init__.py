"""An hour of mixed load under faults in one process, and what it holds on to."""
