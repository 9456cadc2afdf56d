"""What rules about pages say of an action that left the page as it was."""

from __future__ import annotations

from collections.abc import Iterable

from align_echo.interface.rules.actions import LONGEST_NAME, fill
from align_echo.interface.rules.model import Advice, NamedBeside, NeedsPage, Rule, fill_words
from align_echo.interface.rules.pages import (
    LEAST_LIKE,
    Page,
    PageOffers,
    likeness,
    nearest,
    plain_words,
)

MOST_LISTED, MOST_NEAR = 20, 3
"""Maximum names in a list of all, and of those that are equally near."""

LONGEST_LISTING = 2_000
"""Maximum characters of a list of names."""

LONGEST_QUOTE = 120
"""Maximum characters of an action in a message."""

_NOTHING = Advice("")


class PageGuide:
    """Guide through an environment's pages."""

    def __init__(self, offers: PageOffers, rules: Iterable[Rule]) -> None:
        self.offers = offers
        self._beside: dict[str, NamedBeside] = {}
        self._steps: dict[tuple[str, str], dict[str, NeedsPage]] = {}
        for rule in rules:
            if isinstance(rule, NamedBeside):
                self._beside[rule.form] = rule
            elif isinstance(rule, NeedsPage):
                self._steps.setdefault((rule.page, rule.form), {})[rule.name] = rule

    def advise(self, text: str, action: str) -> Advice:
        """Return what to tell of an action that left this page as it was; nothing where it may have been taken."""
        page = self.offers.read(text)
        form, said, exact = self.offers.parse(action)
        if form in self.offers.free:
            if exact:
                return _NOTHING
            if 0 < len(said) <= LONGEST_NAME and page.frame in self.offers.free[form]:
                return self._instead(action, fill(form, [" ".join(said.split())]))
            return self._listing(page)
        if exact and self.offers.may_take(form, page, said):
            return _NOTHING
        for known in [form] if form else self.offers.closed:
            if advice := self._about_form(known, page, action, said):
                return advice
        return self._other_form(form, page, action, said) or self._listing(page)

    def _about_form(self, form: str, page: Page, action: str, said: str) -> Advice | None:
        """Name what was meant, here or a step away; None if nothing is near."""
        near, names = nearest(self._names(form, page), said)
        steps = self._steps.get((page.frame, form), {})
        far, wanted = nearest(sorted(steps), said)
        beside = self._beside_said(form, page, said) if near < 4 and far < 4 else ""
        if beside:
            rule = self._beside[form]
            return self._instead(action, fill(form, [beside]), rule)
        if far > near and len(wanted) == 1:
            return self._instead(fill(form, [wanted[0]]), fill(form, [steps[wanted[0]].step]), steps[wanted[0]])
        if len(names) == 1:
            return self._instead(action, fill(form, [names[0]]))
        return Advice(self._page_says([_listed(form, names, False)])) if 0 < len(names) <= MOST_NEAR else None

    def _beside_said(self, form: str, page: Page, said: str) -> str:
        """Return the only name that leads to a part which was said and cannot be named; "" without."""
        rule, words, names = self._beside.get(form), plain_words(said), list[str]()
        for index, part in enumerate(page.parts) if rule else ():
            other = index + rule.shift if rule else 0
            if not 0 <= other < len(page.parts) or likeness(plain_words(part), words) < LEAST_LIKE:
                continue
            if rule and page.regions[index] in rule.regions and self.offers.takes(form, page, index) is False:
                names += [page.parts[other]] if self.offers.takes(form, page, other) else []
        names = [name for name in names if len(name) <= LONGEST_NAME]
        return names[0] if len(names) == 1 else ""

    def _other_form(self, form: str, page: Page, action: str, said: str) -> Advice | None:
        """Name another form that takes just what was said; None without."""
        for other in self.offers.closed:
            near, names = nearest(self._names(other, page), said)
            if other != form and near == 4 and len(names) == 1:
                return self._instead(action, fill(other, [names[0]]))
        return None

    def _listing(self, page: Page) -> Advice:
        """List what a page is known to offer, as far as there is room."""
        lines, room = list[str](), LONGEST_LISTING
        for form in self.offers.closed:
            shown = list[str]()
            for name in self._names(form, page)[:MOST_LISTED]:
                shown += [name] if len(name) <= room else []
                room -= len(name)
            lines += [_listed(form, shown, shown == self.offers.names(form, page))] if shown else []
        free = (form for form, frames in self.offers.free.items() if page.frame in frames)
        lines += [f"`{fill(form, ['X'])}` takes any words" for form in free]
        return Advice(self._page_says(lines) if lines else "")

    def _names(self, form: str, page: Page) -> list[str]:
        """Return the names that a form takes on a page and a message has room for."""
        return [name for name in self.offers.names(form, page) if len(name) <= LONGEST_NAME]

    def _page_says(self, lines: list[str]) -> str:
        return self.offers.say_names.replace("{names}", ". ".join(lines))

    def _instead(self, action: str, step: str, rule: NamedBeside | NeedsPage | None = None) -> Advice:
        words = {"{action}": _quoted(action), "{step}": step}
        say = rule.say if rule else self.offers.say
        return Advice(fill_words(say, words), (rule,) if rule else (), step)


def _listed(form: str, names: list[str], every: bool) -> str:
    """Write what a form takes on a page; `every`: no other names are known."""
    return f"`{fill(form, ['X'])}` takes here{'' if every else ', among others'}: {' | '.join(names)}"


def _quoted(action: str) -> str:
    """Return an action as a message quotes it: on one line and not too long."""
    text = " ".join(action.replace("`", "'").split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."
