"""The llm and hybrid backends on a desk that takes JSON calls, with models that know only what their prompts hold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import align_echo
from align_echo.align.hybrid.backend import HybridBackend
from align_echo.align.llm.backend import LlmBackend
from align_echo.align.loop import GenerationResult, TrainingSplit, generate
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.run_folder import RunFolder
from align_echo.align.showing import describe_actions
from align_echo.interface.contract import identity
from align_echo.models import ScriptedModel
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView, Message
from tests.align.room_world import code, operation

STRINGS = {"type": "array", "items": {"type": "string"}}
ORDER = {"type": "string", "description": "The order's id."}


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": [*parameters]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


class OrderDesk(gym.Env[str, str]):
    """Items of an order are cancelled once the order is open."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.order, self.open = f"#W{seed}", False
        return f"The customer of {self.order} wants mug and pen cancelled.", {"goal": "serve the customer"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        try:
            call = json.loads(action)
            name, given = call["name"], call["arguments"]
        except (ValueError, KeyError, TypeError):
            return "Error: no call", 0.0, False, False, {}
        if name == "open_order":
            self.open = given.get("order") == self.order
            return "The order is open." if self.open else "Error: not found", 0.0, False, False, {}
        if not self.open:
            return "Error: open the order first", 0.0, False, False, {}
        done = name == "cancel" and isinstance(given.get("items"), list)
        return "Cancelled." if done else "Error: invalid arguments", float(done), done, False, {}


DESK = align_echo.TextEnvironment(
    OrderDesk,
    splits={"train": range(3), "test": range(3, 5)},
    step_limit=7,
    action_format='{"name": TOOL, "arguments": {...}}',
    tools=(tool("open_order", order=ORDER), tool("cancel", order=ORDER, items=STRINGS)),
).spec("order_desk")


class Clerk:
    """Chats first, opens the order, and then names items in one text until a list of them is spoken of."""

    name = "clerk"

    def act(self, view: AgentView) -> AgentReply:
        order = view.initial_observation.split()[3]
        if not view.turns:
            return AgentReply(text=f"Sure, I will open {order}!", action=None, problem="it holds no call")
        told = view.rules + view.turns[-1].observation
        items: object = ["mug", "pen"] if "list of string" in told else "mug, pen"
        tools = ["open_order", "cancel"]
        call = {"name": tools[len(view.turns) > 1], "arguments": {"order": order, "items": items}}
        return AgentReply(text=f"```json\n{json.dumps(call)}\n```", action=json.dumps(call))


REPEATED = re.compile(r"- x (\d+) in 3 tasks: '(Error: [^']+)'; for example to `(.+?)` \(task (\S+), step (\d+)\)")


class Colleague:
    """A model for every role: it finds a parameter of another type than the tool's schema says, and tries it there."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, messages: Sequence[Message]) -> str:
        system, prompt, last = (messages[index].content for index in (0, 1, -1))
        self.asked.append(last)
        replies = sum(message.role == "assistant" for message in messages)
        if system.startswith("You find out why an agent fails."):
            return [self.propose, self.experiment, self.conclude][min(replies, 2)](system, prompt, last)
        if system.startswith("You write the interface"):
            return self.write(prompt)
        if system.startswith("You check by experiments"):
            return self.check(last) if replies else self.bring_about(prompt)
        return "[]"

    def propose(self, system: str, prompt: str, last: str, support: str = "") -> str:
        kinds = dict(re.findall(r"^  - (\w+): (.+), required", system, re.MULTILINE))
        _, _, action, task, _ = next(iter(REPEATED.findall(prompt)))
        sent = json.loads(action)["arguments"]
        (wrong,) = (name for name, kind in kinds.items() if kind.startswith("list") and isinstance(sent[name], str))
        said = f"{wrong} is a {kinds[wrong]}"
        return (
            f"<misalignments><misalignment><task_id>{task}</task_id><action_type>a call</action_type>"
            f"<action>{action}</action><intent>cancel</intent><rule>{said}</rule>"
            f"<sufficient_feedback>{said}.</sufficient_feedback><kind>new-logic</kind>{support}"
            "</misalignment></misalignments>"
        )

    def experiment(self, system: str, prompt: str, last: str) -> str:
        _, _, action, task, step = next(iter(REPEATED.findall(prompt)))
        call = json.loads(action)
        call["arguments"]["items"] = call["arguments"]["items"].split(", ")
        return "\n".join(
            [
                operation("go_to_failure", f"{task} {step}"),
                operation("execute_agent_action", action),
                operation("execute_agent_action", json.dumps(call)),
            ]
        )

    def conclude(self, system: str, prompt: str, last: str) -> str:
        outcomes = re.findall(r"Experiment (\d+) \(execute_agent_action\):\n.*\nObservation: (.+)", last)
        assert [text for _, text in outcomes] == ["Error: invalid arguments", "Cancelled."]
        numbers = ", ".join(number for number, _ in outcomes)
        return self.propose(system, prompt, last, f"<support>{numbers}</support><refuted></refuted>")

    def write(self, prompt: str) -> str:
        (feedback,) = re.findall(r"sufficient feedback: (.+)", prompt)
        samples = prompt.partition("# What the environment answers there")[2]
        (refusal,) = re.findall(r"^> \{.+\}\nObservation: (.+)", samples, re.MULTILINE)
        return code(
            "def InferRules(init_obs, task):\n    return ''\n\n\n"
            "def WrapStep(env, init_obs, task, agent_action, logger):\n"
            "    obs, reward, done, info = env.step(agent_action)\n"
            f"    if obs == {refusal!r}:\n        obs = obs + {' ' + feedback!r}\n"
            "    return obs, reward, done\n"
        )

    def bring_about(self, prompt: str) -> str:
        ((task, step, action),) = re.findall(r"\(task (\S+), step (\d+), e\.g\. '(.+)'; new-logic\)", prompt)
        return operation("go_to_failure", f"{task} {step}") + operation("execute_agent_action", action)

    def check(self, last: str) -> str:
        assert "Observation: Error: invalid arguments items is a list of string." in last
        return "<resolved>yes</resolved>"


def play(path: Path, colleague: Colleague, *, resume: bool = False) -> GenerationResult:
    model, agent = ScriptedModel(colleague), Clerk()
    backend = LlmBackend(TrainingSplit(DESK), agent, analyzer_model=model, optimizer_model=model)
    return generate(DESK, agent, backend, RunFolder(path), iterations=2, resume=resume)


def test_a_call_of_a_wrong_type_is_found_shown_where_it_failed_and_resolved(tmp_path: Path) -> None:
    colleague = Colleague()
    made = play(tmp_path, colleague)
    assert made.summary.stopped == "no-failures"
    (rule,) = made.interface.provenance.rules
    assert rule.text == "a call: Seen in 1 task, not shown to be a rule: items is a list of string"
    proposal, _, outcomes = colleague.asked[:3]
    assert proposal.count("Error: invalid arguments") < 6, "five refusals in each of three episodes are folded"
    assert "[1] Action: (none could be read; the agent wrote: Sure, I will open #W" in proposal
    assert "no action could be read: it holds no call; for example 'Sure, I will open #W" in proposal
    assert "expert solves" not in proposal
    assert "Step 3 of the failed episode comes next." in outcomes
    assert len(colleague.asked) == 7, "analysis, experiments, conclusion, attack, code, check, verdict"


def test_a_resumed_run_still_knows_where_it_failed(tmp_path: Path) -> None:
    class Stopped(Colleague):
        def write(self, prompt: str) -> str:
            raise KeyboardInterrupt

    try:
        play(tmp_path, Stopped())
    except KeyboardInterrupt:
        made = play(tmp_path, Colleague(), resume=True)
    assert made.summary.stopped == "no-failures"


def propose_claim(messages: Sequence[Message]) -> str:
    """Claim what the tool's schema says of a refused call, with experiments where the agent met the refusal."""
    system, prompt = messages[0].content, messages[1].content
    if not system.startswith("You find out why an agent fails in"):
        return "[]"
    kinds = dict(re.findall(r"^  - (\w+): (.+), required", system, re.MULTILINE))
    ((_, refusal, _, _, step),) = REPEATED.findall(prompt)
    experiments = []
    for task, sent in re.findall(rf"## Task (\S+)\n(?:.+\n)+?\[{step} to .+\] Action: (.+)\n", prompt):
        wrong = json.loads(sent)
        name = next(name for name, kind in kinds.items() if kind == "list of string" and name in wrong["arguments"])
        right = {**wrong, "arguments": {**wrong["arguments"], name: [wrong["arguments"][name]]}}
        experiments += [
            {"task": task, "step": step, "actions": [sent], "sees": refusal},
            {"task": task, "step": step, "actions": [json.dumps(right)], "sees_not": refusal},
        ]
    return json.dumps([{"kind": "claim", "text": f"{name} is a {kinds[name]}", "experiments": experiments}])


def test_hybrid_s_claims_are_tried_where_the_agent_failed() -> None:
    model, notes, tasks = ScriptedModel(propose_claim), list[str](), ["0", "1", "2"]
    failed = run_tasks(lambda: DESK.make("train"), Clerk(), tasks, split="train")
    backend = HybridBackend(
        ProbeBackend(lambda: DESK.make_env(split="train", data_root=None, step_limit=10**6), tasks),
        tasks,
        analyzer_model=model,
        optimizer_model=model,
        action_format=describe_actions(DESK),
        note=notes.append,
    )
    backend.analyze(failed, [], identity(DESK.contract))
    (outcome,) = (note for note in notes if "items is a list of string" in note)
    assert "6 trials for it and 0 against, in 3 tasks" in outcome
