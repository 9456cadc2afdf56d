"""`hybrid` backend: the probe learns first, then a chat model proposes hypotheses and experiments decide.

See `hypotheses.py` (hypotheses, and the judge of actions), `forms.py`, `reading.py` (a model's reply, and states for
trials), `trials.py`, `rules.py` (hypotheses as rules of `interface/rules`), `findings.py` (reports, wording and
interface source) and `backend.py`.
"""
