"""Learn rules from the effects of actions, in a world without lists of actions: any texts, any refusals.

`forms.py` (forms of actions), `outcomes.py` (what came of an action), `fixes.py` (what makes a refused action work),
`proposals.py` (rules that need no fix), `trials.py` (trials on fresh tasks), `learner.py` (the whole way, and the
interface's source).
"""
