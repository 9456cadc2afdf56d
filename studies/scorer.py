"""Candidates judged per second: `python -m studies.scorer [--rounds N]`.

One conversation and several proposed actions, judged by the pocket model in one pass (`align_echo.critic.ask`), and
by the way that GAIA compares: a `generate` call of `transformers` for each candidate, the whole prompt again. Both in
one process, float32, one thread, verdicts compared. Every round has a conversation that was not seen before; with
`warm` the agent has just drawn its candidates from the same engine, as it has where it acts.

The last line is one JSON object, of candidates a second: `baseline` is `generate`, the rest as in `rounds.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from align_echo.critic.ask import WORDS, ActionQuestion, Critic, ask, verdict_messages
from align_echo.models.drawing import draw
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.loading import run_pocket
from align_echo.types import Message
from studies.pocket_model import pocket_model
from studies.rounds import Round, at_least_one, rates

Judge = Callable[[list[Message], Sequence[str]], list[str | None]]

def conversation(model: LocalModel, tokens: int, number: int) -> list[Message]:
    """An agent's chat of about so many tokens, unlike those of other numbers from its first line on."""
    chat = [Message(role="system", content=f"Household {number}. Answer one action a turn.")]
    turn = 0
    while len(model.encoder.opening(chat)) < tokens:
        turn += 1
        seen = f"You arrive at shelf {turn}. On the shelf {turn}, you see a mug {number}, and a book {turn}."
        chat.append(Message(role="user", content=seen))
        chat.append(Message(role="assistant", content=f"go to shelf {turn + 1}"))
    return [*chat, Message(role="user", content="Nothing happens.")]


def one_by_one(model: LocalModel, weights: Any) -> Judge:
    """A `generate` call for each candidate, greedy, until the verdict is written."""

    def judge(chat: list[Message], actions: Sequence[str]) -> list[str | None]:
        verdicts: list[str | None] = []
        for action in actions:
            ids = torch.tensor([model.encoder.opening(verdict_messages(chat, action))])
            with torch.inference_mode():
                made = weights.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
            reply = model.encoder.text(made[0, ids.shape[1] :].tolist()).strip()
            verdicts.append(reply if reply in WORDS else None)
        return verdicts

    return judge


def at_once(model: LocalModel) -> Judge:
    """What best-of-N does."""
    scorer = Critic(model)
    return lambda chat, actions: [
        verdict.label for verdict in ask(scorer, [ActionQuestion(chat, action) for action in actions])
    ]


def timed(judge: Judge, chat: list[Message], actions: Sequence[str]) -> Round:
    """How long one state takes."""
    begun, busy = time.perf_counter(), time.process_time()
    judge(chat, actions)
    return Round(len(actions), time.perf_counter() - begun, time.process_time() - busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1000, help="of the conversation, about")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--rounds", type=at_least_one, default=5)
    given = parser.parse_args()
    if given.tokens < 100 or given.candidates < 1:
        parser.error("--tokens is at least 100, --candidates at least 1")
    torch.set_num_threads(1)
    model = run_pocket()
    weights = pocket_model()[0]
    actions = [f"take mug {number} from shelf {number + 1}" for number in range(given.candidates)]
    arms = {"generate": one_by_one(model, weights), "scorer": at_once(model), "scorer, warm": at_once(model)}
    rounds_of: dict[str, list[Round]] = {name: [] for name in arms}
    alike = total = 0
    for number in range(given.rounds + 1):
        for index, (name, judge) in enumerate(arms.items()):
            chat = conversation(model, given.tokens, 10 * number + index)
            if name == "scorer, warm":
                draw(model, chat, range(given.candidates), temperature=1.0, max_tokens=8)
            spent = timed(judge, chat, actions)
            if number:  # the first round warms up
                rounds_of[name].append(spent)
        same = conversation(model, given.tokens, 10 * number + 9)
        pairs = zip(arms["generate"](same, actions), arms["scorer"](same, actions), strict=True)
        hits = [verdict == other for verdict, other in pairs]
        alike, total = alike + sum(hits), total + len(hits)
    compared = {name: rates(rounds, rounds_of["generate"]) for name, rounds in rounds_of.items()}
    print("| way | candidates/s | ratio | ratio a CPU s |\n|---|---|---|---|")
    for name, row in compared.items():
        low, high = row["interval"]
        print(f"| {name} | {row['value']:.1f} | {row['ratio']:.2f} [{low:.2f}, {high:.2f}] | {row['cpu_ratio']:.2f} |")
    print(f"\nverdicts alike: {alike} of {total}")
    last = {"name": f"candidates judged, {given.tokens}-token prompt", "unit": "candidates/s", **compared["scorer"]}
    last |= {"n": given.rounds * given.candidates, "alike": [alike, total], "warm": compared["scorer, warm"]}
    print(json.dumps(last))


if __name__ == "__main__":
    main()
