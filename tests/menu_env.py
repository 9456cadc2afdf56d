"""A text world of pages for tests: a refused action is answered with the page as it was.

Dishes are sought, opened by the code that stands after their description, and ordered. `tap <X>` takes what the page
shows as a part of its own, `mark <X>` the codes on a list; `seek: X` takes any words. What was chosen is not shown
before the end. Task ids are "menu/<seed>".
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, replace

from align_echo.errors import UsageError
from align_echo.interface.contract import InterfaceContract
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv

TASK_IDS = tuple(f"menu/{seed}" for seed in range(40))
TEMPLATES = ("tap <{0}>", "mark <{0}>", "seek: {0}")
WORDS = ("stew", "roast", "barley", "leek", "plum", "trout", "rye", "beet", "quail", "chive", "oat", "pear")
CHOICES = {"sauce": ("mild", "hot", "sour"), "side": ("bread", "salad", "rice pudding")}

CONTRACT = InterfaceContract(
    environment="menu",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="single",
)


@dataclass(frozen=True)
class Dish:
    """A dish on the menu."""

    text: str
    code: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class MenuPage:
    """Where a guest is: "home", "list", "dish", "notes" or "end"; which dish, what was chosen, which dish is marked."""

    kind: str = "home"
    first: int = 0
    dish: int = -1
    chosen: frozenset[str] = frozenset()
    marked: str = ""


class NoOracle:
    """This world has no ground truth to give."""

    def expert_action(self) -> str | None:
        return None

    def distance(self) -> int | None:
        return None


class MenuEnv(TextEnv):
    """Goal: the first dish of a shuffled menu, with its first choice of each kind."""

    def __init__(self, step_limit: int = 20) -> None:
        super().__init__(TASK_IDS, CONTRACT, step_limit)
        self._dishes: list[Dish] = []
        self._wanted = Dish("", "", ())
        self._page = MenuPage()

    @property
    def goal(self) -> str:
        wants = [CHOICES[group][0] for group in self._wanted.groups]
        return f"have {self._wanted.text} with {' and '.join(wants) or 'nothing'}"

    @property
    def task_type(self) -> str:
        return "order"

    def oracle(self) -> NoOracle:
        return NoOracle()

    def offered(self) -> ActionOptions:
        return ActionOptions(TEMPLATES, tuple(self._names()))

    def _load(self, task_id: str) -> EngineState:
        if task_id not in self.task_ids:
            raise UsageError(f"unknown task {task_id!r}")
        rng = random.Random(task_id)
        codes = rng.sample(range(100, 999), 8)
        groups = ((), ("sauce",), ("side",), ("sauce", "side"))
        self._dishes = [Dish(" ".join(rng.sample(WORDS, 4)), f"K-{code}", rng.choice(groups)) for code in codes]
        self._wanted, self._page = rng.choice(self._dishes[:4]), MenuPage()
        return self._answer()

    def _act(self, action: str) -> EngineState:
        page, name = self._page, action.strip().removeprefix("tap <").removesuffix(">")
        if action.startswith("seek: ") and action[6:].strip():
            self._page = MenuPage("list", zlib.crc32(action.encode()) % 5)
        elif page.kind == "list" and action in [f"mark <{dish.code}>" for dish in self._listed()]:
            self._page = replace(page, marked=action[6:-1])
        elif action.strip() == f"tap <{name}>" and name in self._names() and name != "Seek":
            self._page = self._tapped(page, name)
        return self._answer()

    def _tapped(self, page: MenuPage, name: str) -> MenuPage:
        codes = [dish.code for dish in self._dishes]
        if name in codes:
            return replace(page, kind="dish", dish=codes.index(name))
        up = "dish" if page.kind == "notes" else "list"
        ways = {"Home": MenuPage(), "More": replace(page, first=(page.first + 3) % 5), "Up": replace(page, kind=up)}
        ways |= {"Order": replace(page, kind="end"), "Notes": replace(page, kind="notes")}
        return ways[name] if name in ways else replace(page, chosen=page.chosen | {name})

    def _names(self) -> list[str]:
        """What can be tapped; and "Seek", which is offered and does nothing."""
        if self._page.kind == "home":
            return ["Seek"]
        if self._page.kind == "list":
            return ["Home", *(dish.code for dish in self._listed()), "More"]
        values = [value for group in self._dish().groups for value in CHOICES[group]]
        return ["Home", "Up", *([*values, "Order", "Notes"] if self._page.kind == "dish" else [])]

    def _parts(self) -> list[str]:
        page, head = self._page, ["Menu", f"Wanted: {self.goal}", "Home"]
        if page.kind == "home":
            return [*head[:2], "Seek"]
        if page.kind == "list":
            marked = [f"{page.marked} is marked"] if page.marked else []
            return [*head, *(part for dish in self._listed() for part in (dish.text, dish.code)), "More", *marked]
        if page.kind == "notes":
            return [*head, "Up", f"Cooked by {self._dish().code[-1]} cooks", "Served at once"]
        if page.kind == "end":
            return ["Enjoy", self._dish().code, *sorted(page.chosen)]
        values = [part for group in self._dish().groups for part in (group, *CHOICES[group])]
        return [*head, "Up", *values, self._dish().text, "Order", "Notes"]

    def _listed(self) -> list[Dish]:
        return self._dishes[self._page.first : self._page.first + 4]

    def _dish(self) -> Dish:
        return self._dishes[self._page.dish]

    def _save(self) -> tuple[list[Dish], Dish, MenuPage]:
        return self._dishes, self._wanted, self._page

    def _restore(self, task_id: str, saved: tuple[list[Dish], Dish, MenuPage]) -> None:
        self._dishes, self._wanted, self._page = saved

    def _probe(self, action: str) -> str:
        raise UsageError("this world has no action that only looks")

    def _answer(self) -> EngineState:
        page = self._page
        wants = {CHOICES[group][0] for group in self._wanted.groups}
        won = page.kind == "end" and self._dish() is self._wanted and wants == page.chosen
        return EngineState(" / ".join(self._parts()), float(won), won, page.kind == "end")
