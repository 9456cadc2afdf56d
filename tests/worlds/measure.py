"""Learn one world with the probe, hold its rules against the true ones, and play its test tasks.

Rules are compared by form: of "before `A` you need `B`" counts that A needs B, not when it is said; what comes of its
conditions shows in the success of the agents. Of what the probe learns, "already so" rules, rules that call an action
allowed, and names are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gymnasium as gym

from align_echo.align.probe.backend import ProbeBackend
from align_echo.errors import UsageError
from align_echo.interface.contract import Interface, identity
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import NeedsStep
from align_echo.interface.rules.place_guide import PlaceGuide
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.rollout.batches import failed, run_tasks
from align_echo.types import Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.worlds.agents import Errant, obedient
from tests.worlds.env import STEP_LIMIT, WorldEnv
from tests.worlds.grammar import Pair
from tests.worlds.worlds import World, held_out_tasks, train_tasks

NO_LIMIT = 10**6
ARMS = ("without", "placebo", "with")


@dataclass(frozen=True)
class Size:
    """How much is played of a world: training tasks with failures, fresh tasks for the probe's tests, test tasks, and
    rounds of playing and learning."""

    train: int = 10
    fresh: int = 10
    test: int = 12
    iterations: int = 1


@dataclass(frozen=True)
class Claims:
    """The rules of an interface as templates: (form, form that it needs), (form, form that undoes it), (wrong wording,
    right one)."""

    needs: frozenset[Pair] = frozenset()
    undo: frozenset[Pair] = frozenset()
    wordings: frozenset[Pair] = frozenset()


# ---------------------------------------------------------------- learning


def learn(world: World, size: Size, say: Callable[[str], None] | None = None) -> tuple[Interface, str]:
    """The interface that the probe writes, and why it writes none, where it says so.

    As `align_echo.align.generation` wires it: failures come from an agent under the interface so far, rules are tested
    on fresh tasks, the laboratory has no step limit. The agent is the obedient one.
    """
    interface, lines = identity(world.contract), [""]
    tasks = train_tasks(world, size.train + size.fresh)
    backend = ProbeBackend(lambda: WorldEnv(world, tasks, NO_LIMIT), tasks[size.train :], on_progress=lines.append)
    for _ in range(size.iterations):
        played = _episodes(world, obedient(world), tasks[: size.train], interface)
        if not failed(played):
            return interface, "" if interface.provenance.iterations else "no episode failed"
        try:
            fresh = backend.analyze(played, [], interface)
        except UsageError as error:
            return interface, str(error)
        if not fresh:
            return interface, "" if interface.provenance.iterations else lines[-1]
        interface = backend.optimize(fresh, interface)
        if say is not None:
            say(lines[-1])
    return interface, ""


def _episodes(world: World, agent: Errant, tasks: Sequence[str], interface: Interface | None) -> list[Trajectory]:
    def make() -> gym.Env[str, str]:
        env = WorldEnv(world, tasks, STEP_LIMIT)
        raw = interface is None or interface.provenance.backend == "identity"
        return env if raw or interface is None else AlignWrapper(env, interface)

    return run_tasks(make, agent, tasks, split="train")


# ---------------------------------------------------------------- rules against the truth


def lists_of(source: str) -> DecisionLists | None:
    """The rules on situations of an interface's source; None without."""
    rules = read_rule_set(source)
    return DecisionLists(rules.vocabulary, rules.rules) if rules and rules.vocabulary else None


def claims_of(source: str) -> Claims:
    """The rules of an interface's source; none for an interface that the probe did not write,
    and for one that only says what of a page can be said: that is no rule of these worlds."""
    if lists := lists_of(source):
        steps = {(rule.form, rule.step.form) for rule in lists.situation_rules if isinstance(rule, NeedsStep)}
        needs = frozenset(steps | {(need.form, need.step) for need in lists.needs})
        pairs = frozenset((pair.do, pair.undo) for pair in lists.vocabulary.pairs)
        return Claims(needs, pairs, frozenset((form, rule.edit.detail) for form, rule in lists.wordings.items()))
    rules = read_rule_set(source)
    if rules is None or rules.places is None:
        return Claims()
    guide = PlaceGuide(rules.places, rules)
    wordings = frozenset((form, guide.reading(form)) for form in guide.wordings)
    about_things = [form for form in guide.known.forms if "{" in form and form not in guide.known.movers]
    return Claims(frozenset((form, guide.travel) for form in about_things if guide.travel), wordings=wordings)


def truths(world: World) -> dict[str, frozenset[Pair]]:
    """The rules that there are to find, by sort; none where nobody errs."""
    if not world.features.misaligned:
        return {"needs": frozenset(), "undo": frozenset(), "wordings": frozenset()}
    return {"needs": world.truth.needs, "undo": world.truth.undo, "wordings": world.truth.wordings}


def true_claims(world: World, claims: Claims) -> dict[str, frozenset[Pair]]:
    """The rules that were found of those that there are. Two forms that undo each other may stand in either order."""
    there = truths(world)
    return {
        "needs": claims.needs & there["needs"],
        "undo": frozenset(pair for pair in there["undo"] if pair in claims.undo or pair[::-1] in claims.undo),
        "wordings": claims.wordings & there["wordings"],
    }


def false_claims(world: World, claims: Claims) -> tuple[str, ...]:
    """Rules that are not so, in words. A need may be one that follows from others."""
    needs, truth = claims.needs - world.truth.implied, world.truth
    undo = [pair for pair in claims.undo if pair not in truth.undo and pair[::-1] not in truth.undo]
    return (
        *(f"`{form}` needs `{needed}`" for form, needed in sorted(needs)),
        *(f"`{form}` is undone by `{other}`" for form, other in sorted(undo)),
        *(f"`{wrong}` means `{right}`" for wrong, right in sorted(claims.wordings - truth.wordings)),
    )


# ---------------------------------------------------------------- success


def played(world: World, agent: Errant, interface: Interface, count: int) -> dict[str, int]:
    """Test tasks that an agent wins, by arm. Where nothing was learned there is one arm, and it stands for all."""
    arms: dict[str, Interface | None] = {"without": None}
    if interface.provenance.backend != "identity":
        arms |= {"placebo": interface.model_copy(update={"placebo": True}), "with": interface}
    tasks = held_out_tasks(world, count)
    won = {arm: sum(episode.won for episode in _episodes(world, agent, tasks, arms[arm])) for arm in arms}
    return {arm: won.get(arm, won["without"]) for arm in ARMS}
