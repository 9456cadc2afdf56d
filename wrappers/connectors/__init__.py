"""Connectors to environments of other packages, one file each: a name behind a colon becomes a `TextEnvironment`.

Goal, action format and texts are the package's own. Each connector imports its package when it is called.

Not here: lookup by name (`wrappers/catalogue.py`).
"""
