"""What a study's parts are: verbs of the library with what they are asked, to be done in a folder, anew or resumed.

A part is a `functools.partial` of one of these functions, called with the folder and whether it was begun; so it can be
sent to another process, and what it asks can be read. Left out: the order of parts, and what is done of them already
(`runs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from align_echo.agents.players import choose_agent
from align_echo.display import Display, note
from align_echo.evaluate.plan import EvaluationPlan
from align_echo.evaluate.playing import play
from align_echo.evaluate.rounds import refine
from align_echo.evaluate.selection import pick_tasks
from align_echo.gaia.collect import CandidateSettings, States, plan_collection
from align_echo.gaia.collect import collect as collect_into
from align_echo.gaia.fit.intuitive import fit, read_fit_settings
from align_echo.gaia.flywheel import Begin, FlywheelConfig
from align_echo.gaia.flywheel import run_flywheel as turn_in
from align_echo.gaia.trial import run_trial as trial_in
from align_echo.models.names import POCKET, read_name
from align_echo.train.config import checked_config, merged, read_file
from align_echo.train.crew import find_source
from align_echo.train.run import TrainingRun
from align_echo.wrappers.catalogue import environment

Work = partial[object]
"""Something to do; called with the folder it is done in and whether it was begun there."""


def asked_of(work: Work | None) -> dict[str, object]:
    """What a part is asked, by name; of an evaluation what it is planned by."""
    if work is None:
        return {}
    plans = [asked_of(argument) for argument in work.args if isinstance(argument, partial)]
    return {name: value for asked in (*plans, work.keywords) for name, value in asked.items()}


def evaluate(plan: partial[EvaluationPlan], folder: Path, resume: bool) -> object:
    """`align-echo evaluate`: what `plan` plans is played."""
    planned = plan()
    with Display() as display:
        if planned.refining is None:
            return play(planned, folder, resume=resume, progress=display)
        return refine(planned, planned.refining, folder, resume=resume, progress=display)


def train(folder: Path, resume: bool, *, config: Path, seed: int) -> object:
    """`align-echo train --config`."""
    config_read = checked_config(merged(read_file(config), {"seed": seed}), str(config))
    return TrainingRun(config_read, folder, resume=resume).train(
        lambda step, signals: note(f"step {step}/{config_read.steps}")
    )


def collect(
    folder: Path,
    resume: bool,
    *,
    env: str,
    model: str,
    states: States,
    split: str,
    tasks: int,
    seed: int,
) -> object:
    """`align-echo critic collect`, with the paper's candidates."""
    spec = environment(env)
    drawing = CandidateSettings(candidates=8, temperature=1.0, top_k=None, top_p=None, judge=None, states=states)
    chosen = pick_tasks(spec.tasks(split), tasks, task_type=spec.task_type, seed=seed)
    player = choose_agent(None, model, (spec.name,))
    plan = plan_collection(spec, player, drawing, split=split, task_ids=chosen, seed=seed)
    with Display() as display:
        return collect_into(plan, drawing, folder, resume=resume, progress=display)


def train_critic(folder: Path, resume: bool, *, examples: Sequence[Path], model: str, seed: int) -> object:
    """`align-echo critic train`."""
    name = read_name(model)
    settings = read_fit_settings(find_source(name), None, {"seed": seed})
    with Display() as display:
        return fit(examples, folder, model=name, settings=settings, resume=resume, progress=display)


def trial(folder: Path, resume: bool, *, judge: Path, examples: Sequence[Path]) -> object:
    """`align-echo critic evaluate`."""
    with Display() as display:
        return trial_in(str(judge), examples, folder, resume=resume, progress=display)


def turn(
    folder: Path,
    resume: bool,
    *,
    env: str,
    rounds: int,
    begin: Begin,
    split: str,
    test_split: str,
    tasks: int,
    test_tasks: int,
    candidates: int,
    test_candidates: int,
    config: Path,
    seed: int,
) -> object:
    """`align-echo critic flywheel` with the pocket model, whose candidates are drawn of all that it would say."""
    spec, pocket = environment(env), read_name(POCKET)
    drawing = CandidateSettings(candidates, temperature=1.0, top_k=0, top_p=1.0, judge=None, states="expert")
    wheel = FlywheelConfig(
        spec=spec,
        player=choose_agent(None, pocket, (spec.name,)),
        settings=read_fit_settings(find_source(pocket), config, {"seed": seed}),
        critic=pocket,
        split=split,
        test_split=test_split,
        drawing=drawing,
        test_candidates=test_candidates,
        rounds=rounds,
        tasks=tasks,
        test_tasks=test_tasks,
        begin=begin,
        seed=seed,
    )
    with Display() as display:
        return turn_in(wheel, folder, resume=resume, progress=display)
