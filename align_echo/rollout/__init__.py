"""Play episodes: one session, batches, faults, and which actions were refused."""
