"""Scripted novices, one per environment: stand-ins for a small language model, and NOT language models.

Each knows its goal but not the engine's wording, with habits taken from published logs of small models. Each is a
function of the view: same view, same action.
"""

from __future__ import annotations

from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import UsageError
from align_echo.types import Agent


def make_novice(environment: str, kind: str = "novice", *, seed: int = 0) -> Agent:
    """Build the novice of a kind for an environment. Raises `UsageError` if there is none."""
    stubborn = kind == "novice-stubborn"
    if environment == "alfworld":
        from align_echo.agents.novices import alfworld

        habits = {"novice-careful": alfworld.CAREFUL, "novice-stubborn": alfworld.STUBBORN}.get(kind, alfworld.USUAL)
        return alfworld.house_novice(habits, seed=seed, name=kind)
    if environment == "scienceworld" and kind != "novice-careful":
        from align_echo.agents.novices import scienceworld as lab

        return lab.lab_novice(lab.STUBBORN if stubborn else lab.USUAL, seed=seed, name=kind)
    if environment == "webshop" and kind != "novice-careful":
        from align_echo.agents.novices import webshop as shop

        return shop.shop_novice(shop.STUBBORN if stubborn else shop.USUAL, seed=seed, name=kind)
    if environment == "m3tooleval" and kind != "novice-careful":
        from align_echo.agents.novices import m3tooleval as tools

        return tools.tool_novice(tools.STUBBORN if stubborn else tools.USUAL, seed=seed, name=kind)
    if environment == "miniwob" and kind != "novice-careful":
        from align_echo.agents.novices import miniwob as screen

        return screen.screen_novice(screen.STUBBORN if stubborn else screen.USUAL, seed=seed, name=kind)
    if environment == "searchqa" and kind != "novice-careful":
        from align_echo.agents.novices import searchqa as reader

        return reader.reader_novice(reader.STUBBORN if stubborn else reader.USUAL, seed=seed, name=kind)
    if environment == "textworldexpress" and kind != "novice-careful":
        from align_echo.agents.novices import textworldexpress as games

        return games.game_novice(games.STUBBORN if stubborn else games.USUAL, seed=seed, name=kind)
    raise UsageError(f"there is no scripted {kind} for {environment}; use another --agent or --model")


def _spec(kind: str, about: str) -> AgentSpec:
    def build(setting: AgentSetting) -> Agent:
        return make_novice(setting.spec.name, kind, seed=setting.seed)

    return AgentSpec(kind, about, False, build)


NOVICE = _spec("novice", "a scripted stand-in for a small model, NOT a language model")
CAREFUL = _spec("novice-careful", "a scripted novice that goes to places first; NOT a language model")
STUBBORN = _spec("novice-stubborn", "a scripted novice that never takes a hint; NOT a language model")
