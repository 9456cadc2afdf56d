"""How surely does the pocket model repeat itself after a refusal, alone and with words that say nothing?

    python -m benchmarks.idle_words [--model pocket] [--games 70]

What it says most likely is the same with idle words as without; how probable that is is what counts when replies are
drawn at temperature 1. Games of `valid_seen` are played at temperature 0 up to the first refusal that is answered with
the same action. From there the refusal is given 1, 2, 4 and 8 times, each with the same words after it, and the model's
probability to repeat the action is read off. Words: none, the shipped placebo, and the other sentences that are in no
demonstration (`benchmarks/pocket/idle_words.py`). One minute; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from statistics import fmean

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import align_echo
from align_echo.agents.vanilla import Vanilla
from align_echo.models import load_model
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.loading import pocket_folder
from align_echo.models.scripted import ScriptedModel
from align_echo.rollout import run_tasks, view_before
from align_echo.types import AgentView
from align_echo.wrappers.catalogue import environment
from benchmarks.pocket.household import REFUSAL
from benchmarks.pocket.idle_words import HELD_OUT

SPLIT, TURNS, WORKERS = "valid_seen", 16, 16
TIMES = (1, 2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pocket", help="pocket, or a folder of another such model")
    parser.add_argument("--games", type=int, default=70)
    given = parser.parse_args()
    model = load_model(given.model)
    if not isinstance(model, LocalModel):
        parser.error("--model is a model on this machine")
    views = stuck_views(model, given.games)
    if not views:
        parser.exit(1, "the model never repeated itself\n")
    print(f"{len(views)} of {given.games} games have a refusal after which the model says the same again")
    print("| words after the refusal | " + " | ".join(f"{times}x" for times in TIMES) + " |")
    print("|---|" + "---|" * len(TIMES))
    folder = pocket_folder() if given.model == "pocket" else given.model
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network.train(False)
    means: list[float] = []
    for words in ("", *HELD_OUT):
        row = [
            fmean(repeats(network, model.encoder, repeated(view, words, times)) for view in views) for times in TIMES
        ]
        means.append(row[0])
        print(f"| {words or 'none'} | " + " | ".join(f"{mean:.3f}" for mean in row) + " |", flush=True)
    value, baseline = means[1], means[0]
    facts = {"name": "repeats with placebo", "value": round(value, 4), "unit": "probability"}
    print(json.dumps({**facts, "baseline": round(baseline, 4), "ratio": round(value / baseline, 4), "n": len(views)}))


def stuck_views(model: LocalModel, games: int) -> list[AgentView]:
    """What the model saw after the first refusal of a game that it answered with the same action."""
    spec = environment("alfworld")
    tasks = align_echo.tasks("alfworld", split=SPLIT)
    played = run_tasks(
        lambda: align_echo.make("alfworld", split=SPLIT, step_limit=TURNS),
        Vanilla(model),
        tasks[:: max(1, len(tasks) // games)][:games],
        split=SPLIT,
        action_format=spec.action_format,
        workers=WORKERS,
    )
    views = []
    for episode in played:
        for number in range(1, len(episode.steps)):
            last = episode.steps[number - 1]
            if last.observation == REFUSAL and last.action == episode.steps[number].action:
                views.append(view_before(episode, number, spec.action_format))
                break
    return views


def repeated(view: AgentView, words: str, times: int) -> AgentView:
    """The view with its last turn so many times, each refused with these words after it."""
    turn = view.turns[-1].model_copy(update={"observation": f"{REFUSAL} {words}".strip(), "tokens": None})
    return view.model_copy(update={"turns": (*view.turns[:-1], *[turn] * times)})


def repeats(network: PreTrainedModel, encoder: ChatEncoder, view: AgentView) -> float:
    """The probability that the model replies to a view what it replied last."""
    messages = Vanilla(ScriptedModel(())).conversation(view)
    reply = next(message.content for message in reversed(messages) if message.role == "assistant")
    opening = encoder.opening(messages)
    answer = [*encoder.plain(reply), encoder.end_id]
    with torch.no_grad():
        logits = network(torch.tensor([[*opening, *answer]])).logits[0, len(opening) - 1 : -1]
    chosen = torch.log_softmax(logits, -1).gather(-1, torch.tensor(answer)[:, None])
    return float(chosen.sum().exp())


if __name__ == "__main__":
    main()
