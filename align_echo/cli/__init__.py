"""Command line, one file per verb."""
