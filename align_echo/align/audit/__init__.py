"""Are the messages of an interface true? Somebody speaks to it, and what it claims is tried in a fork of the state.

`audit.py` reads what a message claims, `audit.py` and `audit.py` say things, `audit.py` plays and tries,
`report.py` does that with each speaker and counts. Nothing here knows an environment by name. Left out: the rules told
up front, and what a text claims beyond commands, "already", "not here" and "only these forms", which is counted as
unread.
"""
