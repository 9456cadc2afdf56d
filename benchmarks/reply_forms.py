"""What reading replies strictly changes, on replies that ALIGN's public code sent to ALFWorld as they were.

Its repository holds logs of its runs without an interface. Each reply in them is read as the vanilla agent reads it: as
the text that was sent, as another action (without a label, a fence, words around it), or as none, which align-echo
answers with what is wrong with the reply. Beside it stands how many of those ALFWorld had answered "Nothing happens.".
Nothing is played.

    git clone https://github.com/THUNLP-MT/ALIGN
    python -m benchmarks.reply_forms ALIGN
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from align_echo.agents.parsing import parse_action
from align_echo.errors import ReplyFormatError
from align_echo.intervals import ratio
from align_echo.types import AgentView, Turn
from align_echo.wrappers.alfworld.spec import ACTION_FORMAT, is_invalid

LOGS = {
    "Qwen2.5-7B": "baseline_vanilla",
    "Qwen2.5-14B": "Qwen2.514BInstruct_vanilla_baseline",
    "Llama3.1-8B": "Llama31_8BInstruct_vanilla_baseline",
    "Llama3.3-70B": "Llama33_70BInstruct_vanilla_baseline",
}
_ENTRY = re.compile(r"^INFO - (Task|Agent Action|Observation): ", re.MULTILINE)


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path, help="A clone of ALIGN's public code.")
    folder = parser.parse_args().repository / "alfworld" / "logs"
    for model, name in LOGS.items():
        episodes = [count_readings(file) for file in sorted((folder / name).glob("*.log"))]
        if not episodes:
            raise SystemExit(f"{folder / name} holds no logs")
        turns = [float(sum(counts.values())) for counts in episodes]
        shares = []
        for kind in ("another action", "no action"):
            share = ratio([float(counts[kind, True] + counts[kind, False]) for counts in episodes], turns)
            refused = sum(counts[kind, True] for counts in episodes)
            shares.append(
                f"{kind} {100 * share.value:.1f}% {share.scaled(100).interval(0)}, "
                f"{refused} of {sum(counts[kind, True] + counts[kind, False] for counts in episodes)} answered in vain"
            )
        print(f"{model}: {len(episodes)} episodes, {sum(turns):.0f} replies; {'; '.join(shares)}")


def count_readings(file: Path) -> dict[tuple[str, bool], int]:
    """Count the replies of a log by how they are read, and by whether ALFWorld's answer was a refusal."""
    kinds = ("same", "another action", "no action")
    counts = {(kind, refused): 0 for kind in kinds for refused in (True, False)}
    entries = list(read_log(file.read_text(encoding="utf-8")))
    task = next(text for name, text in entries if name == "Task")
    view = AgentView(task_id=file.stem, action_format=ACTION_FORMAT, goal="", rules="", initial_observation=task)
    sent = ""
    for name, text in entries:
        if name == "Agent Action":
            sent = text
        elif name == "Observation":
            try:
                action: str | None = parse_action(sent, view)
            except ReplyFormatError:
                action = None
            kind = "no action" if action is None else "same" if action == sent.strip() else "another action"
            counts[kind, is_invalid(text)] += 1
            turn = Turn(reply=sent, action=action, observation=text)
            view = view.model_copy(update={"turns": (*view.turns, turn)})
    return counts


def read_log(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a log that say what an agent was told, sent and answered."""
    _, *parts = _ENTRY.split(text)
    for name, rest in zip(parts[::2], parts[1::2], strict=True):
        yield name, re.split(r"\nINFO - |\n\Z", rest, maxsplit=1)[0]


if __name__ == "__main__":
    main()
