"""The probe on engines that offer templates and names through their API and do not list what is possible now.

What an action is refused for is then found by change of state: the texts of the contract's read-only actions before and
after it. `survey.py` finds places and ways between them, `survey.py` what misworded actions mean, `learner.py` tests
both on fresh tasks, `learner.py` is the backend's part, `runtime.py` and `learner.py` are the interface.
"""
