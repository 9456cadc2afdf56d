"""`align-echo study`: the papers' tables from a YAML file, with any agents and models.

Not here: the plan of a study and its run (`evaluate/study.py`).
"""

from __future__ import annotations

from typing import Annotated

import typer

from align_echo.agents.options import PayingConfig
from align_echo.cli.console import cost, leave, print_whole, run_display, run_folder, say
from align_echo.cli.options import Out, Resume, takes
from align_echo.evaluate.study import TABLES, build_tables, plan_study, play_study, study_conducts, study_notes
from align_echo.evaluate.study_file import studies
from align_echo.rollout.faults import overstepped, tell, verdict


@takes(PayingConfig)
def study(
    config: PayingConfig,
    source: Annotated[
        str, typer.Argument(metavar="NAME|FILE.yaml", help=f"Built in: {', '.join(studies())}; or your own file.")
    ],
    out: Out = None,
    resume: Resume = False,
) -> None:
    """Run the generation and evaluation described by a YAML file, environments x agents, and print its tables."""
    plan = plan_study(source)
    path = run_folder(out, resume, "study", plan.name)
    with run_display(path, resume=resume) as display:
        played = play_study(plan, path, resume=resume, progress=display, limits=config.spending_limits)
    for table in build_tables(played):
        print_whole(table)
        print()
    conducts = study_conducts(played)
    print(*study_notes(played), *tell(conducts), sep="\n")
    cost(played.usage, display.spent)
    say(f"written: {path / 'summary.json'} and {TABLES}, and the folders of all that was learned and played")
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))
