"""The embedded backend of ALIGN: learns misalignments by intervention, without a language model and without a key.

It knows no environment by name. It assumes that names look like "word number", that the engine lists admissible
actions, and that a state can be forked. See `lab.py` (experiments), `vocabulary.py` (what can be said), `cases.py`
(refused actions and what would have helped), `forms.py` (near misses), `spec.py` and `runtime.py` (rules as data, and
at run time), `rules.py` (rules from cases), `trials.py` (rules tested and refined), `emit.py` (interface source),
`findings.py` (what is reported), `backend.py` (the whole).
"""
