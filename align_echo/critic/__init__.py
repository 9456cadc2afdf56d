"""Critics: prompts, parsing of their replies, and selection of actions by them. Not here: training (`gaia/`, `train/`).
"""
