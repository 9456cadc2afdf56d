"""The `hybrid` backend: the probe learns what it can, a chat model proposes hypotheses, and experiments decide.

See `hypotheses.py` (what can be proposed), `reading.py` (a model's reply), `hypotheses.py` (was an action taken?),
`reading.py` (states to try hypotheses in), `trials.py` (the trials), `findings.py` (what is
reported, and the words checked), `runtime.py` and `findings.py` (the interface), `backend.py` (the whole).
"""
