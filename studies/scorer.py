"""Candidates judged per second, and at which accuracy: `python -m studies.scorer [--tasks 16] [--out FOLDER]`.

One conversation and several proposed actions, judged by the pocket model in one pass (`align_echo.critic.best_of`), and
by the way that GAIA compares: a `generate` call of `transformers` for each candidate, the whole prompt again. Both in
one process, float32, one thread, verdicts compared. Every round has a conversation that was not seen before; with
`warm` the agent has just drawn its candidates from the same engine, as it has where it acts.

Then the critic of one token against the one that reasons (GAIA's table 5): both begin as the pocket model and learn all
weights from the same actions, which the pocket model proposes in `--tasks` training tasks of ALFWorld, and judge the
same actions of tasks of another split, as best-of-N asks. A few minutes of CPU; `--tasks 0` leaves it out, `--out`
keeps it and goes on with what is there. CPU seconds are those of all threads. The last line is one JSON object, of
candidates a second: `baseline` is `generate`, the rest as in `rounds.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from align_echo.cli.main import main as align_echo
from align_echo.critic.best_of import ActionCritic, IntuitiveCritic
from align_echo.critic.calibration import LabelledVerdict, report
from align_echo.critic.labels import Rule
from align_echo.critic.opinion import ReasoningCritic
from align_echo.critic.verdict import VERDICTS, verdict_messages
from align_echo.gaia.examples import ActionExample, balance_examples, read_examples
from align_echo.models import load_model
from align_echo.models.choosing import read_name
from align_echo.models.drawing import draw
from align_echo.models.local import load_local
from align_echo.models.local.chat import LocalModel
from align_echo.types import Message
from studies.rounds import Round, at_least_one, rates

Judge = Callable[[list[Message], Sequence[str]], list[str | None]]

RULE: Rule = "nearer"
SETTINGS = {
    "one token": {"weights": "full", "lr": 3e-4, "epochs": 2},
    "reasoning": {
        **{"weights": "full", "warm_examples": 256, "warm_lr": 1e-3, "lr": 3e-5, "reply_tokens": 48},
        **{"steps": 10, "states": 8, "samples": 8},
    },
}
"""Of `align-echo critic train`."""


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
            verdicts.append(reply if reply in VERDICTS else None)
        return verdicts

    return judge


def at_once(model: LocalModel) -> Judge:
    """What best-of-N does."""
    scorer = IntuitiveCritic(model)
    return lambda chat, actions: [judgement.verdict for judgement in scorer.score(chat, actions)]


def timed(judge: Judge, chat: list[Message], actions: Sequence[str]) -> Round:
    """How long one state takes."""
    begun, busy = time.perf_counter(), time.process_time()
    judge(chat, actions)
    return Round(len(actions), time.perf_counter() - begun, time.process_time() - busy)


# ---------------------------------------------------------------- accuracy


def run(folder: Path, *arguments: object) -> float:
    """A command of align-echo that writes to a folder; the CPU seconds that it took. What is finished is kept."""
    seconds_file = folder.with_suffix(".cpu")
    if (folder / "summary.json").is_file() and seconds_file.is_file():
        return float(seconds_file.read_text())
    begun = time.process_time()
    more = ["--resume"] if (folder / "config.json").is_file() else []
    if status := align_echo([*map(str, arguments), "--out", str(folder), *more]):
        raise SystemExit(status)
    spent = time.process_time() - begun
    seconds_file.write_text(f"{spent:.1f}")
    return spent


def collected(folder: Path, split: str, tasks: int) -> list[ActionExample]:
    """What the pocket model proposes in so many tasks, as many correct as wrong actions."""
    draw_widely = ("--candidates", "4", "--temperature", "1.5", "--top-k", "0", "--top-p", "1")
    play = ("critic", "collect", "--env", "alfworld", "--model", "pocket", *draw_widely)
    run(folder, *play, "--split", split, "--tasks", tasks)
    return balance_examples(read_examples(folder), RULE)


def trained(name: str, folder: Path, examples: Path) -> dict[str, Any]:
    """A critic of a name in `SETTINGS`: its folder, on how many actions it learned and in how many CPU seconds."""
    settings = folder.with_suffix(".yaml")
    settings.write_text(json.dumps(SETTINGS[name]))
    kind = ["--reasoning"] if name == "reasoning" else []
    learn = ("critic", "train", *kind, "--examples", examples, "--rule", RULE, "--held-out", "0", "--config", settings)
    spent = run(folder, *learn)
    summary = json.loads((folder / "summary.json").read_text())
    return {"folder": folder / "critic", "learned_from": summary["learned_from"], "training_cpu_seconds": spent}


def judged(critic: ActionCritic, examples: Sequence[ActionExample]) -> dict[str, Any]:
    """How right a critic is and how long it takes. The actions of a turn are asked about at once."""
    turns = [list(group) for _, group in groupby(examples, key=attrgetter("task_id", "sample", "turn"))]
    critic.score(turns[0][0].messages, [turns[0][0].action])
    clock, cpu = time.perf_counter(), time.process_time()
    scored = (critic.score(turn[0].messages, [example.action for example in turn]) for turn in turns)
    judgements = list(chain.from_iterable(scored))
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    rows = [
        LabelledVerdict(example.task_id, example.action_type, example.label(RULE) or "wrong", judgement.verdict)
        for example, judgement in zip(examples, judgements, strict=True)
    ]
    accuracies = report(rows, 1.0)
    return {
        **accuracies.model_dump(include={"n", "accuracy", "unreadable"}),
        "seconds": clock,
        "cpu_seconds": cpu,
        "right_per_cpu_second": accuracies.accuracy.value / 100 * accuracies.n / cpu,
    }


def accuracy(folder: Path, tasks: int, test_tasks: int) -> dict[str, dict[str, Any]]:
    """Both critics, and the model that they began as, on the same actions, with a table."""
    collected(folder / "collection", "train", tasks)
    test = collected(folder / "test", "valid_seen", test_tasks)
    untrained = {"learned_from": 0, "training_cpu_seconds": 0.0, **judged(IntuitiveCritic(load_model("pocket")), test)}
    rows: dict[str, dict[str, Any]] = {"one token, untrained": untrained}
    for name in SETTINGS:
        made = trained(name, folder / name.replace(" ", "-"), folder / "collection")
        model = load_model(str(made.pop("folder")))
        critic: ActionCritic = IntuitiveCritic(model) if name == "one token" else ReasoningCritic(model, max_tokens=48)
        rows[name] = {**made, **judged(critic, test)}
    print("\n| critic | learned from | its CPU s | n | accuracy | unreadable | s | CPU s | right verdicts per CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        learned = f"{row['learned_from']} | {row['training_cpu_seconds']:.0f}"
        low, high = row["accuracy"]["ci95"]
        right = f"{row['accuracy']['value']:.1f}% [{low:.1f}, {high:.1f}]"
        counts = f"{row['n']} | {right} | {row['unreadable']} | {row['seconds']:.1f}"
        print(f"| {name} | {learned} | {counts} | {row['cpu_seconds']:.1f} | {row['right_per_cpu_second']:.1f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1000, help="of the conversation, about")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--tasks", type=int, default=16, help="that the critics learn from; 0 trains none")
    parser.add_argument("--test-tasks", type=int, default=16, help="that they are tested on")
    parser.add_argument("--out", type=Path, help="folder of collections and critics; default: one that is removed")
    given = parser.parse_args()
    if given.tokens < 100 or given.candidates < 1:
        parser.error("--tokens is at least 100, --candidates at least 1")
    torch.set_num_threads(1)
    model = load_local(read_name("pocket"))
    from transformers import AutoModelForCausalLM

    from align_echo.models.local.loading import pocket_folder

    weights = AutoModelForCausalLM.from_pretrained(str(pocket_folder()), dtype=torch.float32)
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
    if given.tasks:
        with nullcontext(given.out) if given.out else tempfile.TemporaryDirectory() as folder:
            last["critics"] = accuracy(Path(folder), given.tasks, given.test_tasks)
    print(json.dumps(last))


if __name__ == "__main__":
    main()
