"""Short exercises: say a list again, read the next place off it, see whether a thing is there, find a code.

An agent of these environments does little else than look things up in its context, and a small model trained from
nothing takes long to find out how from whole episodes, where one reply in ten depends on it. Here every reply does. The
sentences are the environments' own; rooms and pages are random, so nothing can be learned by heart.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections.abc import Callable, Iterator

from align_echo.base.dice import Dice
from align_echo.train.sft import Demonstration
from align_echo.types import Message
from align_echo.wrappers.alfworld.games import SEEN, floor_plan, tables

ROUNDS = 8
"""Questions of a chat."""
STOPS = 10
"""Places of a walk."""


def glances(seed: int) -> Iterator[Demonstration]:
    """The first exercise, without end: a single question whether a thing is there."""
    number = 0
    while True:
        yield _chat("drill.glance", _spot(Dice(f"glance {seed} {number}"))[:1])
        number += 1


def drills(seed: int) -> Iterator[Demonstration]:
    """Exercises without end, the kinds in turn; the same for the same seed."""
    kinds: dict[str, Callable[[Dice], list[tuple[str, str]]]] = {
        **{"walk": _walk, "spot": _spot, "code": _code, "next": _next, "copy": _copy},
    }
    number = 0
    while True:
        for name, made in kinds.items():
            yield _chat(f"drill.{name}", made(Dice(f"drill {seed} {name} {number}")))
        number += 1


def _chat(kind: str, pairs: list[tuple[str, str]]) -> Demonstration:
    messages: list[Message] = []
    for question, answer in pairs:
        messages += [Message(role="user", content=question), Message(role="assistant", content=answer)]
    return Demonstration(kind=kind, messages=tuple(messages), weights=(1.0,) * len(pairs))


def _next(dice: Dice) -> list[tuple[str, str]]:
    """The place that is listed after another."""
    places = _room(dice, fewest=3)
    turns = [dice.below(len(places) - 1) for _ in range(ROUNDS)]
    return [
        ((_opening(places) if turn == 0 else "") + f"After {places[place]}.", f"go to {places[place + 1]}")
        for turn, place in enumerate(turns)
    ]


def _walk(dice: Dice) -> list[tuple[str, str]]:
    """The places of a room one after another, as listed; a thing that is wanted is taken where it is seen."""
    wanted, *others = dice.shuffled(_things())
    others = others[: 2 + dice.below(30)]
    places = _room(dice, fewest=STOPS)
    pairs = [(f"{_opening(places)}Your task is to: find some {wanted}.", f"go to {places[0]}")]
    for here, following in itertools.pairwise(places[: STOPS + 1]):
        succeeds = dice.chance(0.4)
        seen = sorted(dice.shuffled(others)[: dice.below(8)] + [wanted] * succeeds)
        things = [f"{thing} {1 + dice.below(4)}" for thing in seen]
        thing = next((other for other in things if other.rsplit(" ", 1)[0] == wanted), "")
        text = f"You arrive at {here}. On the {here}, you see {_listed(things) if things else 'nothing'}."
        if thing:
            pairs.append((text, f"take {thing} from {here}"))
            others, wanted = [*others, wanted], dice.pick(others)
            text = f"You pick up the {thing} from the {here}.\nYour task is to: find some {wanted}."
        pairs.append((text, f"go to {following}"))
    return pairs


def _spot(dice: Dice) -> list[tuple[str, str]]:
    """A thing of the kind that is asked for now, if it is there."""
    pairs = []
    for _ in range(ROUNDS):
        wanted, *others = dice.shuffled(_things())
        place = f"{dice.pick(_places())} {1 + dice.below(9)}"
        seen = sorted(others[: dice.below(8)] + [wanted] * dice.chance(0.5))
        things = [f"{thing} {1 + dice.below(4)}" for thing in seen]
        thing = next((other for other in things if other.rsplit(" ", 1)[0] == wanted), "")
        text = f"On the {place}, you see {_listed(things) if things else 'nothing'}."
        answer = f"take {thing} from {place}" if thing else "look"
        pairs.append((f"Your task is to: find some {wanted}.\n{text}", answer))
    return pairs


def _copy(dice: Dice) -> list[tuple[str, str]]:
    """What was said, again."""
    pairs = []
    for _ in range(3):
        text = ", ".join(_named(dice) for _ in range(6 + dice.below(14)))
        pairs.append((f"Say: {text}", text))
    return pairs


def _named(dice: Dice) -> str:
    """A thing, a place or a code."""
    made: tuple[Callable[[], str], ...] = (
        lambda: f"{dice.pick(_things())} {1 + dice.below(4)}",
        lambda: f"{dice.pick(_places())} {1 + dice.below(9)}",
        lambda: _product_code(dice),
    )
    return dice.pick(made)()


def _code(dice: Dice) -> list[tuple[str, str]]:
    """The code that stands before a title, and a title's words."""
    words = dice.shuffled(_things())
    lines = [(_product_code(dice), " ".join(words[3 * line : 3 * line + 3])) for line in range(3 + dice.below(6))]
    page = " [SEP] ".join(f"{code} [SEP] {title} [SEP] ${dice.between(5, 90)}" for code, title in lines)
    pairs = []
    for turn in range(ROUNDS):
        code, title = dice.pick(lines)
        pairs.append(((f"{page}\n" if turn == 0 else "") + f"Instruction: {title}", f"click[{code}]"))
    return pairs


def _room(dice: Dice, *, fewest: int) -> list[str]:
    """Furniture of some kinds, as ALFWorld names it: the kinds in order, each from its last number down."""
    while True:
        kinds = sorted(dice.shuffled(_places())[: 3 + dice.below(7)])
        places = [f"{kind} {number}" for kind in kinds for number in range(1 + dice.below(9), 0, -1)]
        if len(places) > fewest:
            return places


def _opening(places: list[str]) -> str:
    return f"You are in the middle of a room. Looking quickly around you, you see {_listed(places)}.\n"


def _product_code(dice: Dice) -> str:
    return "B0" + "".join(dice.pick(string.ascii_uppercase + string.digits) for _ in range(8))


def _listed(names: list[str]) -> str:
    """As ALFWorld lists things: "a mug 1, a pan 2, and a pot 1"."""
    named = [f"a {name}" for name in names]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])}, and {named[-1]}"


@functools.cache
def _places() -> tuple[str, ...]:
    """Kinds of furniture of the training floor plans, in lower case."""
    return tuple(sorted({kind.lower() for number in SEEN for kind in floor_plan(number).kinds()}))


@functools.cache
def _things() -> tuple[str, ...]:
    """Kinds of things, in lower case."""
    return tuple(sorted(kind.lower() for kind in tables().objects))
