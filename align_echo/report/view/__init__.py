"""Read agents' episodes in a run's folder, on the terminal or as one page for a browser.

    finding.py    finds the files with episodes, with their run and part
    reading.py    reads the episodes of a file, and collects its damaged lines
    reading.py  a critic's critiques of the episodes, from separate files
    reading.py     an oracle's labels of the actions, from a collection
    listing.py   the recorded rules of the interfaces, and which of them fit a message
    listing.py    `align-echo show`: an overview of a run, and one episode turn by turn, as lines
    packing.py    `align-echo view`: all of it in one HTML file (`page/` holds the page itself)
    inspect_logs.py  `align-echo view --eval`: the same as logs of inspect_ai
    serving.py    the same page on a port of this machine

Nothing here knows an environment by name. Not here: figures (`align_echo.evaluate`).
"""
