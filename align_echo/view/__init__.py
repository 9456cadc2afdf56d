"""Reading what agents did: the episodes of a run's folder on a terminal, or as one page for a browser.

    finding.py    which files of a folder hold episodes, and of which run and part each is
    reading.py    the episodes of such a file, and which of its lines are damaged
    critiques.py  what a critic said of them, in the files beside
    labels.py     what an oracle said of the actions, where a collection keeps it
    evidence.py   the rules of the interfaces that were played under, and which of them a message speaks for
    listing.py    `align-echo show`: what a run holds, and one episode turn by turn, as lines
    packing.py    `align-echo view`: all of it in one HTML file (`page/` holds the page itself)
    inspect_logs.py  `align-echo view --eval`: the same as logs of inspect_ai
    serving.py    the same page on a port of this machine

Nothing here knows an environment by name. Left out: figures (`align_echo.evaluate`).
"""
