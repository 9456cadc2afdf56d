"""The embedded backend of ALIGN: learns misalignments by intervention, without a language model and without a key.

It knows no environment by name and no spelling: what a name is, how a refusal looks and which forms there are is
induced from what an engine lists, offers or answers. It assumes that a state can be forked and that the same actions
lead to the same state. See `lab.py` (experiments), `names.py` (names and forms), `rules.py` (how
refusals look), `vocabulary.py` (what can be said), `cases.py` (refused actions and what would have helped) and wrong
wordings (`findings.py`), `spec.py` and `runtime.py` (rules as data, and at run time), `rules.py` (rules from
cases), `examinations.py` (rules tested and refined), `emit.py` (interface source),
`findings.py` (what is reported), `backend.py` (the whole).
"""
