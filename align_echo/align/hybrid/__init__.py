"""The `hybrid` backend: the probe learns what it can, a chat model proposes hypotheses, and experiments decide.

See `hypotheses.py` (what can be proposed), `reading.py` (a model's reply), `answers.py` (was an action taken?),
`walks.py` (states to try hypotheses in), `trials.py` (the trials), `findings.py` (what is reported), `wording.py` (the
model's words, checked), `runtime.py` and `source.py` (the interface), `backend.py` (the whole).
"""
