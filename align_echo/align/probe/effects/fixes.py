"""Fixes of refused actions, by experiment: an edit of the action, or another action first. And rules from fixes.

A fix of a refused action is tried in the state that refused it. Fixes that work in several tasks become rules; the
condition of a rule is read off the actions that were not refused.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Literal, TypeVar

from pydantic import JsonValue

from align_echo.align.probe.effects.outcomes import Instance, Observer, RuntimeCache
from align_echo.align.probe.lab import LabState
from align_echo.interface.rules.actions import ActionTree, Term, fill, kind_name, shape_name, text_of
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.edits import (
    Edit,
    apply_edit,
    belonging_in_words,
    edit_in_words,
    letter,
    propose_edits,
    write_term,
)
from align_echo.interface.rules.model import Condition, NeedsFirst, Rule, RuleSet, SayInstead
from align_echo.interface.rules.runtime import RuleRuntime

Key = TypeVar("Key")

STUDIED = 24
"""Refused actions studied for each form and answer."""

STEPS_TRIED = 60
"""Other actions tried before a refused one."""

PAIRED = 12
"""Other actions tried before a known step."""

MOST_SORTED = 200
"""Latest refused actions of a class that are sorted by their situation."""

GIVEN_UP = 8
"""Actions without a fix, in a row, after which a class of answers is not studied further."""

HELPED_BEFORE = 4
"""Fixes that are tried first because they helped before."""

MIN_FIXED, MIN_TASKS = 3, 2
"""Actions, and tasks, in which a fix must work to be a rule on trial."""

MIN_HELD = 0.95
"""Share of the working actions for which a rule's condition must hold."""

CLEARLY = 2
"""So many times as often as any other must the form fix actions that is meant."""

MOST_CONSTANTS = 4
"""Values of an argument that may be its only ones, where no text of the task names them."""

WORDED = "This action is written `{step}`."
"""Message about the wording alone: the action may be impossible for another reason."""

MAY_HELP = "It may help to `{step}`."
"""Message about a step that is needed at times."""

MOST_WRONG = 0.2
"""Share of the fixed actions for which it may hold."""


_KINDS: tuple[Literal["done", "latest"], ...] = ("done", "latest")

Step = tuple[str, tuple[Term, ...]]
"""Form of a step, and where its arguments come from."""


