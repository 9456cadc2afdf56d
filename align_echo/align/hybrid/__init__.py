"""`hybrid` backend: the probe learns first, then a chat model proposes hypotheses and experiments decide.

See `hypotheses.py` (hypotheses, and the judge of actions), `reading.py` (a model's reply, and states for trials),
`trials.py`, `findings.py` (reports, wording and interface source), `runtime.py` (code of the interface) and
`backend.py`.
"""
