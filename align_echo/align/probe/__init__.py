"""The embedded backend of ALIGN: learns misalignments by intervention, without a language model and without a key.

It knows no environment by name. It assumes that names look like "word number", that the engine lists admissible
actions, and that a state can be forked. See `lab.py` (experiments), `vocabulary.py` (what can be said),
`cases.py` (failures and what would have helped), `rules.py` (rules from cases), `forms.py` (near misses),
`runtime.py` (rules at run time), `emit.py` (interface source), `backend.py` (the whole).
"""
