"""A parcel desk for tests, with plain words or JSON tool calls: a sealed parcel can be labelled and not weighed.

`seal` closes a parcel for good; `weigh` is then refused; `label` works at any time. A parcel is sent after it was
weighed, in an open desk also after it was stamped.
"""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym

import align_echo

TOOLS = ("seal", "weigh", "label", "send")


class Desk(gym.Env[str, str]):
    """A parcel that is sent after it was weighed, which comes before sealing."""

    observation_space = gym.spaces.Text(200)
    action_space = gym.spaces.Text(80)
    ways: tuple[str, ...] = ("weigh",)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.sealed = self.weighed = False
        return f"Parcel {seed} lies on the desk.", {"goal": "send the parcel"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        tool = self.tool(action)
        sent = tool == "send" and self.weighed
        answer = {"label": "Labelled.", "send": "Sent." if sent else "Refused: no weight.", "seal": "Sealed."}
        answer |= {"stamp": "Stamped."} if "stamp" in self.ways else {}
        answer["weigh"] = "Refused: too late." if self.sealed else "4 pounds."
        self.weighed |= tool in self.ways and not self.sealed
        self.sealed |= tool == "seal"
        return answer.get(tool, "What?"), float(sent), sent, False, {}

    def tool(self, action: str) -> str:
        return action


class OpenDesk(Desk):
    """A desk where a stamp will do."""

    ways = ("weigh", "stamp")


class CalledDesk(Desk):
    """A desk that takes JSON tool calls."""

    def tool(self, action: str) -> str:
        try:
            return str(json.loads(action)["tool"])
        except (ValueError, KeyError, TypeError):
            return ""


def call(tool: str) -> str:
    """A tool call."""
    return json.dumps({"tool": tool, "arguments": {"parcel": "it"}})


def is_invalid(text: str) -> bool:
    """Whether an answer is a refusal."""
    return text.startswith("Refused") or text == "What?"


PLAIN = align_echo.TextEnvironment(Desk, step_limit=6, action_format=" | ".join(TOOLS), is_invalid=is_invalid)
OPEN = align_echo.TextEnvironment(OpenDesk, step_limit=6, action_format=" | ".join(TOOLS), is_invalid=is_invalid)
CALLED = align_echo.TextEnvironment(
    CalledDesk, step_limit=6, action_format='{"tool": NAME, "arguments": {}}', is_invalid=is_invalid
)
