"""The probe on engines that show a whole page after each action and answer a refused one with the same page again.

A page is a text in which everything that can be named is shown as a part of its own, between the same separators.
`learn.py` walks through pages and finds by trying which parts can be named; `learn.py` makes rules of that;
`learner.py` tests them on fresh tasks; `learner.py` is the backend's part; `runtime.py` and `learner.py` are the
interface. Left out: forms that name two things or none, and names that no page shows.
"""
