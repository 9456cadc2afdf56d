"""Probe for engines that show a page after each action and repeat it after a refusal.

A page is a text with each nameable item as a part, between fixed separators. `learn.py` walks through pages, finds
nameable parts by trying, and derives rules; `learner.py` tests them on fresh tasks. Not
supported: forms with two names or none, and names on no page.
"""
