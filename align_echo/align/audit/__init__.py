"""Are the messages of an interface true? An adversary plays, and what it is told is tried in a fork of the state.

`claims.py` reads what a message claims, `adversary.py` says things that most agents never say, `audit.py` plays and
tries. Nothing here knows an environment by name. Left out: the rules told up front, and interfaces whose sentences are
not the probe's (what cannot be read is counted, and speaks against the interface).
"""
