"""Report of runs: one self-contained HTML page of figures, and the pictures as PNG.

    material.py      finds run folders, their verbs, and the commands behind them
    material.py     reads their files: summaries, signals, refinements, critiques; notes damage
    plots.py        data types of a plot: pictures, table, n, control, or why it cannot be drawn
    plots.py      colours, light and dark
    drawing.py      pictures by matplotlib
    variants.py     success, invalid actions and hints, compared with the placebo
    trained.py      training runs over seeds: learning curves, stage times
    refined.py      effect of critiques: scores before and after, refining against sampling again, log w_t
    critiques.py    length and readability of critiques
    drift.py        diagnoses in critiques, by phase of training
    action_critics.py  critics of single actions: best-of-N and pass@N, reliability
    writing.py      `align-echo report`: the page (`page/`) and the PNG files

Nothing here plays, trains or asks a model. Not here: episodes turn by turn (`align_echo.report.view`).
"""
