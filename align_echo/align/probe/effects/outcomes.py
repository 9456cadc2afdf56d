"""Outcomes of actions by their effect: took effect, refused, or unknown.

Answers to a form of action are sorted into classes by canonical text. A class refuses if no action answered so changed
anything: what the agent could do next was answered alike with and without the action. No wording is looked for, and
no least number of actions. Chance (`count_repeats`): an action that is refused at times in the same state is repeated.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from align_echo.align.probe.lab import Lab, LabState
from align_echo.interface.rules.actions import ActionGrammar, ActionTree, Reading, kind_name, text_of
from align_echo.interface.rules.answers import SAME, AnswerReader, mask_ids
from align_echo.interface.rules.model import RuleSet
from align_echo.interface.rules.runtime import RuleRuntime
from align_echo.types import Trajectory

TESTS = 4
"""Effect tests of a class of answers."""

LOOKS = 6
"""Different answers without effect after which a form of action is taken to look only."""

LISTED_FACTOR = 2
"""Times as many engine steps for experiments where lists spare the tests of effects."""

WITNESSES = 6
"""Actions that show whether a state changed."""


@dataclass(frozen=True, eq=False)
class Instance:
    """Action of a form in a state. `action` is its text, `text` the answer's; `same`: the page stayed."""

    state: LabState
    action: str
    reading: Reading
    text: str
    same: bool
    child: LabState

    @property
    def tree(self) -> ActionTree:
        """Action as a tree."""
        return self.reading.tree


@dataclass
class AnswerClass:
    """Equal answers to actions of a form, and what effect tests said of them."""

    instances: list[Instance] = field(default_factory=list)
    changed: int = 0
    unchanged: int = 0
    tasks: set[str] = field(default_factory=set)
    given_in: set[str] = field(default_factory=set)

    @property
    def refuses(self) -> bool:
        """Whether no test saw an effect, and at least one saw none."""
        return self.changed == 0 and self.unchanged > 0

    def merge(self, other: AnswerClass) -> None:
        """Add the instances and tests of another class."""
        self.instances += other.instances
        self.changed += other.changed
        self.unchanged += other.unchanged
        self.tasks |= other.tasks
        self.given_in |= other.given_in


