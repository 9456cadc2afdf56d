"""Interface code as a language model writes it for ALFWorld: state on `env`, probes, regular expressions, logging.

Measured by `studies/wrapper_overhead.py`, run by the tests; it is loaded as an interface, never imported.
"""

import re
from typing import Any

OPENABLE = {"fridge", "microwave", "cabinet", "drawer", "safe"}


def InferRules(init_obs: str, task: str) -> str:
    places = re.findall(r"\ba ([a-z]+) (\d+)", init_obs)
    names = ", ".join(f"{name} {number}" for name, number in places)
    return (
        "Go to a receptacle before you use it. Open closed receptacles before you look inside.\n"
        f"Receptacles here: {names or 'unknown'}.\nTask: {task}"
    )


def parse(action: str) -> dict[str, Any]:
    patterns = {
        "go": r"^go to (?P<place>.+)$",
        "take": r"^take (?P<thing>.+) from (?P<place>.+)$",
        "move": r"^move (?P<thing>.+) to (?P<place>.+)$",
        "open": r"^open (?P<place>.+)$",
        "close": r"^close (?P<place>.+)$",
        "examine": r"^examine (?P<thing>.+)$",
        "use": r"^(?:use|toggle) (?P<thing>.+)$",
        "treat": r"^(?P<verb>heat|cool|clean|slice) (?P<thing>.+) with (?P<place>.+)$",
    }
    for kind, pattern in patterns.items():
        match = re.match(pattern, action.strip().lower())
        if match:
            return {"kind": kind, **match.groupdict()}
    return {"kind": "plain"}


def WrapStep(env: Any, init_obs: str, task: str, agent_action: str, logger: Any) -> tuple[str, bool, bool]:
    if not hasattr(env, "_location"):
        env._location = None
        env._closed = {}
        env._history = []
        env._failures = 0

    parsed = parse(agent_action)
    logger.debug(f"parsed {agent_action!r} as {parsed}")

    def same_place(place: str) -> bool:
        return env._location is not None and place == env._location

    def held() -> str:
        observation, _, _, _ = env.step(["inventory"])
        text = observation[0].lower()
        return text.split("carrying:", 1)[1].strip() if "carrying:" in text else ""

    place = parsed.get("place", "")
    if parsed["kind"] == "go" and same_place(place):
        return f"You are already at {place}. You can use it directly.", False, False
    if parsed["kind"] in ("take", "open", "close", "treat") and place and not same_place(place):
        env._failures += 1
        view, _, _, _ = env.step(["look"])
        if place not in view[0]:
            where = env._location or "the middle of the room"
            return f"You are at {where}. Go to {place} before you try to {agent_action}.", False, False
    if parsed["kind"] == "take" and env._closed.get(place, False):
        return f"The {place} is closed. Open it before you take anything out of it.", False, False
    if parsed["kind"] in ("move", "treat") and parsed["thing"] not in held():
        env._failures += 1
        return f"You do not hold the {parsed['thing']}. Take it first.", False, False

    observation, _, done, info = env.step([agent_action])
    obs, won, over = observation[0], info["won"][0], done[0]
    logger.debug("engine answered: %s", obs)
    env._history.append((agent_action, obs))

    if obs.startswith("Nothing happens"):
        env._failures += 1
        repeated = sum(1 for action, _ in env._history if action == agent_action)
        hint = f"'{agent_action}' has no effect here."
        if repeated > 1:
            hint += f" You tried it {repeated} times; try something else."
        known = sorted({name for name, _ in re.findall(r"\ba ([a-z]+) (\d+)", init_obs)})
        if place and place.split(" ")[0] not in known:
            hint += f" There is no {place}; there are: {', '.join(known)}."
        return hint, won, over

    env._failures = 0
    if parsed["kind"] == "go":
        env._location = place
        kind = place.split(" ")[0]
        if kind in OPENABLE:
            env._closed[place] = "is closed" in obs
            if env._closed[place]:
                obs += f" You can open {place}."
    elif parsed["kind"] == "open":
        env._closed[place] = False
    elif parsed["kind"] == "close":
        env._closed[place] = True
    return obs, won, over
