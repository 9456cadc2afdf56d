"""`hybrid` backend: the probe learns first, then a chat model proposes hypotheses and experiments decide.

See `hypotheses.py` (hypotheses, their forms, their rules, and the judge of actions), `reading.py` (a model's reply, and
states for trials), `trials.py`, and `backend.py` (reports, wording and interface source, too).
"""
