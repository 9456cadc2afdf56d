"""The probe on engines that offer templates and names through their API and do not list what is possible now.

What an action is refused for is then found by change of state: the texts of the contract's read-only actions before and
after it. `survey.py` finds places, ways between them and the meaning of misworded actions; `learner.py` tests
both on fresh tasks. `pages.py` is for engines that show a page after each action.
"""