@dataclass
class Fixes:
    """Fixes of a form's refused actions: by edit, and by step. `order` holds steps that help only after another one,
    `ends` the edits after which the episode ended, with the last answers."""

    refused: list[Instance] = field(default_factory=list)
    edits: dict[Edit, list[Instance]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[Edit, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[Edit, list[tuple[Instance, str]]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[Step, list[Instance]] = field(default_factory=lambda: defaultdict(list))
    order: dict[Step, Step] = field(default_factory=dict)

    @property
    def tried(self) -> list[Edit]:
        """Edits that worked, or ended the episode."""
        return [*dict.fromkeys([*self.edits, *self.ends])]


class FixSearch:
    """Search for fixes. `values` are the arguments of each form that worked, by argument."""

    def __init__(
        self,
        observer: Observer,
        declared: Iterable[str] = (),
        declared_values: Mapping[str, Mapping[int, Sequence[str]]] | None = None,
    ) -> None:
        self.observer = observer
        self.declared = frozenset(declared)
        self.declared_values = declared_values or {}
        self.grammar = observer.grammar
        self.values: dict[str, list[Counter[str]]] = {}
        self._value_tasks: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._named_here: set[tuple[str, int, str]] = set()
        self.as_value: dict[str, JsonValue] = {}
        self.by_form: dict[str, Fixes] = defaultdict(Fixes)
        self._situations: dict[Instance, frozenset[tuple[str, str]]] = {}
        self._missed: Counter[tuple[str, str]] = Counter()
        self._met: frozenset[str] = frozenset()
        self.kinds: dict[str, tuple[tuple[str, ...], ...]] = {}
        self._runtimes = {True: RuntimeCache(), False: RuntimeCache()}

    # ------------------------------------------------------------ values

    def learn_values(self) -> None:
        """Collect the arguments of actions that were not refused."""
        self.values = {}
        self._value_tasks.clear()
        self._named_here.clear()
        self._met = frozenset()
        for form in self.observer.forms:
            silent = self.observer.refusals(form)
            for answer, known in self.observer.classes(form).items():
                if answer in silent:
                    continue
                for instance in known.instances:
                    self._take(instance.tree, instance.state)
        for tree, state in self.observer.possible.values():
            self._take(tree, state)
        self._met = frozenset(text for slots in self.values.values() for counts in slots for text in counts)
        self.kinds = self._learn_kinds()

    def _take(self, tree: ActionTree, state: LabState) -> None:
        texts = read_texts(state).lower() if tree.arguments else ""
        for slot, value in enumerate(tree.arguments):
            key = tree.form, slot, text_of(value)
            self._value_tasks[key].add(state.task_id)
            if key[2].lower() in texts:
                self._named_here.add(key)
        slots = self.values.setdefault(tree.form, [Counter() for _ in tree.arguments])
        for slot, value in enumerate(tree.arguments):
            text = text_of(value)
            self.as_value[text] = value
            slots[slot][text] += 1

    def shared_values(self) -> dict[str, tuple[tuple[JsonValue, ...], ...]]:
        """Return the values of each argument, as text, that worked in several tasks."""
        self.learn_values()
        shared: dict[str, tuple[tuple[JsonValue, ...], ...]] = {}
        for form, counts in self.values.items():
            slots = tuple(
                tuple(text for text in known if len(self._value_tasks[form, slot, text]) >= MIN_TASKS)
                for slot, known in enumerate(counts)
            )
            if any(slots):
                shared[form] = slots
        return shared

    def _learn_kinds(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Return the kinds of each argument's names that took effect, of tools by its name; none if most came once."""
        tasks = {form: [*self._count_tasks(form)] for form in self.values}
        kinds = {
            form: tuple(map(_repeated_kinds, slots))
            for form, slots in tasks.items()
            if slots and self.observer.acts(form)
        }
        tools = [form for form in self.grammar.forms.values() if form.tool and form.arguments]
        named: dict[str, Counter[str]] = defaultdict(Counter)
        for form in tools:
            for name, counts in zip(form.arguments, tasks.get(form.name, ()), strict=False):
                named[name] += counts
        by_name = {name: self._kinds_of_texts(counts) for name, counts in named.items()}
        return kinds | {form.name: tuple(by_name.get(name, ()) for name in form.arguments) for form in tools}

    def _count_tasks(self, form: str) -> Iterator[Counter[str]]:
        """Yield, for each argument of a form, in how many tasks each of its names took effect."""
        for slot, counts in enumerate(self.values[form]):
            yield Counter({text: len(self._value_tasks[form, slot, text]) for text in counts})

    def _kinds_of_texts(self, counts: Counter[str]) -> tuple[str, ...]:
        """Return the kinds of an argument that mostly is a text; none for another one."""
        texts = Counter({text: count for text, count in counts.items() if isinstance(self.as_value[text], str)})
        return _repeated_kinds(texts) if 2 * texts.total() >= counts.total() else ()

    def known_values(self, form: str) -> dict[int, list[JsonValue]]:
        """Return the values of each argument that worked, the most frequent first."""
        return {
            slot: [self.as_value[text] for text, _ in counts.most_common(40)]
            for slot, counts in enumerate(self.values.get(form, ()))
        }

    # ------------------------------------------------------------ search

    def study(self, budget: int) -> None:
        """Search fixes for the refused actions of each form in turn, for at most `budget` engine steps.

        A class of answers is given up after `GIVEN_UP` actions without a fix.
        """
        limit = self.observer.lab.steps + budget
        self._missed.clear()
        waiting = []
        for form in self.observer.forms:
            for answer in sorted(self.observer.refusals(form)):
                studied = {id(each) for each in self.by_form[form].refused}
                fresh = [each for each in self.observer.classes(form)[answer].instances if id(each) not in studied]
                fresh = [each for each in fresh if self._makes_sense(each)]
                waiting.append((answer, self._spread(fresh)))
        for turn in range(STUDIED):
            for answer, instances in waiting:
                if self.observer.lab.steps > limit:
                    return
                if turn < len(instances) and self._missed[instances[turn].tree.form, answer] < GIVEN_UP:
                    self._study(instances[turn], answer)

    def _makes_sense(self, instance: Instance) -> bool:
        """Whether agents said the form, and its names were read and said or possible, where the engine lists that."""
        if not self.observer.lists:
            return True
        if instance.tree.form not in self.observer.said_forms:
            return False
        task_id, texts = instance.state.task_id, read_texts(instance.state).lower()
        names = [text_of(value) for value in instance.tree.arguments]
        known = self._met | self.observer.said_names[task_id]
        return all(name in known and name.lower() in texts for name in names)

    def _spread(self, instances: Sequence[Instance]) -> list[Instance]:
        """Return instances in turn from each situation: what was done to the same names before, and the task."""
        situations: dict[object, list[Instance]] = defaultdict(list)
        for each in instances[-MOST_SORTED:]:
            situations[self._situation(each), each.state.task_id].append(each)
        order = sorted(situations.values(), key=len)
        turns = sorted((turn, number) for number, group in enumerate(order) for turn in range(len(group)))
        by_kind: dict[object, int] = defaultdict(int)
        chosen: list[tuple[int, Instance]] = []
        for turn, number in turns:
            kind = self._situation(order[number][turn])
            chosen.append((by_kind[kind], order[number][turn]))
            by_kind[kind] += 1
        return [each for _, each in sorted(chosen, key=lambda pair: pair[0])][:STUDIED]

    def _situation(self, instance: Instance) -> frozenset[tuple[str, str]]:
        """Return what holds of an action's names: which forms took effect on them, and which of these last."""
        if instance not in self._situations:
            runtime = self.runtime_at(instance.state)
            own = tuple(Term(slot=slot) for slot in range(len(instance.tree.arguments)))
            self._situations[instance] = frozenset(
                (form, kind)
                for form, known in self.grammar.forms.items()
                for kind in ("done", "latest")
                if runtime.holds(Condition(kind=kind, form=form, terms=own[: known.slots]), instance.tree)
            )
        return self._situations[instance]

    def is_by_chance(self, instance: Instance) -> bool:
        """Whether a refused action works when it is repeated, in a world of chance."""
        if not self.observer.repeats or instance.child.over:
            return False
        again = self.observer.insist(instance.child, instance.action)
        return again is not None and self.observer.works(again, self.observer.answer(instance))

    def _study(self, instance: Instance, refusal: str) -> None:
        self.observer.lab.budget.check()
        fixes = self.by_form[instance.tree.form]
        if self.is_by_chance(instance):
            return
        fixes.refused.append(instance)
        fixed = (
            self._try_edits(instance, refusal, fixes)
            or self._try_steps(instance, refusal, fixes)
            or self._try_both(instance, fixes)
            or self._try_pairs(instance, fixes)
        )
        key = instance.tree.form, refusal
        self._missed[key] = 0 if fixed else self._missed[key] + 1

    def _try_edits(self, instance: Instance, refusal: str, fixes: Fixes) -> int:
        """Try the edits that helped often before, else all within reach."""
        texts, form = read_texts(instance.state), instance.tree.form
        declared = self.declared_values.get(form, {})
        known = [edit for edit, fixed in fixes.edits.items() if _is_enough(fixed)]
        if known and (count := self._play_edits(known, instance, refusal, fixes)):
            return count
        proposed = propose_edits(instance.reading, self.grammar, texts, self.known_values(form), declared)
        return self._play_edits([edit for edit in proposed if edit not in known], instance, refusal, fixes)

    def _play_edits(self, edits: Iterable[Edit], instance: Instance, refusal: str, fixes: Fixes) -> int:
        """Play an action with each edit; return how many work."""
        texts, form = read_texts(instance.state), instance.tree.form
        declared = self.declared_values.get(form, {})
        count = 0
        for edit in dict.fromkeys(edits):
            tried = self._edited(edit, instance, texts)
            if tried is not None and self.observer.wants_tests(tried):
                self.observer.note(tried)
            if tried is not None and self.observer.works(tried, refusal):
                fixes.edits[edit].append(instance)
                fixes.answers[edit].append((instance.tree.key, tried.text))
                count += 1
                if edit.kind != "value" or edit.detail in declared.get(edit.slot, ()):
                    self.observer.confirmed[form].add(refusal)
                if edit.kind == "wording":  # every other edit holds this one
                    return count
            elif tried is not None and self.ends_otherwise(tried, refusal):
                fixes.ends[edit].append((instance, tried.text))
        return count

    def ends_otherwise(self, tried: Instance, refusal: str) -> bool:
        """Whether an action ended the episode with another answer than those that refuse it."""
        return tried.child.over and tried.text != refusal and tried.text not in self.observer.refusals(tried.tree.form)

    def _edited(self, edit: Edit, instance: Instance, texts: str) -> Instance | None:
        """Play an action with an edit; None if the edit does not apply."""
        tree = apply_edit(edit, instance.reading, self.grammar, texts)
        if tree is None or not self._is_plausible(edit, instance):
            return None
        written = self.grammar.write(tree)
        return self.observer.insist(instance.state, written) if written != instance.action else None

    def _try_steps(self, instance: Instance, refusal: str, fixes: Fixes) -> int:
        """Try other actions first: those that helped before, else all near."""
        if not self.observer.acts(instance.tree.form) and not self.observer.is_stock(refusal):
            return 0
        ranked = sorted(fixes.steps, key=lambda key: -len(fixes.steps[key]))[:HELPED_BEFORE]
        runtime = self.runtime_at(instance.state)
        before = [runtime.step(form, terms, instance.tree) for form, terms in ranked]
        helped = [tree for tree in before if tree is not None and self.leads_to(instance, tree)]
        if not helped and self.observer.lists:
            helped = [tree for tree in self._said_steps(instance) if self.leads_to(instance, tree)]
        if not helped:
            helped = [*self.steps_that_help(instance)]
        for tree in helped:
            self.observer.confirmed[instance.tree.form].add(refusal)
            self.observer.note_help(instance.state, tree)
            for terms in list_terms(tree, instance.tree, runtime):
                fixes.steps[tree.form, terms].append(instance)
        return len(helped)

    def _try_both(self, instance: Instance, fixes: Fixes) -> int:
        """Try the edits that helped others, and another edit of the edited action, or steps before it."""
        every = [pair for other in self.by_form.values() for pair in other.edits.items()]
        known = {edit for edit, fixed in every if len(fixed) >= MIN_FIXED}
        for edit in sorted(known, key=lambda edit: edit.model_dump_json())[:HELPED_BEFORE]:
            edited = self._edited(edit, instance, read_texts(instance.state))
            if edited is None:
                continue
            also = self.observer.answer(edited)
            if self._try_edits(edited, also, fixes) or self._try_steps(edited, also, fixes):
                fixes.edits[edit].append(instance)
                return 1
        return 0

    def _try_pairs(self, instance: Instance, fixes: Fixes) -> int:
        """Try two steps."""
        pair = self.find_pair(instance)
        if pair is None:
            return 0
        runtime = self.runtime_at(instance.state)
        before, then = ([(step.form, terms) for terms in list_terms(step, instance.tree, runtime)] for step in pair)
        for keys, fixed in ((before, instance), (then, self._between(instance, pair[0]))):
            for key in keys:
                fixes.steps[key].append(fixed)
        turned = self.after(instance.state, pair[1], 2)
        if turned is None or not self.leads_to(replace(instance, state=turned), pair[0]):
            fixes.order.update(dict.fromkeys(then, before[0]))
        return 1

    def _between(self, instance: Instance, first: ActionTree) -> Instance:
        """Return an action as it is refused after the first of two steps."""
        state = self.after(instance.state, first, 3)
        again = self.observer.play(state, instance.action) if state is not None else None
        return again if again is not None and not again.child.over else replace(instance)

    def find_pair(self, instance: Instance) -> tuple[ActionTree, ActionTree] | None:
        """Return two steps that make an action possible together, the second of those that helped others; None without.
        """
        if self.observer.lists:
            return self._find_listed_pair(instance)
        runtime = self.runtime_at(instance.state)
        known = {key: fixed for other in self.by_form.values() for key, fixed in other.steps.items()}
        helped = [key for key, fixed in known.items() if len(fixed) >= MIN_FIXED]
        trees = filter(None, (runtime.step(form, terms, instance.tree) for form, terms in helped))
        seconds = {tree.key: tree for tree in trees if tree.key != instance.tree.key}
        near = islice(self.steps_near(instance, read_texts(instance.state)), PAIRED)
        for first in {**seconds, **{tree.key: tree for tree in near}}.values() if seconds else ():
            state = self.after(instance.state, first, 2)
            if state is None:
                continue
            there = replace(instance, state=state)
            for second in seconds.values():
                if second != first and self.leads_to(there, second):
                    return first, second
        return None

    def _find_listed_pair(self, instance: Instance) -> tuple[ActionTree, ActionTree] | None:
        """Return two said steps that make an action possible, the first of which changes how it is refused."""
        for first in self._said_steps(instance):
            state = self.after(instance.state, first, 3)
            again = self.observer.play(state, instance.action) if state is not None else None
            if again is None or again.child.over or self.observer.answer(again) == self.observer.answer(instance):
                continue
            for second in self._said_steps(again):
                if second.key != first.key and self.leads_to(again, second):
                    return first, second
        return None

    def _said_steps(self, instance: Instance) -> Iterator[ActionTree]:
        """Yield the steps on one of an action's names in forms that agents said."""
        for form in sorted(self.observer.said_forms & self.observer.moving & self.observer.going_on):
            if self.grammar.forms[form].slots == 1 and form != instance.tree.form:
                for value in dict.fromkeys(instance.tree.arguments):
                    yield ActionTree(form, (value,))

    def _is_plausible(self, edit: Edit, instance: Instance) -> bool:
        """Whether an edit may be what the agent meant: another form only for a form that never worked, and another
        value only for a value that never did, if the schema names it or no task that it worked in."""
        form = instance.tree.form
        if edit.kind == "form":
            return form not in self.values and form not in self.declared
        if edit.kind != "value":
            return True
        if edit.detail in self.declared_values.get(form, {}).get(edit.slot, ()):
            return True
        known = self.values.get(form, [])
        if edit.slot >= len(known) or text_of(instance.tree.arguments[edit.slot]) in known[edit.slot]:
            return False
        key = form, edit.slot, edit.detail
        if len(self._value_tasks[key]) < MIN_TASKS or key in self._named_here:
            return False
        return len(known[edit.slot]) <= MOST_CONSTANTS and edit.detail.lower() not in read_texts(instance.state).lower()

    def leads_to(self, instance: Instance, step: ActionTree) -> bool:
        """Whether the action works after a step, with the steps that the step itself is known to need."""
        state = self.after(instance.state, step, 3)
        if state is None:
            return False
        again = self.observer.insist(state, instance.action)
        if again is None or not self.observer.works(again, self.observer.answer(instance)):
            return False
        if self.observer.lists:
            if not again.child.over and again.child.admissible == instance.state.admissible:
                return False  # the step only undid what the action did before
            self.observer.possible.setdefault((state.task_id, again.tree.key), (again.tree, state))
            return True
        back = replace(instance, text=again.text, same=False, child=again.child)
        if self.observer.acts(instance.tree.form):
            return self.observer.reaches_goal(again) or bool(self.observer.changed(back))
        if self.grammar.forms[again.tree.form].tool:
            self.observer.note(again)  # its new answer may be a refusal as well
        return True

    def after(self, state: LabState, step: ActionTree, depth: int) -> LabState | None:
        """Return the state after a step took effect; None if it is refused and no known step helps."""
        tried = self.observer.insist(state, self.grammar.write(step))
        if tried is None or tried.child.over:
            return None
        if not self.observer.refused(tried):
            return tried.child if self.observer.answer(tried) != SAME else None
        if depth == 1:
            return None
        for (form, terms), fixed in self.by_form[step.form].steps.items():
            first = self.runtime_at(state).step(form, terms, step) if len(fixed) >= MIN_FIXED else None
            if first is None:
                continue
            before = self.after(state, first, depth - 1)
            if before is not None and (after := self.after(before, step, 1)) is not None:
                return after
        return None

    def steps_near(self, instance: Instance, texts: str) -> Iterator[ActionTree]:
        """Yield other actions that may have to come first: those on the same arguments, then any."""
        own = [value for value in instance.tree.arguments if value is not None]
        count = 0
        listed = self.observer.listed(instance.state) if self.observer.lists else []
        for tree in sorted(listed, key=lambda tree: not any(value in own for value in tree.arguments)):
            if tree.form in self.observer.moving & self.observer.going_on and tree.key != instance.tree.key:
                yield tree
        for shared in (True,) if listed else (True, False):
            for form, known in sorted(self.grammar.forms.items()):
                if not self.observer.acts(form) or form not in self.observer.going_on:
                    continue
                pools = [
                    list(dict.fromkeys([*self._own_values(instance.tree, form, slot), *self.pool(form, slot, texts)]))
                    for slot in range(known.slots)
                ]
                for values in product(*(pool[:8] for pool in pools)):
                    arguments = tuple(self.as_value.get(value, value) for value in values)
                    tree = ActionTree(form, arguments)
                    of_own = not values or any(value in own for value in arguments)
                    if tree.key != instance.tree.key and of_own == shared and count < STEPS_TRIED:
                        count += 1
                        yield tree

    def steps_that_help(self, instance: Instance) -> Iterator[ActionTree]:
        """Yield the near steps after which a refused action works."""
        near = self.steps_near(instance, read_texts(instance.state))
        return (tree for tree in near if self.leads_to(instance, tree))

    def _own_values(self, tree: ActionTree, form: str, slot: int) -> list[str]:
        """Return an action's arguments that may be an argument of another form, between tools by its name."""
        known, other = self.grammar.forms[tree.form], self.grammar.forms[form]
        pairs = zip(known.arguments or ("",) * len(tree.arguments), tree.arguments, strict=False)
        alike = not (known.tool and other.tool)
        return [
            text_of(value) for name, value in pairs if value is not None and (alike or name == other.arguments[slot])
        ]

    def pool(self, form: str, slot: int, texts: str) -> list[str]:
        """Return the names that stand in texts and may be an argument: those that worked as such, then those that
        worked nowhere yet, and where none worked, all."""
        counts = self.values.get(form, [])
        worked = [text for text, _ in counts[slot].most_common(40)] if slot < len(counts) else []
        lower = texts.lower()
        worked = [name for name in worked if name.lower() in lower]
        names = dict.fromkeys(self.observer.name.findall(texts))
        values = [self.as_value.get(text, text) for text in counts[slot]] if slot < len(counts) else []
        if self.grammar.forms[form].tool and values:
            parts = [text_of(part) for value in values for part in (value if isinstance(value, list) else [value])]
            signed = [*dict.fromkeys(_in_shapes(names, set(map(shape_name, parts))))]
            if all(isinstance(value, list) for value in values):
                told = [part for part in dict.fromkeys(parts) if part.lower() in lower]
                lists: dict[str, JsonValue] = {text_of([name]): [name] for name in told or signed}
                self.as_value.update(lists)
                signed = [*lists]
            return [*worked, *(name for name in signed if name not in worked)]
        met = self._met if worked else frozenset[str]()
        return [*worked, *(name for name in names if name not in met and name not in worked)]

    def draw(self, texts: str, rng: random.Random) -> ActionTree | None:
        """Draw an action of any form that does not always end the episode, on names in texts; a tool's arguments may
        be any that worked. None without names for it."""
        ending = {name for name in self.observer.forms if name not in self.observer.going_on}
        forms = [form for form in self.grammar.forms.values() if form.name not in ending]
        if not forms:
            return None
        form = rng.choice(forms)
        pools = [self.pool(form.name, slot, texts) for slot in range(form.slots)]
        if form.tool:
            worked = self.known_values(form.name)
            pools = [pool or [text_of(each) for each in worked.get(slot, ())] for slot, pool in enumerate(pools)]
        if not all(pools):
            return None
        return ActionTree(form.name, tuple(self.as_value.get(name, name) for name in map(rng.choice, pools)))

    # ------------------------------------------------------------ rules

    def rules(self) -> list[Rule]:
        """Return the rules on trial for all forms."""
        rules: list[Rule] = []
        for form, fixes in sorted(self.by_form.items()):
            rules += self._edit_rules(form, fixes)
            rules += self._step_rules(form, fixes)
        return rules

    def _edit_rules(self, form: str, fixes: Fixes) -> Iterator[SayInstead]:
        telling = {
            edit: fixed
            for edit, fixed in fixes.edits.items()
            if (self._tells_more(form, fixes.answers[edit]) or self._differs_by_tool(form, edit))
            and self._is_meant(form, edit, fixes)
        }
        ending = {edit: [each for each, _ in ended] for edit, ended in fixes.ends.items() if edit not in telling}
        telling |= {edit: fixed for edit, fixed in ending.items() if self.is_needed_elsewhere(form, edit)}
        for edit, fixed in _cover(telling, lambda edit: self.is_needed_elsewhere(form, edit)):
            alike = [each for each in telling if is_as_good(each, edit) and fixes.edits[each] == fixes.edits[edit]]
            whole = edit.model_copy(update={"others": tuple(each.detail for each in alike)})
            rule = SayInstead(
                form=form,
                answers=self._answers(fixed),
                edit=whole,
                text=edit_in_words(whole, self.name(form), self.grammar.forms[form].arguments),
            )
            called = self.grammar.forms[form].tool and edit.kind not in ("value", "form")
            yield rule.model_copy(update={"say": WORDED}) if edit.kind == "wording" or called else rule

    def is_needed_elsewhere(self, form: str, edit: Edit) -> bool:
        """Whether another tool needs the same edit of an argument of the same name."""
        return any(_is_enough(self.by_form[other].edits[each]) for other, each in self._same_edits(form, edit))

    def _differs_by_tool(self, form: str, edit: Edit) -> bool:
        """Whether another tool is answered otherwise after the same edit of an argument of the same name.

        One text for all calls would be a refusal in other words; that of an argument is alike for both tools.
        """
        own = {text for _, text in self.by_form[form].answers[edit]}
        for other, each in self._same_edits(form, edit):
            fixes = self.by_form[other]
            told = [*fixes.answers[each], *((instance.tree.key, text) for instance, text in fixes.ends[each])]
            if len(told) >= MIN_FIXED and not own & {text for _, text in told}:
                return True
        return False

    def _same_edits(self, form: str, edit: Edit) -> Iterator[tuple[str, Edit]]:
        """Yield the same edits of an argument of the same name that were tried with other tools."""
        wanted = self._by_name(form, edit)
        for other, fixes in self.by_form.items() if wanted is not None else ():
            if other != form:
                yield from ((other, each) for each in fixes.tried if self._by_name(other, each) == wanted)

    def _by_name(self, form: str, edit: Edit) -> tuple[str, str, str] | None:
        """Return an edit of a tool's wording with the name of its argument; None for another one."""
        names = self.grammar.forms[form].arguments
        if not names or edit.kind in ("value", "form", "wording", "argument"):
            return None
        return edit.kind, names[edit.slot] if edit.slot >= 0 else "", edit.detail

    def _is_meant(self, form: str, edit: Edit, fixes: Fixes) -> bool:
        """Whether a form that never takes effect is meant as another one, and not as several."""
        if edit.kind != "form":
            return True
        others = [len(fixed) for other, fixed in fixes.edits.items() if other.kind == "form" and other != edit]
        return not self.observer.acts(form) and len(fixes.edits[edit]) >= CLEARLY * max(others, default=0)

    def _tells_more(self, form: str, answers: Sequence[tuple[str, str]]) -> bool:
        """Whether edited actions were more than refused in other words.

        `answers` are the actions and their answers after the edit. Where the form only looks, one text for different
        actions is a refusal.
        """
        actions, texts = {action for action, _ in answers}, {text for _, text in answers}
        return self.observer.acts(form) or len(actions) < 2 or len(texts) > 1

    def _step_rules(self, form: str, fixes: Fixes) -> Iterator[NeedsFirst]:
        conditions = self._conditions(form, fixes)
        possible = fixes.steps if self.observer.lists else {key: fixes.steps[key] for key in conditions}
        for (step, terms), fixed in _cover(possible):
            condition = conditions.get((step, terms))
            at_times = condition is None
            condition = condition or Condition(kind="done", form=step, terms=terms)
            first = fill(self._blank(step), [write_term(term) for term in terms])
            text = f"Before `{self.name(form)}` you {'may have to' if at_times else 'need to'} `{first}`"
            text += "".join(belonging_in_words(term) for term in terms if term.by)
            unless = [condition]
            if (step, terms) in fixes.order:
                earlier, given = fixes.order[step, terms]
                unless.append(Condition(kind="done", form=earlier, terms=given, negated=True))
            answers = self._answers(fixed)
            rule = NeedsFirst(form=form, answers=answers, step=step, terms=terms, unless=tuple(unless), text=text)
            yield rule.model_copy(update={"at_times": True, "say": MAY_HELP}) if at_times else rule

    def _working(self, form: str) -> list[Instance]:
        """Return the actions of a form that took effect, by their ways, so that each way is followed once."""
        silent = self.observer.sure_refusals(form)
        working = [
            each
            for answer, known in self.observer.classes(form).items()
            if answer not in silent and known.changed
            for each in known.instances
        ]
        return sorted(working, key=lambda each: (each.state.task_id, each.state.actions))

    def _conditions(self, form: str, fixes: Fixes) -> dict[Step, Condition]:
        """Return the condition of each step that helped often, which holds for the working actions, not the fixed ones.

        A name that belongs to an argument may be the best one and not the only one: then the condition admits any.
        """
        steps = {key: fixed for key, fixed in fixes.steps.items() if _is_enough(fixed)}
        ways: dict[Step, list[Condition]] = {}
        for step, terms in steps:
            free = tuple(None if term.by else term for term in terms)
            given = dict.fromkeys([terms, free])
            ways[step, terms] = [Condition(kind=kind, form=step, terms=each) for each in given for kind in _KINDS]
        every = [condition for conditions in ways.values() for condition in conditions]
        working = self._working(form)
        held = dict(zip(every, self._count_held(every, working), strict=True))
        chosen: dict[Step, Condition] = {}
        for key, conditions in ways.items():
            fit = [each for each in conditions if held[each] >= MIN_HELD * len(working)]
            wrong = self._count_held(fit, steps[key])
            few = [pair for pair in enumerate(wrong) if pair[1] <= MOST_WRONG * len(steps[key])]
            if few:
                chosen[key] = fit[min(few, key=lambda pair: pair[1])[0]]
        return chosen

    def _count_held(self, conditions: Sequence[Condition], instances: Sequence[Instance]) -> list[int]:
        """Return for how many actions each condition holds in their states."""
        counts = [0] * len(conditions)
        for each in instances:
            runtime = self.runtime_at(each.state)
            counts = [
                count + runtime.holds(condition, each.tree)
                for count, condition in zip(counts, conditions, strict=True)
            ]
        return counts

    def runtime_at(self, state: LabState, rules: RuleSet | None = None) -> RuleRuntime:
        """Return a runtime that has followed the way to a state."""
        base = rules or RuleSet(
            forms=tuple(self.grammar.forms.values()),
            names=self.grammar.names,
            kinds=self.kinds,
            reader=self.observer.reader,
            refusals={form: tuple(sorted(self.observer.sure_refusals(form))) for form in self.observer.forms},
            unknown=self.observer.unknown_answers(),
        )
        return self._runtimes[rules is None].at(state, base)

    def _answers(self, instances: Iterable[Instance]) -> tuple[str, ...]:
        return tuple(sorted({self.observer.answer(each) for each in instances}))

    def name(self, form: str, places: Sequence[str] = ()) -> str:
        """Return a form with letters, or other words, in the places of its arguments."""
        return fill(self._blank(form), places or [letter(slot) for slot in range(self.grammar.forms[form].slots)])

    def _blank(self, form: str) -> str:
        known = self.grammar.forms[form]
        if known.text:
            return known.text
        return f"{known.tool}({', '.join(f'{name}={{{slot}}}' for slot, name in enumerate(known.arguments))})"


def _in_shapes(names: Iterable[str], shapes: set[str]) -> Iterator[str]:
    """Yield the names of some shapes, and those that are so with the signs of a shape around them."""
    signs = [match.groups() for shape in sorted(shapes) if (match := re.fullmatch(r"(\W*)(.+?)(\W*)", shape))]
    for name in names:
        shape = shape_name(name)
        if shape in shapes:
            yield name
        else:
            yield from (f"{before}{name}{after}" for before, core, after in signs if core == shape)


def _repeated_kinds(counts: Mapping[str, int]) -> tuple[str, ...]:
    kinds: Counter[str] = Counter()
    for text, count in counts.items():
        kinds[kind_name(text)] += count
    return tuple(sorted(kinds)) if 2 * len(kinds) <= kinds.total() else ()


def read_texts(state: LabState) -> str:
    """Return all that an agent has read on the way to a state."""
    texts = [state.observation]
    while state.parent is not None:
        state = state.parent
        texts.append(state.observation)
    return "\n".join([state.opening, *reversed(texts)])


def list_terms(step: ActionTree, action: ActionTree, runtime: RuleRuntime) -> Iterator[tuple[Term, ...]]:
    """Yield the ways to name a step's arguments by those of the action; other values are constants."""
    choices: list[list[Term]] = []
    for at, value in enumerate(step.arguments):
        slots = [Term(slot=slot) for slot, own in enumerate(action.arguments) if own == value]
        belongs = [
            Term(slot=slot, by=by)
            for slot, own in enumerate(action.arguments)
            for by, name in runtime.belongings(own, step.form, at).items()
            if name == value
        ]
        constant = [] if isinstance(value, list | dict) else [Term(value=value)]
        choices.append(slots or [*belongs, *constant])
    yield from product(*choices)


def _cover(
    fixes: Mapping[Key, Sequence[Instance]], is_known: Callable[[Key], bool] = lambda key: False
) -> Iterator[tuple[Key, list[Instance]]]:
    """Yield the fixes with most instances, each with those that no earlier one fixes; of a known fix, one is enough."""
    left = {key: {id(each): each for each in fixed} for key, fixed in fixes.items()}
    while left:
        best = max(left, key=lambda key: len(left[key]))
        fixed = list(left.pop(best).values())
        if not fixed:
            return
        if _is_enough(fixed) or is_known(best):
            yield best, fixed
            for rest in left.values():
                for each in fixed:
                    rest.pop(id(each), None)


def _is_enough(fixed: Sequence[Instance]) -> bool:
    """Whether a fix worked often enough to be a rule on trial."""
    return len(fixed) >= MIN_FIXED and len({each.state.task_id for each in fixed}) >= MIN_TASKS


def is_as_good(edit: Edit, other: Edit) -> bool:
    """Whether an edit puts another value in the same place."""
    return edit.kind == other.kind == "value" and edit.slot == other.slot and edit.detail != other.detail