class Observer:
    """Plays actions in the lab and sorts their answers.

    A text that refuses wherever it stands is its own class, also where it repeats the page; any other answer that
    repeats the page is of the class `SAME`. In a world of chance, a refused action is repeated `repeats` times, and
    `by_chance` holds the answers that refuse by chance. `goals` holds the actions and answers that ended the episodes
    agents won; rewards are not read. `name` is the regular expression of names in texts. `possible` holds an example
    of each action that the engine listed, by task; `moving` the forms after which it listed others. `said_forms` and
    `said_names` are those of agents, the names by task; `said` holds an example of each form, by the kinds of names.
    """

    def __init__(self, lab: Lab, grammar: ActionGrammar, reader: AnswerReader, name: str = "") -> None:
        self.lab = lab
        self.grammar = grammar
        self.reader = reader
        self.name = re.compile(name or r"(?!)")
        self._noted: dict[str, dict[tuple[str, bool], AnswerClass]] = defaultdict(lambda: defaultdict(AnswerClass))
        self._sorted: dict[str, dict[str, AnswerClass]] = {}
        self._refusals: dict[str, frozenset[str]] = {}
        self._by_tools: dict[str, set[str]] = defaultdict(set)
        self.confirmed: dict[str, set[str]] = defaultdict(set)
        self.spoken: dict[str, Counter[str]] = defaultdict(Counter)
        self.going_on: set[str] = set()
        self.goals: set[tuple[str, str]] = set()
        self.repeats = 0
        self.by_chance: set[str] = set()
        self.possible: dict[tuple[str, str], tuple[ActionTree, LabState]] = {}
        self.moving: set[str] = set()
        self.said: dict[str, dict[tuple[str, ...], ActionTree]] = defaultdict(dict)
        self.said_forms: set[str] = set()
        self.said_names: dict[str, set[str]] = defaultdict(set)
        self._possible_forms: set[str] = set()
        self._pages: dict[LabState, tuple[str, str]] = {}
        self._task = ""

    @property
    def lists(self) -> bool:
        """Whether the engine lists what is possible, with names: an action of the list takes effect."""
        return self.lab.lists and any(form.slots for form in self.grammar.forms.values())

    def scale_steps(self, steps: int) -> int:
        """Return how many engine steps an experiment may take here."""
        return steps * LISTED_FACTOR if self.lists else steps

    def page(self, state: LabState) -> str:
        """Return the page of a state."""
        return self.read(state)[0]

    def read(self, state: LabState) -> tuple[str, str]:
        """Return the page of a state and what is new on it."""
        if self._task != state.task_id:
            self._pages.clear()
            self._task = state.task_id
        path = [state]
        while path[-1] not in self._pages and path[-1].parent is not None:
            path.append(path[-1].parent)
        for each in reversed(path):
            if each not in self._pages and each.parent is None:
                page = self.reader.page(each.observation)
                self._pages[each] = page, page
            elif each not in self._pages and each.parent is not None:
                before, known = self._pages[each.parent]
                page = self.reader.page(each.observation, each.parent.observation, each.actions[-1])
                self._pages[each] = page, self.reader.news(page, before, known)
        return self._pages[state]

    def play(self, state: LabState, action: str) -> Instance | None:
        """Play an action of a known form in a state; None for another form, or after the end."""
        reading = self.grammar.read(action)
        if reading is None or state.over:
            return None
        child = self.lab.after(state, action)
        page, news = self.read(child)
        if not child.over:
            self.going_on.add(reading.tree.form)
        text = self.reader.lift(news, action, reading.tree.arguments, reading.tree.call_names)
        return Instance(state, action, reading, text, page == self.page(state), child)

    def shows_again(self, instance: Instance) -> bool:
        """Whether an action of a form without any effect seen led to a page that was shown on the way before, and not
        only just now: that is no news."""
        page, state = self.page(instance.child), instance.state.parent
        while state is not None and self.page(state) != page:
            state = state.parent
        return state is not None and not self.acts(instance.tree.form)

    def repeat(self, repeats: int) -> None:
        """Forget what was noted, and repeat refused actions from now on."""
        self.repeats = repeats
        for known in (self._noted, self._sorted, self._refusals, self._by_tools):
            known.clear()

    def insist(self, state: LabState, action: str) -> Instance | None:
        """Play an action, in a world of chance again while it is refused."""
        tried = self.play(state, action)
        for _ in range(self.repeats):
            if tried is None or tried.child.over or self.answer(tried) not in self.refusals(tried.tree.form):
                break
            tried = self.play(tried.child, action)
        return tried

    @property
    def forms(self) -> list[str]:
        """Forms that were played."""
        return list(self._noted)

    def classes(self, form: str) -> dict[str, AnswerClass]:
        """Return the answers to a form by canonical text."""
        if form not in self._sorted:
            noted = self._noted.get(form, {})
            merged: dict[str, AnswerClass] = defaultdict(AnswerClass)
            for (text, same), known in noted.items():
                merged[SAME if same and not self._is_worded(form, text) else text].merge(known)
            self._sorted[form] = dict(merged)
        return self._sorted[form]

    def answer(self, instance: Instance) -> str:
        """Return an instance's canonical answer."""
        worded = not instance.same or self._is_worded(instance.tree.form, instance.text)
        return instance.text if worded else SAME

    def _is_worded(self, form: str, text: str) -> bool:
        """Whether a text refuses a form, or several calls of another tool, also where it does not repeat the page."""
        known = self._noted[form].get((text, False))
        by_others = self.grammar.forms[form].tool != "" and bool(self._by_tools.get(text))
        return (known is not None and known.refuses) or by_others

    def replay(self, trajectory: Trajectory) -> Iterator[Instance]:
        """Play an agent's episode again."""
        for state, action, _ in self.lab.replay(trajectory):
            self.spoken[trajectory.task_id][action] += 1
            instance = self.play(state, action)
            if instance is not None:
                self.said_forms.add(instance.tree.form)
                self.said_names[trajectory.task_id] |= {*map(text_of, instance.tree.arguments)}
                yield instance

    def witness_actions(self, instance: Instance) -> list[str]:
        """Return actions whose answers may show that a state changed: the action again, other forms on the same names,
        and the agent's own."""
        others = [
            self.grammar.write(tree)
            for form in self.grammar.forms
            if form in self._telling and (tree := self._on_same_names(form, instance.tree)) is not None
        ]
        own = [action for action, _ in self.spoken[instance.state.task_id].most_common(WITNESSES)]
        said = (each for action in own for each in (self._exactly(action), action))
        spoken = [each for each in said if self.goes_on(each, self._telling)]
        return list(dict.fromkeys([instance.action, *others[:WITNESSES], *spoken]))[: 2 * WITNESSES]

    @property
    def _telling(self) -> set[str]:
        """Forms whose answers may tell an effect: those that did not always end the episode, and those that won it."""
        return self.going_on | {form for form, _ in self.goals}

    def _exactly(self, action: str) -> str:
        """Return an action in its form's own wording."""
        reading = self.grammar.read(action)
        return action if reading is None else self.grammar.write(reading.tree)

    def _on_same_names(self, form: str, tree: ActionTree) -> ActionTree | None:
        """Return an action of another form on an action's names, between tools by the names of arguments; where it has
        others too, they are as agents said them."""
        other, known = self.grammar.forms[form], self.grammar.forms[tree.form]
        if not other.slots and form == tree.form:
            return None
        if not (other.tool and known.tool):
            few = other.slots <= known.slots
            return ActionTree(form, tree.arguments[: other.slots]) if few else self._as_said(form, tree)
        named = dict(zip(known.arguments, tree.arguments, strict=False))
        values = tuple(named.get(name) for name in other.arguments)
        if None not in values:
            return ActionTree(form, values)
        shared = any(value is not None for value in values)
        said = next(iter(self.said[form].values()), None) if shared else None
        if said is None:
            return self._as_said(form, tree)
        pairs = zip(values, said.arguments, strict=True)
        return ActionTree(form, tuple(own if value is None else value for value, own in pairs))

    def _as_said(self, form: str, tree: ActionTree) -> ActionTree | None:
        """Return an action of a form as agents said it, with an action's names in place of names of their kinds."""
        own = {kind: value for value in tree.arguments if (kind := kind_name(value))}
        for kinds, said in self.said[form].items():
            if own.keys() & set(kinds):
                pairs = zip(kinds, said.arguments, strict=True)
                return ActionTree(form, tuple(own.get(kind, value) for kind, value in pairs))
        return None

    def hear(self, trajectory: Trajectory) -> None:
        """Take an example of each form, by the kinds of its names, from an agent's actions."""
        for step in trajectory.steps:
            reading = self.grammar.read(step.action or "")
            if reading is not None:
                self.said[reading.tree.form][tuple(map(kind_name, reading.tree.arguments))] = reading.tree

    def goes_on(self, action: str, forms: Collection[str] | None = None) -> bool:
        """Whether an action's form did not always end the episode, or is one of `forms`."""
        reading = self.grammar.read(action)
        return reading is None or reading.tree.form in (self.going_on if forms is None else forms)

    def reaches_goal(self, instance: Instance) -> bool:
        """Whether an action ends the episode as the episodes that agents won."""
        return instance.child.over and (instance.tree.form, instance.text) in self.goals

    def changed(self, instance: Instance) -> bool | None:
        """Return whether an action took effect; None if unknown: the episode ended without a gain."""
        if instance.child.over:
            return True if self.reaches_goal(instance) else None
        if self.lists:
            return self._exactly(instance.action) in instance.state.admissible or (
                instance.child.admissible != instance.state.admissible
            )
        return any(not self._alike(instance.state, instance.child, action) for action in self.witness_actions(instance))

    def is_near_end(self, instance: Instance) -> bool:
        """Whether all that may show an effect ends the episode on one side only: no effect can be seen."""
        pairs = [
            (self.lab.after(instance.state, action), self.lab.after(instance.child, action))
            for action in self.witness_actions(instance)
        ]
        return all(first.over != second.over for first, second in pairs)

    def _alike(self, state: LabState, second: LabState, action: str) -> bool:
        """Compare the answers to an action in two states. An end in only one of them says nothing."""
        if self.repeats:
            return self._alike_by_chance(state, second, action)
        first, other = self.lab.after(state, action), self.lab.after(second, action)
        if first.over != other.over:
            ends = self.play(state, action), self.play(second, action)
            return not any(played is not None and self.reaches_goal(played) for played in ends)
        pages = self.page(first), self.page(other)
        if pages[0] == pages[1]:
            return True
        played, again = self.play(state, action), self.play(second, action)
        if played is None or again is None or not (played.same and again.same):
            return False
        return self.answer(played) == self.answer(again)  # both repeat their own page, unless a text refuses by itself

    def _alike_by_chance(self, state: LabState, second: LabState, action: str) -> bool:
        """Compare the answers to an action that is repeated: the first in each state must come in the other, too. What
        may refuse by chance says nothing, unless it is all that comes."""
        first, other = self.answers(state, action), self.answers(second, action)
        if not (first and other):
            return True
        leads = [next((page for page, may_be in each if not may_be), each[0][0]) for each in (first, other)]
        return leads[0] in dict(other) and leads[1] in dict(first)

    def answers(self, state: LabState, action: str) -> list[tuple[str, bool]]:
        """Return the pages after an action that is repeated, until the episode ends, and whether chance may refuse so.
        """
        pages: list[tuple[str, bool]] = []
        for _ in range(self.repeats + 1):
            before, state = state, self.lab.after(state, action)
            if state.over:
                break
            page, news = self.read(state)
            may_be = news in self.by_chance or (SAME in self.by_chance and page == self.page(before))
            pages.append((page, may_be))
        return pages

    def note(self, instance: Instance) -> None:
        """Add an instance to its class, and test its effect unless the class was tested enough.

        An action at which the engine failed is of no class.
        """
        if instance.child.over and instance.action in self.lab.broken:
            return
        if self.lists:
            for tree in self.listed(instance.state):
                self.possible.setdefault((instance.state.task_id, tree.key), (tree, instance.state))
                self._possible_forms.add(tree.form)
            self.moving |= {instance.tree.form} if instance.child.admissible != instance.state.admissible else set()
        known = self._noted[instance.tree.form][instance.text, instance.same]
        known.instances.append(instance)
        known.given_in.add(instance.state.task_id)
        tested = known.changed + known.unchanged
        more = known.refuses and instance.state.task_id not in known.tasks and tested < 3 * TESTS
        if (tested < TESTS or more) and not (instance.same and self._is_silence(instance.tree.form)):
            changed = False if self._only_looks(instance.tree.form) else self.changed(instance)
            if changed is not None:
                known.changed += changed
                known.unchanged += not changed
                known.tasks.add(instance.state.task_id)
        self._sorted.pop(instance.tree.form, None)
        self._refusals.pop(instance.tree.form, None)
        if self.grammar.forms[instance.tree.form].tool and not instance.same:
            self._note_tool(instance, refuses=known.refuses and len(known.given_in) > 1)

    def wants_tests(self, instance: Instance) -> bool:
        """Whether an answer is new for its form, or no effect was seen in few tests; where the engine lists what is
        possible, effects are seen at once."""
        known = self.classes(instance.tree.form).get(self.answer(instance))
        return known is None or (not self.lists and not known.changed and known.unchanged < TESTS)

    def note_help(self, state: LabState, step: ActionTree) -> None:
        """Take down that a step, which made a refused action possible, took effect, where no list shows it."""
        instance = None if self.lists else self.play(state, self.grammar.write(step))
        if instance is None or instance.child.over or self.refused(instance):
            return
        known = self._noted[step.form][instance.text, instance.same]
        if not known.changed:
            known.changed += 1
            known.instances.append(instance)
            known.given_in.add(state.task_id)
            known.tasks.add(state.task_id)
            self._sorted.clear()
            self._refusals.clear()

    def _note_tool(self, instance: Instance, *, refuses: bool) -> None:
        """Take down whether a text refuses a tool's calls in several tasks."""
        tools, before = self._by_tools[instance.text], bool(self._by_tools[instance.text])
        (tools.add if refuses else tools.discard)(instance.tree.form)
        if bool(tools) != before:
            self._sorted.clear()
            self._refusals.clear()

    def listed(self, state: LabState) -> list[ActionTree]:
        """Return the possible actions of known forms that the engine lists in a state."""
        readings = (self.grammar.read(action) for action in sorted(state.admissible))
        return [reading.tree for reading in readings if reading is not None]

    def _is_silence(self, form: str) -> bool:
        """Whether enough tests, in several tasks, saw no effect where the page stayed."""
        silent = [known for (_, same), known in self._noted[form].items() if same]
        tests = sum(known.unchanged for known in silent)
        return tests >= 3 * TESTS and len(set[str]().union(*(known.tasks for known in silent))) > 2

    def _only_looks(self, form: str) -> bool:
        """Whether enough tests, in several tasks, saw no effect of a form, whatever it answered."""
        known = self._noted[form].values()
        return (
            sum(each.unchanged > 0 for each in known) >= LOOKS
            and not any(each.changed for each in known)
            and sum(each.unchanged for each in known) >= 3 * TESTS
            and len(set[str]().union(*(each.tasks for each in known))) > 2
        )

    def refusals(self, form: str) -> frozenset[str]:
        """Return the classes that refuse a form: without effect, while the form has other answers.

        The only class of a form counts if different actions were answered so. Where a form only looks, an answer that
        refuses several forms is its refusal, and of a tool one text for different calls; all others tell something.
        """
        silent = self._silent(form)
        stock = {answer for answer in silent if self.is_stock(answer)}
        if not stock or self.acts(form):
            return silent
        return frozenset(stock | {answer for answer in silent if self._is_constant(form, answer)})

    def _is_constant(self, form: str, answer: str) -> bool:
        """Whether a tool gave an answer, which names nothing, to different calls in several tasks."""
        if not self.grammar.forms[form].tool or answer == SAME or "{" in answer:
            return False
        known = self.classes(form)[answer]
        return len(known.given_in) > 1 and len({each.tree.key for each in known.instances}) > 1

    def _silent(self, form: str) -> frozenset[str]:
        """Return the classes without effect."""
        if form in self._refusals:
            return self._refusals[form]
        classes = self.classes(form)
        silent = {answer for answer, known in classes.items() if known.refuses}
        if self.grammar.forms[form].tool:  # with other ids, the same words told an effect
            worked = {mask_ids(answer) for answer, known in classes.items() if known.changed}
            silent = {answer for answer in silent if mask_ids(answer) not in worked}
        if len(silent) == len(classes):
            silent = {answer for answer in silent if len({each.tree.key for each in classes[answer].instances}) > 1}
        self._refusals[form] = frozenset(silent)
        return self._refusals[form]

    def sure_refusals(self, form: str) -> frozenset[str]:
        """Return the classes that surely refuse.

        They repeat the page; or they come in several tasks, and a fix is known or they refuse several forms.
        """
        return frozenset(
            answer
            for answer in self.refusals(form)
            if (answer == SAME and self.acts(form))
            or ((answer in self.confirmed[form] or self.is_stock(answer)) and self._comes_again(answer))
        )

    def _comes_again(self, answer: str) -> bool:
        """Whether an answer was given in several tasks: else it may be a page, which an action may also lead to."""
        classes = (self.classes(form).get(answer) for form in self.forms)
        return len(set[str]().union(*(known.given_in for known in classes if known is not None))) > 1

    def unknown_answers(self) -> dict[str, tuple[str, ...]]:
        """Return the answers by form without any effect seen, that do not surely refuse and came in several tasks."""
        left = {form: self.refusals(form) - self.sure_refusals(form) for form in self.forms}
        again = {form: tuple(sorted(filter(self._comes_again, answers))) for form, answers in left.items()}
        return {form: answers for form, answers in again.items() if answers}

    def acts(self, form: str) -> bool:
        """Whether a form of action has taken effect, or was listed as possible."""
        return any(known.changed for known in self.classes(form).values()) or form in self._possible_forms

    def is_stock(self, answer: str) -> bool:
        """Whether an answer refuses actions of several forms."""
        return answer != SAME and sum(answer in self._silent(form) for form in self.forms) > 1

    def refused(self, instance: Instance) -> bool:
        """Whether an answer surely refuses an action."""
        return self.answer(instance) in self.sure_refusals(instance.tree.form)

    def works(self, instance: Instance, refusal: str) -> bool:
        """Whether an action works where another was refused: it takes effect, or is told something new.

        `refusal` is the canonical answer of the refused one.
        """
        form = instance.tree.form
        if instance.child.over:
            return self.reaches_goal(instance)
        answer = self.answer(instance)
        if answer in {refusal, SAME} or answer in self.confirmed[form] or self.is_stock(answer):
            return False
        known = self.classes(form).get(answer)
        if known is not None and known.changed and not self.lists:
            return True
        if refusal == SAME or self.lists or self.acts(form):
            return bool(self.changed(instance))
        return not self.shows_again(instance) and _first_word(answer) != _first_word(refusal)


