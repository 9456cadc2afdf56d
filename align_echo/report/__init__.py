"""One page of figures from what runs left in their folders: HTML that needs nothing else, and the pictures as PNG.

    finding.py      which folders hold runs, of which verb each is, and the command that made it
    material.py     what their files hold: summaries, signals, refinements, critiques; damage is told of
    plots.py        what a plot is: its pictures, its table, its n, its control, or why it cannot be drawn
    palette.py      colours, light and dark
    drawing.py      pictures by matplotlib
    variants.py     success, invalid actions and hints, beside the placebo
    trained.py      training runs over seeds: learning curves, stage times
    refined.py      what critiques changed: scores before and after, refining against sampling again, log w_t
    critiques.py    length and readability of critiques
    drift.py        what critiques blame, by phase of training
    judged.py       critics of single actions: best-of-N beside pass@N, reliability
    writing.py      `align-echo report`: the page (`page/`) and the PNG files

Nothing here plays, trains or asks a model. Left out: episodes turn by turn (`align_echo.view`).
"""
