"""Text worlds made from a seed: holders with things in them, steps that a holder needs, one thing in the hand.

A world's words, forms, texts and rules come from `random.Random` of its seed; its tasks differ in the names, in where
holders stand and in what is in them. What an action does is pure (`unmet`, `after`), so that an agent and a test can
work it out without the engine (`env.py`). Tasks are "world-<seed>/<number>": from `FIRST_TEST` on they are test tasks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from align_echo.errors import UsageError
from align_echo.interface.contract import InterfaceContract
from tests.worlds.features import Features, Words, draw_features, draw_names
from tests.worlds.grammar import Form, Truth, make_forms, misworded, preparation, truth_of

FIRST_TEST = 1000
HOLDERS, THINGS, ROOMS = 4, 5, 3
"""How many of each kind a task has."""


@dataclass(frozen=True, eq=False)
class World:
    """A world. `wrong` maps roles to the wording of agents that err, `skipped` are roles that such agents leave out."""

    seed: int
    features: Features
    forms: Mapping[str, Form]
    names: Mapping[str, tuple[str, ...]]
    wrong: Mapping[str, str]
    skipped: frozenset[str]
    truth: Truth
    refusals: tuple[str, ...]
    states: tuple[str, ...]
    """The words for a holder to which nothing was done, the first step, the second, and so on."""

    looks: tuple[str, ...]
    contract: InterfaceContract


@dataclass(frozen=True)
class Situation:
    """A state of a task: where one is ("" nowhere yet), the (step, holder) pairs that are done, what is held, and which
    thing is in which holder."""

    here: str
    done: frozenset[tuple[int, str]]
    held: str
    inside: frozenset[tuple[str, str]]

    def holder_of(self, thing: str) -> str:
        """The holder that a thing is in; "" for what is held."""
        return next((holder for name, holder in self.inside if name == thing), "")


@dataclass(frozen=True, eq=False)
class Task:
    """A task: its names, where holders stand (`spots`: a room, the holder itself, or "" where nobody goes anywhere),
    how it begins, which thing it wants where, and all actions that can be said, as (form, names by kind)."""

    task_id: str
    rooms: tuple[str, ...]
    holders: tuple[str, ...]
    things: tuple[str, ...]
    spots: Mapping[str, str]
    start: Situation
    target: str
    goal: str
    actions: Mapping[str, tuple[Form, Mapping[str, str]]]


def make_world(seed: int, **given: Any) -> World:
    """The world of a seed; features that are given replace those that are drawn."""
    features = replace(draw_features(random.Random(seed)), **given)
    rng = random.Random(f"{seed}/words")
    words = Words(rng)
    forms = make_forms(features, words, rng)
    on_the_way = [role for role in forms if role not in ("close", "put" if features.goal == "use" else "")]
    left_out = [role for role in on_the_way if role not in ("take", "put", "use")]
    skipped = frozenset(rng.sample(left_out, min(features.skipped, len(left_out))))
    spoken = [role for role in on_the_way if role not in skipped]
    roles = rng.sample(spoken, min(features.wrong_words, len(spoken)))
    wrong = {role: misworded(forms[role], words, rng) for role in roles}
    looks = (words.new(), words.new()) if features.looks else ()
    return World(
        seed=seed,
        features=features,
        forms=forms,
        names=draw_names(features.spelling, words, rng),
        wrong=wrong,
        skipped=skipped,
        truth=truth_of(features, forms, wrong),
        refusals=tuple(f"{words.new().title()} {words.new()}." for _ in range(3)),
        states=tuple(words.new() for _ in range(features.preparations + 1)),
        looks=looks,
        contract=_contract(seed, looks),
    )


def _contract(seed: int, looks: tuple[str, ...]) -> InterfaceContract:
    return InterfaceContract(
        environment=f"world-{seed}",
        infer_rules_args=("init_obs", "task"),
        wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
        step_layout="batched",
        read_only_actions=looks,
    )


def train_tasks(world: World, count: int) -> list[str]:
    """Tasks to learn from."""
    return [f"world-{world.seed}/{number}" for number in range(min(count, FIRST_TEST))]


def held_out_tasks(world: World, count: int) -> list[str]:
    """Tasks that nothing is learned from."""
    return [f"world-{world.seed}/{FIRST_TEST + number}" for number in range(count)]


@cache
def task_of(world: World, task_id: str) -> Task:
    """A task of a world. Raises `UsageError` for one of another world."""
    prefix, _, number = task_id.partition("/")
    if prefix != f"world-{world.seed}" or not number.isdigit():
        raise UsageError(f"unknown task {task_id!r}")
    rng = random.Random(task_id)
    holders, things = (tuple(rng.sample(world.names[kind], n)) for kind, n in (("holder", HOLDERS), ("thing", THINGS)))
    rooms = tuple(rng.sample(world.names["room"], ROOMS)) if world.features.travel == "rooms" else ()
    spots = {holder: rng.choice(rooms) if rooms else holder for holder in holders}
    if world.features.travel == "none":
        spots = dict.fromkeys(holders, "")
    first, goal = rng.sample(holders, 2)
    inside = {things[0]: first, **{thing: rng.choice(holders) for thing in things[1:]}}
    start = Situation("", frozenset(), "", frozenset(inside.items()))
    names = {"room": rooms, "holder": holders, "thing": things}
    return Task(task_id, rooms, holders, things, spots, start, things[0], goal, _sayings(world, names))


def _sayings(world: World, names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Form, Mapping[str, str]]]:
    """All actions of a task, whether possible or not, by their text."""
    sayings: dict[str, tuple[Form, Mapping[str, str]]] = {}
    for form in world.forms.values():
        chosen: list[dict[str, str]] = [{}]
        for kind in form.kinds:
            chosen = [{**known, kind: name} for known in chosen for name in names[kind]]
        sayings.update({form.write(known): (form, known) for known in chosen})
    return sayings


# ---------------------------------------------------------------- what actions need and do


def unmet(world: World, task: Task, now: Situation, action: str) -> list[str] | None:
    """The actions that this one needs before it, of those that are missing; empty if it is possible. None where no
    single step helps: it is in effect already, or what it names is not there."""
    form, names = task.actions[action]
    thing, role = names.get("thing", ""), form.role
    if role == "go":
        return None if now.here == _destination(names) else []
    holder = names.get("holder") or now.holder_of(thing)
    if not _makes_sense(world, now, role, thing, holder):
        return None
    wanted = {"thing": thing, "holder": holder}
    missing: list[str] = []
    if now.here != task.spots[holder]:
        missing.append(world.forms["go"].write({"room": task.spots[holder], "holder": holder}))
    step = _step_before(world, role)
    if step >= 0 and (step, holder) not in now.done:
        missing.append(world.forms[preparation(step)].write(wanted))
    if role == "take" and now.held:
        missing.append(world.forms["put"].write({"thing": now.held, "holder": holder}))
    if role in ("put", "use") and now.held != thing:
        missing.append(world.forms["take"].write({"thing": thing, "holder": now.holder_of(thing)}))
    return missing


def possible(world: World, task: Task, now: Situation) -> list[str]:
    """The actions of which nothing is `unmet`, in alphabetical order."""
    where = dict(now.inside)
    last = world.features.preparations - 1

    def ready(holder: str, step: int) -> bool:
        return now.here == task.spots[holder] and (step < 0 or (step, holder) in now.done)

    def works(form: Form, names: Mapping[str, str]) -> bool:
        role, thing, holder = form.role, names.get("thing", ""), names.get("holder", "")
        if role == "go":
            return now.here != _destination(names)
        if role == "close":
            return ready(holder, last) and (last, holder) in now.done
        if role == "take":
            inside = where.get(thing, "")
            return not now.held and bool(inside) and (holder or inside) == inside and ready(inside, last)
        if role in ("put", "use"):
            return now.held == thing and ready(holder, last if role == "put" else -1)
        step = int(role.removeprefix("prepare"))
        return (step, holder) not in now.done and ready(holder, step - 1)

    return sorted(text for text, (form, names) in task.actions.items() if works(form, names))


def _destination(names: Mapping[str, str]) -> str:
    return names.get("room") or names["holder"]


def _makes_sense(world: World, now: Situation, role: str, thing: str, holder: str) -> bool:
    """Whether an action could change something, once what it needs is done."""
    if role.startswith("prepare"):
        return (int(role.removeprefix("prepare")), holder) not in now.done
    if role == "close":
        return (world.features.preparations - 1, holder) in now.done
    if role == "take":
        return bool(holder) and now.holder_of(thing) == holder
    return role != "put" or now.holder_of(thing) != holder


def _step_before(world: World, role: str) -> int:
    """The number of the step that a holder needs before an action of this role; -1 for none."""
    if role.startswith("prepare"):
        return int(role.removeprefix("prepare")) - 1
    return -1 if role in ("go", "use") else world.features.preparations - 1


def after(world: World, task: Task, now: Situation, action: str) -> Situation:
    """The situation after an action; the same one if it is refused, or is no action that changes anything."""
    if action not in task.actions or unmet(world, task, now, action) != []:
        return now
    form, names = task.actions[action]
    thing, holder, role = names.get("thing", ""), names.get("holder", ""), form.role
    last = world.features.preparations - 1
    if role == "go":
        return replace(now, here=_destination(names))
    if role.startswith("prepare"):
        return replace(now, done=now.done | {(int(role.removeprefix("prepare")), holder)})
    if role == "close":
        return replace(now, done=now.done - {(last, holder)})
    if role == "take":
        return replace(now, held=thing, inside=frozenset(pair for pair in now.inside if pair[0] != thing))
    return replace(now, held="", inside=now.inside | {(thing, holder)}) if role == "put" else now


def finishes(world: World, task: Task, now: Situation, action: str) -> bool:
    """Whether an action, where it is possible, is what the task wants."""
    form, names = task.actions[action]
    role = "use" if world.features.goal == "use" else "put"
    return form.role == role and (names["thing"], names["holder"]) == (task.target, task.goal)


def route(world: World, task: Task, now: Situation) -> list[str]:
    """Actions that lead to the goal from here: what is held wrongly is laid down, then the thing is fetched and brought
    to its holder. Not always the shortest way."""
    source = now.holder_of(task.target)
    actions: list[str] = []

    def do(role: str, thing: str, holder: str) -> None:
        nonlocal now
        if world.forms.get("go") and now.here != task.spots[holder]:
            actions.append(world.forms["go"].write({"room": task.spots[holder], "holder": holder}))
            now = after(world, task, now, actions[-1])
        for step in range(world.features.preparations if role != "use" else 0):
            if (step, holder) not in now.done:
                actions.append(world.forms[preparation(step)].write({"holder": holder}))
                now = after(world, task, now, actions[-1])
        actions.append(world.forms[role].write({"thing": thing, "holder": holder}))
        now = after(world, task, now, actions[-1])

    if now.held not in ("", task.target):
        do("put", now.held, source)
    if now.held != task.target:
        do("take", task.target, source)
    do("use" if world.features.goal == "use" else "put", task.target, task.goal)
    return actions
