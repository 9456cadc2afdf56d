"""`probe` backend of ALIGN: learns misalignments by intervention, without a language model or a key.

It assumes no environment and no spelling. Names, refusals and forms are induced from the engine's lists, offers and
answers. States must be forkable, and equal actions must lead to equal states.

See `lab.py` (experiments), `names.py` (names and forms), `cases.py` (possible actions, refused ones and helpful steps),
`rules.py` (refusals, and rules from cases), `findings.py` (tests and refinement of rules, reports, and wrong
wordings) and `backend.py`. What rules are, how they are played and written is in `align_echo/interface/rules`.
"""
