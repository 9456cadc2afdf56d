"""Commands that are killed at random moments, gone on with, and compared with the same command undisturbed."""
