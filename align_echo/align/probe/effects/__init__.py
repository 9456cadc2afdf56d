"""Learn rules from the effects of actions, in a world without lists of actions: any texts, any refusals.

`outcomes.py` (what came of an action), `fixes.py` (what makes a refused action work), `page_conditions.py` and
`proposals.py` (rules that need no fix), `trials.py` (trials on fresh tasks), `learner.py` (the whole way, and the
interface's source).
"""
