"""Small web site and a visit to it: pages of lines, links that can be clicked while in view, five lines a view.

The content of the pages and the questions about them are in `web.py`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from align_echo.wrappers.m3tooleval.tools import CALCULATOR, Tool, ToolCall, Tools, as_text, toolbox

LINES = 5
"""Number of lines in a view."""

HOME = "/"
NO_LINK, NO_BACK = "[no such link in this view]", "[there is no page before this one]"
TOP, BOTTOM = "[this is the top of the page]", "[this is the end of the page]"

Site = Mapping[str, tuple[str, ...]]
"""Pages by address: their lines. A link has the form `[link '/address']` in a line."""

_LINK = re.compile(r"\[link '([^']+)'\]")


class PageView(NamedTuple):
    """View of a visitor: a page, its first line in view, and the pages before it, the latest last."""

    page: str
    first: int = 0
    before: tuple[str, ...] = ()

    def lines(self, site: Site) -> tuple[str, ...]:
        """Return the lines in view."""
        return site[self.page][self.first : self.first + LINES]

    def links(self, site: Site) -> list[str]:
        """Return the addresses that can be clicked."""
        return _LINK.findall("\n".join(self.lines(site)))

    def facts(self, site: Site) -> set[tuple[str, int]]:
        """Return (page, line) of the lines in view."""
        return {(self.page, self.first + line) for line in range(len(self.lines(site)))}

    def after(self, site: Site, name: str, address: str = "") -> PageView | str:
        """Return the view after a tool call; a text in brackets if the call leads nowhere."""
        if name == "click_url":
            if address not in self.links(site):
                return NO_LINK
            return PageView(address, 0, (*self.before, self.page))
        if name == "go_to_previous_page":
            return PageView(self.before[-1], 0, self.before[:-1]) if self.before else NO_BACK
        if name == "scroll_down":
            below = self.first + LINES
            return self._replace(first=below) if below < len(site[self.page]) else BOTTOM
        if name == "scroll_up":
            return self._replace(first=max(self.first - LINES, 0)) if self.first else TOP
        return self

    def shown(self, site: Site) -> str:
        """Render the view as text."""
        parts = -(-len(site[self.page]) // LINES)
        heading = f"[page {self.page}, part {self.first // LINES + 1} of {parts}]"
        return "\n".join((heading, *self.lines(site)))


class SiteSession:
    """Visit to a site, with its tools, the present view and the lines shown so far."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.view = PageView(HOME)
        self.seen: set[tuple[str, int]] = set()

    def go(self, name: str, url: object = "") -> str:
        """Call a tool by name and return the new view as text."""
        after = self.view.after(self.site, name, as_text(url).strip("\"'"))
        if isinstance(after, str):
            return after
        self.view = after
        self.seen |= after.facts(self.site)
        return after.shown(self.site)

    def tools(self) -> Tools:
        """Return the tools of this visit."""
        return toolbox(
            Tool(
                "click_url",
                "click_url(url: str) -> str",
                "Follows a link that is in view, such as [link '/some/page']. The argument is its address.",
                lambda url: self.go("click_url", url),
            ),
            Tool(
                "go_to_previous_page",
                "go_to_previous_page() -> str",
                "Goes back to the page before.",
                lambda: self.go("go_to_previous_page"),
            ),
            Tool(
                "scroll_down",
                "scroll_down() -> str",
                "Shows the next five lines of the page.",
                lambda: self.go("scroll_down"),
            ),
            Tool("scroll_up", "scroll_up() -> str", "Shows the five lines before.", lambda: self.go("scroll_up")),
            Tool("view", "view() -> str", "Shows the five lines in view once more.", lambda: self.go("view")),
            CALCULATOR,
        )


def route(site: Site, view: PageView, facts: set[tuple[str, int]]) -> list[ToolCall]:
    """Plan calls that show all the facts, always going to the nearest fact next."""
    calls: list[ToolCall] = []
    facts = set(facts)
    while facts:
        steps, view = _nearest(site, view, facts)
        calls += steps
        facts -= view.facts(site)
    return calls


def _nearest(site: Site, view: PageView, facts: set[tuple[str, int]]) -> tuple[list[ToolCall], PageView]:
    """Find the fewest calls, at least one, until a view shows one of the facts; also return that view."""
    reached = {view}
    ahead: deque[tuple[list[ToolCall], PageView]] = deque([([], view)])
    while ahead:
        steps, current = ahead.popleft()
        for call, following in _steps(site, current):
            if following.facts(site) & facts:
                return [*steps, call], following
            if following not in reached and len(following.before) < LONGEST_TRAIL:
                reached.add(following)
                ahead.append(([*steps, call], following))
    raise AssertionError("every page of a site can be reached")


LONGEST_TRAIL = 12
"""Longest chain of clicks in a route, including earlier clicks."""


def _steps(site: Site, view: PageView) -> Iterator[tuple[ToolCall, PageView]]:
    calls: list[ToolCall] = [("view",), *(("click_url", link) for link in view.links(site))]
    for call in (*calls, ("scroll_down",), ("scroll_up",), ("go_to_previous_page",)):
        following = view.after(site, *call)
        if isinstance(following, PageView):
            yield call, following