def _first_word(text: str) -> str:
    words = text.split()
    return words[0].strip(":.,!").lower() if words else ""


def episode_texts(played: Iterable[Trajectory]) -> list[list[str]]:
    """Return the texts of episodes: the first observation and the engine's answers."""
    return [
        [trajectory.initial_observation, *(step.raw_observation for step in trajectory.steps if step.raw_observation)]
        for trajectory in played
    ]


def episode_actions(played: Iterable[Trajectory]) -> list[list[str]]:
    """Return the actions of episodes that the engine answered."""
    return [[step.action or "" for step in trajectory.steps if step.raw_observation] for trajectory in played]


def distinct_actions(played: Sequence[Trajectory]) -> list[str]:
    """Return the different actions of episodes, in order."""
    return list(dict.fromkeys(step.action for trajectory in played for step in trajectory.steps if step.action))


MOST_REPEATED = 8
"""Actions of each form and answer that are repeated."""

MOST_REPEATS = 12
"""Maximum repeats of an action."""

MIN_BY_CHANCE, CHANCE_TASKS = 3, 2
"""Actions, and tasks, in which chance must show."""

SURE = 0.005
"""Probability that an action which would work is refused at every repeat, at most."""


def count_repeats(observer: Observer, played: Iterable[Instance]) -> int:
    """Return how often a refused action is repeated before it counts as refused; 0 in a world without chance.

    Chance shows where an action is answered otherwise when it is repeated, although nothing that can be seen changed
    between. The number is chosen for `SURE`, by the refusals in a row that were seen.
    """
    by_answer: dict[tuple[str, str, bool], list[Instance]] = defaultdict(list)
    for instance in played:
        by_answer[instance.tree.form, instance.text, instance.same].append(instance)
    runs: list[int] = []
    tasks: set[str] = set()
    answers: set[str] = set()
    for instances in by_answer.values():
        for instance in instances[:: -(-len(instances) // MOST_REPEATED)]:
            run = _refused_in_a_row(observer, instance, 2) and _refused_in_a_row(observer, instance, MOST_REPEATS)
            if run and _changed_nothing(observer, instance):
                tasks.add(instance.state.task_id)
                runs.append(run)
                answers |= _chance_texts(observer, instance)
    observer.repeats, observer.by_chance = 0, answers
    if len(runs) < MIN_BY_CHANCE or len(tasks) < CHANCE_TASKS:
        return 0
    refused = (sum(runs) - len(runs) + 1) / (sum(runs) + 1)  # of a geometric distribution, one refusal added
    return min(MOST_REPEATS, math.ceil(math.log(SURE) / math.log(refused)))


def _changed_nothing(observer: Observer, instance: Instance) -> bool:
    """Whether all actions are answered alike before and after an action, its own answer left aside, which comes again.
    """
    observer.repeats, observer.by_chance = MOST_REPEATS, set()
    if observer.page(instance.child) not in dict(observer.answers(instance.child, instance.action)):
        return False
    observer.by_chance = _chance_texts(observer, instance)
    return observer.changed(instance) is False


def _chance_texts(observer: Observer, instance: Instance) -> set[str]:
    return {SAME} if instance.same else {observer.read(instance.child)[1]}


def _refused_in_a_row(observer: Observer, instance: Instance, most: int) -> int:
    """Return how often an action is answered alike before another answer comes; 0 if none comes, or if two answers
    take turns."""
    answers = [instance.text]
    state = instance.child
    while not state.over and len(answers) <= max(most, 3):
        again = observer.play(state, instance.action)
        if again is None or again.child.over:
            return 0
        answers.append(again.text)
        state = again.child
    run = next((number for number, text in enumerate(answers) if text != answers[0]), 0)
    takes_turns = answers[2:] == answers[:-2]
    return 0 if takes_turns or run > most else run


# ---------------------------------------------------------------- runtimes of rules at states of the lab

MOST_RUNTIMES = 400
"""Latest states whose runtime is remembered."""

LAST_STATES = 3
"""States at the end of a way whose runtime is remembered."""


class RuntimeCache:
    """Runtimes at the latest states that were asked about, and at those just before, for the latest rules."""

    def __init__(self) -> None:
        self._rules = RuleSet()
        self._at: dict[LabState, RuleRuntime] = {}

    def at(self, state: LabState, rules: RuleSet) -> RuleRuntime:
        """Return a runtime at a state, led on from the latest known one on the way."""
        if rules is not self._rules and rules != self._rules:
            self._rules, self._at = rules, {}
        way = [state]
        while way[-1] not in self._at and way[-1].parent is not None:
            way.append(way[-1].parent)
        start = way.pop()
        if start not in self._at:
            runtime = RuleRuntime(self._rules, start.opening or start.observation)
            runtime.begin(start.observation)
            self._at[start] = runtime
        runtime = self._at[start].branch()
        for left, each in reversed([*enumerate(way)]):
            runtime.hear(each.actions[-1], each.observation)
            if left < LAST_STATES:
                self._at[each] = runtime.branch()
        while len(self._at) > MOST_RUNTIMES:
            del self._at[next(iter(self._at))]
        return runtime
