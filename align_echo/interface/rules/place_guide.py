"""What rules about places and names say of a refused action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from align_echo.interface.rules.actions import LONGEST_ACTION, fill
from align_echo.interface.rules.model import (
    SAY_FORM,
    Advice,
    BareNames,
    Elsewhere,
    InSight,
    RuleSet,
    SayInstead,
    fill_words,
)
from align_echo.interface.rules.places import (
    SightRecord,
    Surroundings,
    asks,
    match_names,
    mentions,
    write_forms,
)

_NOTHING = Advice("")


class PlaceGuide:
    """Guide through an episode: it hears each answer, asks for `views`, and advises on what was refused."""

    def __init__(self, surroundings: Surroundings, rules: RuleSet, opening: str = "", task: str = "") -> None:
        self.known = surroundings
        self.sight = SightRecord(surroundings, f"{opening}\n{task}")
        if surroundings.opening and opening:
            self.sight.watch([opening])
        self.wordings = {rule.form: rule for rule in rules.rules if isinstance(rule, SayInstead) and not rule.answers}
        self.bare = next((rule for rule in rules.rules if isinstance(rule, BareNames)), None)
        self.elsewhere = next((rule for rule in rules.rules if isinstance(rule, Elsewhere)), None)
        self.sure = {form: rule for rule in rules.rules if isinstance(rule, InSight) for form in rule.forms}
        self.travel = self.elsewhere.form if self.elsewhere else ""
        self.rare = {*surroundings.sometimes}
        """Forms that this task may lack."""

        self._action, self._refused, self._waits, self._looked = "", False, False, False

    # ------------------------------------------------------------ an episode

    def hear(self, action: str, answer: str) -> None:
        """Read an answer. The form that leads to any place is not advised again in a task that refused it."""
        self.sight.read(answer)
        self._action, self._refused = action, answer.strip() in self.known.refusals
        sent = match_names(self.travel, action.strip()) if self._refused and self.travel else None
        if sent and sent[0] in self.known.places:
            self.rare.add(self.travel)
        self._waits = asks(answer) or (self._refused and self._waits)

    def views(self) -> list[str]:
        """Return the read-only actions to look by: what a refusal leaves as it was is known."""
        return [] if self._waits or (self._refused and self._looked) else [*self.known.views]

    def advise(self, views: Mapping[str, str]) -> Advice:
        """Take in what the views show now, and return what to tell of the latest action if it was refused."""
        self._looked = self._looked or bool(views)
        self.sight.watch([views[view] for view in self.known.views] if views else [])
        return self.explain(self._action) if self._refused else _NOTHING

    # ------------------------------------------------------------ a refused action

    def explain(self, action: str) -> Advice:
        """Return what to tell of a refused action; nothing where nothing was learned."""
        said = " ".join(action[:LONGEST_ACTION].lower().split())
        match = self.understood(said)
        if match is None:
            return self._suggest(said)
        form, names = match
        if self.bare is None:
            return self._about(said, form, names)
        names = [name if self.sight.is_known(name) else self.shorten(name) for name in names]
        advice = self._about(said, form, names)
        return advice if advice.text else self._about(said, form, [self.shorten(name) for name in names])

    def reading(self, form: str) -> str:
        """Return a form as the environment understands it, over the form's own slots."""
        rule = self.wordings.get(form)
        if rule is None:
            return form
        return fill(rule.edit.detail, [f"{{{term.slot}}}" for term in rule.edit.terms or ()])

    def understood(self, action: str, *, exact: bool = False) -> tuple[str, list[str]] | None:
        """Return the form that fits an action best, and its names; `exact`: of the environment's own forms.

        Best are the fewest names that were never seen, then the most words of the form itself.
        """
        fits = [
            ((sum(not self.sight.is_known(name) for name in names), -len(form.split())), form, names)
            for form in [*(() if exact else self.wordings), *self.known.forms]
            if (names := match_names(form, action)) is not None
        ]
        return min(fits, key=lambda fit: fit[0])[1:] if fits else None

    def shorten(self, text: str) -> str:
        """Return the first and longest known name within a text, or the text without any."""
        words = text.split(" ")
        for start in range(len(words)):
            for end in range(min(len(words), start + self.known.longest_name), start, -1):
                part = " ".join(words[start:end])
                if part != text and part in self.known.known_names and self.sight.is_known(part):
                    return part
        return text

    def _about(self, said: str, form: str, names: list[str]) -> Advice:
        """Say what is known of a form with these names, of which its reading may use some only.

        Nothing is said of a name that was read and is nowhere in sight, of places as things, and of things as places.
        """
        reading = self.reading(form)
        used = [name for number, name in enumerate(names) if f"{{{number}}}" in reading]
        for name in used:
            if not self.sight.is_known(name):
                unseen = fill_words(self.known.say_unseen, {"{name}": name})
                return _NOTHING if mentions(self.sight.text, name) else Advice(unseen)
        if reading in self.rare:
            return Advice(self._forms_say(self.known.say_sometimes, [reading], " or "))
        moves = reading in self.known.movers
        if any((name in self.known.places) != moves for name in used):
            return _NOTHING
        travels = self.elsewhere is not None and self.travel not in self.rare
        if moves and self.elsewhere and travels and reading != self.travel:
            return self._fill(self.elsewhere, self.elsewhere.say_far, said, fill(self.travel, used[:1]))
        wanted = fill(reading, names)
        rewrite = self._rewrite(said, form, wanted, used) if wanted != said else _NOTHING
        if self.elsewhere and (step := self.missing_step(reading, used)):
            return _joined(self._fill(self.elsewhere, self.elsewhere.say, wanted, step), rewrite)
        for name in used:
            if not moves and not self.sight.is_at_hand(name):
                words = {"{name}": name, "{place}": self.sight.last_seen(name)}
                return _joined(Advice(fill_words(self.known.say_away, words)), rewrite)
        return rewrite

    def _rewrite(self, said: str, form: str, wanted: str, names: Sequence[str]) -> Advice:
        """Say how an action is worded. With bare names it is promised only where the form took every name at hand."""
        rule = self.wordings.get(form) or self.sure.get(form)
        if rule is not None and (form in self.wordings or all(map(self.sight.is_at_hand, names))):
            return self._fill(rule, rule.say, said, wanted)
        if self.bare is None:
            return _NOTHING
        alone = " and ".join(f'"{name}"' for name in names)
        return Advice(fill_words(self.bare.say, {"{names}": alone}), (self.bare,))

    def missing_step(self, form: str, names: Sequence[str]) -> str:
        """Return the way to the first name that is not at hand; "" if there is none to take.

        What lies here is left behind on a way: all names must be carried along or have been seen there.
        """
        away = [name for name in names if not self.sight.is_at_hand(name)]
        if form in self.known.movers or not self.travel or self.travel in self.rare or not away:
            return ""
        place = self.sight.last_seen(away[0])
        together = all(self.sight.is_carried(name) or self.sight.stands_at(place, name) for name in names)
        return fill(self.travel, [place]) if place and together else ""

    def _suggest(self, action: str) -> Advice:
        """Name the forms that begin with the same word; all that every task offers if none does."""
        first = action.split(" ")[0]
        same = [form for form in self.known.forms if form.split(" ")[0] == first]
        every = [form for form in self.known.always if form not in self.rare]
        always = [form for form in same if form in every]
        if always == [first]:
            return Advice(fill_words(SAY_FORM, {"{action}": action, "{step}": first}), step=first)
        if always:
            return Advice(self._forms_say(self.known.say_same_word, always, " or "))
        if same:
            return Advice(self._forms_say(self.known.say_sometimes, same, " or "))
        return Advice(self._forms_say(self.known.say_forms, every))

    def _forms_say(self, say: str, forms: Sequence[str], between: str = ", ") -> str:
        return fill_words(say, {"{forms}": write_forms(forms, between)})

    def _fill(self, rule: Elsewhere | SayInstead | InSight, say: str, action: str, step: str) -> Advice:
        return Advice(fill_words(say, {"{action}": action, "{step}": step}), (rule,), step)


def _joined(first: Advice, then: Advice) -> Advice:
    """Join a step and a wording."""
    return Advice(f"{first.text} {then.text}".strip(), (*first.rules, *then.rules), first.step or then.step)
