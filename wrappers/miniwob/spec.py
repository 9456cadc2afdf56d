"""Static facts about MiniWoB, without a browser: splits, action forms, interface contract, invalid actions."""

from __future__ import annotations

from dataclasses import dataclass

from align_echo.errors import UsageError, install_line
from align_echo.interface.contract import InterfaceContract
from align_echo.wrappers.gui.actions import ACTION_FORMAT as ACTIONS

ACTION_FORMAT = f"""\
One action a turn, written exactly in one of these forms (the screen is 160 pixels wide and 210 high):
{ACTIONS}
In a text, \\n presses Enter, \\t Tab and \\b Backspace."""

CONTRACT = InterfaceContract(
    environment="miniwob",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="single",
)

STEP_LIMIT = 30

REFUSAL = "Refused: "

INSTALL_CHROMIUM = "apt-get install --no-install-recommends chromium chromium-driver fonts-liberation"
INSTALL = f"{install_line('miniwob')}, and {INSTALL_CHROMIUM}"


def is_invalid(observation: str) -> bool:
    """Check if the action was refused: malformed, off the screen, or without meaning here."""
    return observation.startswith(REFUSAL)


def task_type(task_id: str) -> str:
    """Return the page's name, the first part of a task id."""
    return task_id.partition("/")[0]


def has_expert(task_id: str) -> bool:
    """Check if there is an expert for the task's page."""

    return task_type(task_id) in WITH_EXPERT


# ---------------------------------------------------------------- tasks of MiniWoB++

_WITH_EXPERT = """
ascending-numbers choose-date choose-date-easy choose-date-medium choose-date-nodelay choose-list click-button
click-button-sequence click-checkboxes click-checkboxes-large click-checkboxes-soft click-checkboxes-transfer
click-collapsible click-collapsible-2 click-collapsible-2-nodelay click-collapsible-nodelay click-color
click-dialog click-dialog-2 click-link click-option click-shades click-tab click-tab-2 click-tab-2-easy
click-tab-2-hard click-tab-2-medium click-test click-test-2 click-test-transfer click-widget enter-password
enter-text enter-text-2 enter-text-dynamic find-word focus-text focus-text-2 grid-coordinate identify-shape
login-user odd-or-even read-table read-table-2 simple-algebra simple-arithmetic unicode-test
"""
WITH_EXPERT = tuple(_WITH_EXPERT.split())
"""Pages with an expert in `experts.js`."""

_OTHERS = """
bisect-angle book-flight book-flight-nodelay button-delay buy-ticket circle-center click-menu click-menu-2
click-pie click-pie-nodelay click-shape count-shape count-sides daily-calendar drag-box drag-circle drag-cube
drag-items drag-items-grid drag-shapes drag-shapes-2 drag-single-shape drag-sort-numbers draw-circle draw-line
email-inbox email-inbox-delete email-inbox-forward email-inbox-forward-nl email-inbox-forward-nl-turk
email-inbox-important email-inbox-nl-turk email-inbox-noscroll email-inbox-reply email-inbox-star-reply
enter-date enter-time find-greatest find-midpoint form-sequence form-sequence-2 form-sequence-3 generate-number
guess-number highlight-text highlight-text-2 hot-cold login-user-popup multi-layouts multi-orderings
navigate-tree number-checkboxes order-food phone-book resize-textarea right-angle scroll-text scroll-text-2
search-engine sign-agreement social-media social-media-all social-media-some stock-market terminal text-editor
text-transform tic-tac-toe use-autocomplete use-autocomplete-nodelay use-colorwheel use-colorwheel-2 use-slider
use-slider-2 use-spinner visual-addition
"""
OTHERS = tuple(_OTHERS.split())

SUBDOMAINS = tuple(sorted(WITH_EXPERT + OTHERS))

LEFT_OUT = {
    "click-scroll-list": "wants a key held while clicking",
    "copy-paste": "wants shortcuts of the keyboard",
    "copy-paste-2": "wants shortcuts of the keyboard",
    "chase-circle": "wants the pointer to follow what moves, between turns",
    "hover-shape": "wants the pointer to follow what moves, between turns",
    "moving-items": "wants clicks on what moves, between turns",
    "simon-says": "shows between turns what it asks for",
}
"""Pages that the actions cannot play, and why. FlightWoB's pages, which need a server, are left out as well."""

SEEDS = {"test": range(10), "train": range(10, 110)}


@dataclass(frozen=True)
class PageTask:
    """Page and its seed."""

    subdomain: str
    seed: int

    @property
    def mode(self) -> str:
        """Distribution of a page with two of them: "train" or "test"."""
        return "test" if self.seed in SEEDS["test"] else "train"

    @property
    def has_expert(self) -> bool:
        """Return True if the page has an expert."""
        return self.subdomain in WITH_EXPERT


def task_ids(split: str) -> tuple[str, ...]:
    """Return the ids of a split, by subdomain and then by seed. Raises `KeyError` for an unknown split."""
    subdomains = WITH_EXPERT if split.startswith("expert_") else SUBDOMAINS
    seeds = SEEDS[split.removeprefix("expert_")]
    return tuple(f"{subdomain}/{seed}" for subdomain in subdomains for seed in seeds)


def read_task(task_id: str) -> PageTask:
    """Parse a task id. Raises `UsageError` for an unknown task."""
    subdomain, _, number = task_id.partition("/")
    if subdomain in LEFT_OUT:
        raise UsageError(f"{subdomain} is not played: it {LEFT_OUT[subdomain]}")
    if subdomain not in SUBDOMAINS:
        raise UsageError(f"there is no task {task_id!r}: an id is <subdomain>/<seed>, see tasks()")
    known = [seed for seeds in SEEDS.values() for seed in seeds]
    if number not in map(str, known):
        raise UsageError(f"{task_id!r} does not end in a seed from {min(known)} to {max(known)}")
    return PageTask(subdomain, int(number))
