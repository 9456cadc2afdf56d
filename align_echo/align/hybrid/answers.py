"""Was an action taken? Told by trying it in the laboratory, without knowing how an environment words its refusals.

Where the engine lists what is possible, an action is taken if it is in the list, or changes the list or what
read-only looks show. Where it lists nothing, an action is refused if its answer is one that nonsense gets, or the last
answer once more, and no look shows a change. What refused and accepted actions were answered is kept, for the interface
has nothing but answers to go by.

Left out: refusals in words of their own where nothing is listed; they pass for acceptance, so that hypotheses are
refuted rather than believed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from align_echo.align.hybrid.runtime import SAME, bound_names, general_answer
from align_echo.align.probe.lab import Lab, LabState
from align_echo.wrappers.text_env import MAX_TEXT

NONSENSE = ("qzxv", "wvub", "qzxv wvub", "wvub qzxv", "wvub qzxv 7 kjdq", "kjdq 7", "vvjx qzxv kjdq", "xqj")
"""Actions that no environment understands; one that words its refusals in several ways shows them all."""

MOST_ANSWERS = 20
"""An interface knows so many answers that refuse a form; with more, they have no wording to know them by."""


class Judge:
    """Tries actions in a laboratory and says what became of them. `forms` are those whose names answers may quote."""

    def __init__(self, lab: Lab, forms: Sequence[str]) -> None:
        self.lab = lab
        self.forms = list(dict.fromkeys(forms))
        self._nonsense: dict[str, frozenset[str]] = {}
        self._refusing: defaultdict[str, set[str]] = defaultdict(set)
        self._accepting: defaultdict[str, set[str]] = defaultdict(set)
        self._refused: set[LabState] = set()
        self._known: dict[str, list[str]] = {}

    def possible(self, state: LabState, action: str) -> bool:
        """Whether the engine takes an action in a state: as it lists it, or by trying it where it lists nothing."""
        if self.lab.lists:
            return action in state.admissible and not state.over
        return self.taken(state, action)

    def taken(self, state: LabState, action: str) -> bool:
        """Whether an action does something in a state, by trying it; its answer is kept."""
        if state.over or not action.strip() or len(action) > MAX_TEXT:
            return False
        child = self.lab.after(state, action)
        accepted = self._accepted(state, action, child)
        if not accepted:
            self._refused.add(child)
        self._note(state, action, child, accepted)
        return accepted

    def changes(self, state: LabState, action: str) -> bool:
        """Whether an action changes what is possible or what looks show; where neither exists, whether it is taken."""
        if state.over:
            return False
        child = self.lab.after(state, action)
        if not self.lab.lists and not self._views():
            return self.taken(state, action)
        return child.over or self._differ(state, child)

    def refusals(self) -> dict[str, list[str]]:
        """By form: the answers by which an interface can know that an action of it was refused. An answer that an
        accepted action of the form got is none of them; a form with too many has none."""
        texts = {form: sorted(self._refusing[form] - self._accepting[form]) for form in self._refusing}
        return {form: known for form, known in texts.items() if 0 < len(known) <= MOST_ANSWERS}

    def went(self, state: LabState, action: str) -> LabState:
        """The state after an action that the engine takes; its answer is kept."""
        child = self.lab.after(state, action)
        self._note(state, action, child, accepted=True)
        return child

    # ------------------------------------------------------------ inside

    def _accepted(self, state: LabState, action: str, child: LabState) -> bool:
        if action in state.admissible or child.over or self._differ(state, child):
            return True
        if self.lab.lists:
            return False
        plain = " ".join(child.observation.split())
        refused = plain == " ".join(state.observation.split())
        return not refused and general_answer("", action, plain) not in self._nonsense_in(state.task_id)

    def _note(self, state: LabState, action: str, child: LabState, accepted: bool) -> None:
        """Keep the answer, as an interface would see it. A refusal that repeats a refusal is no silence."""
        same = " ".join(child.observation.split()) == " ".join(state.observation.split())
        silent = same and (accepted or state not in self._refused)
        for form in self._forms_of(action):
            texts = {SAME} if silent else set()
            if accepted or not silent:
                texts.add(general_answer(form, action, child.observation))
            (self._accepting if accepted else self._refusing)[form].update(texts)

    def _forms_of(self, action: str) -> list[str]:
        """The forms that an action is of."""
        if action not in self._known:
            self._known[action] = [form for form in self.forms if bound_names(form, action) is not None]
        return self._known[action]

    def _differ(self, state: LabState, child: LabState) -> bool:
        if state.admissible != child.admissible:
            return True
        return any(self.lab.look(state, view) != self.lab.look(child, view) for view in self._views())

    def _views(self) -> list[str]:
        return [view for view in self.lab.env.contract.read_only_actions if "{}" not in view]

    def _nonsense_in(self, task_id: str) -> frozenset[str]:
        if task_id not in self._nonsense:
            start = self.lab.start(task_id)
            said = [(action, self.lab.after(start, action)) for action in NONSENSE]
            self._nonsense[task_id] = frozenset(general_answer("", action, child.observation) for action, child in said)
        return self._nonsense[task_id]
