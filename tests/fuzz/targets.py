"""Every reader of text that somebody else wrote: what it may raise, what it is seeded with, what its result must be.

A target is called with one text. It may raise the errors that it names and nothing else; `check` says of a result what
is wrong with it, "" if nothing is.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from align_echo.agents.parsing import as_offered, forms_in, parse_action, parse_reasoned_action, visible_text
from align_echo.agents.reasoning import parse_plan, parse_sub_goal
from align_echo.agents.reasoning import parse_verdict as parse_refine_verdict
from align_echo.align.hybrid.reading import parse_hypotheses
from align_echo.align.llm.replies import (
    parse_analyzer_move,
    parse_checker_move,
    parse_choice,
    parse_code,
    parse_findings,
)
from align_echo.base.commands import LONGEST_COMMAND, build_skeleton, commands_in, split_sentences
from align_echo.base.jsonl import JsonlFile
from align_echo.base.plain_yaml import braced, json_lines, json_object, parse_json, read_plain
from align_echo.critic.ask import parse_reasoned_verdict, parse_verdict, read_calibration
from align_echo.critic.language import TAGS, Critique, parse_critique, plain
from align_echo.errors import (
    InterfaceError,
    MissingDataError,
    ReplyFormatError,
    UsageError,
    conceal,
    printable,
    redacted,
)
from align_echo.interface.contract import InterfaceContract, identity, load_interface
from align_echo.interface.sandbox.session import EngineReply, Sandbox
from align_echo.interface.sandbox.source import prepare
from align_echo.interface.sharing import FORMAT, canonical_hash, read_shared
from align_echo.models.answers import RefusedAnswer, read_body
from align_echo.models.client import PassingFault
from align_echo.rollout.episode_files import describe_damage, read_episodes
from align_echo.train.config import TrainConfig
from align_echo.types import AgentView, Trajectory
from align_echo.wrappers.gui.actions import parse as parse_gui
from align_echo.wrappers.gui.actions import write as write_gui
from align_echo.wrappers.m3tooleval.env import read_turn
from align_echo.wrappers.mathematics.verifier import extract_answer
from align_echo.wrappers.searchqa.protocol import answer as answer_search
from align_echo.wrappers.searchqa.protocol import read_reply
from align_echo.wrappers.searchqa.spec import parse_action as parse_search
from align_echo.wrappers.webshop.pages import parse_action as parse_shop

KEY = "sk-planted-3f9a77c1"
"""Stands where keys do in seeds of what redacts."""

LONGEST_ERROR = 15_000
"""Characters: an error goes back to the model."""

VIEW = AgentView(
    task_id="1",
    action_format="look | go to {room} | put OBJ in OBJ | search[{words}]\nOBJ is a thing.",
    goal="put a Mug 1 in the Sink",
    rules="",
    initial_observation="You are in the Kitchen. You see a Mug 1.",
)
TASKS = ("train/1", "train/2")
CONTRACT = InterfaceContract(
    environment="alfworld",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="batched",
)


@dataclass(frozen=True)
class Target:
    """`read` is given a text; `seeds` are texts that it reads, from which others are made."""

    name: str
    read: Callable[[str], Any]
    seeds: tuple[str, ...]
    allowed: tuple[type[Exception], ...] = ()
    check: Callable[[str, Any], str] = lambda text, result: ""


def problem(target: Target, text: str) -> str:
    """What is wrong with how a target takes a text; "" if nothing is."""
    try:
        result = target.read(text)
    except target.allowed as error:
        message = str(error)
        return "" if len(message) < LONGEST_ERROR else f"an error of more than {LONGEST_ERROR} characters"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return target.check(text, result)


# ---------------------------------------------------------------- what results must be


def _one_line(text: str, action: str) -> str:
    return "" if action.strip() and len(action.splitlines()) == 1 else f"an action that is no line: {action!r}"


def _critique(text: str, critique: Critique) -> str:
    if not critique.reason or len(critique.suggestions) > 2:
        return f"no critique: {critique!r}"
    inner = plain(critique.reason)
    return "" if inner == critique.reason or "&lt;" in text else "a reason with tags of ours in it"


def _commands(text: str, commands: Any) -> str:
    long = [command.text for command in commands if not 0 < len(command.text) <= LONGEST_COMMAND]
    return f"a command of {len(long[0])} characters" if long else ""


def _joined(text: str, pieces: list[str]) -> str:
    return "" if "".join(pieces) == text else "the sentences do not make up the text again"


def _within(text: str, parts: list[str]) -> str:
    return "" if all(part in text for part in parts) else "what is no part of the text"


def _harmless(text: str, shown: str) -> str:
    bad = [letter for letter in shown if not (letter.isprintable() or letter in "\n\t")]
    return f"a control character gets through: {bad[0]!r}" if bad else ""


def _without_key(text: str, shown: str) -> str:
    return "the key gets through" if KEY in shown else ""


def _untagged(text: str, shown: str) -> str:
    tag = re.search(rf"</?(?:{'|'.join(TAGS)})\b", shown, re.IGNORECASE)
    return f"a tag gets through: {tag[0]!r}" if tag else ""


def _gui(text: str, action: Any) -> str:
    return "" if parse_gui(write_gui(action)) == action else "it is not what it is written as"


def _redacted(text: str) -> str:
    conceal(KEY)
    return redacted(text)


# ---------------------------------------------------------------- files


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="align-echo-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _in_file(name: str, read: Callable[[Path], Any], text: str) -> Any:
    file = _folder() / name
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    return read(file)


def _damaged(file: Path) -> str:
    damaged: list[Any] = []
    list(read_episodes(file, damaged))
    return "\n".join(describe_damage(damaged))


def _archive(text: str) -> Any:
    """A file whose content is what the text says, with the hash that fits it: what is behind the hash is read too."""
    try:
        content = parse_json(text)
        text = json.dumps(
            {"format": FORMAT, "format_version": 1, "sha256": canonical_hash(content), "content": content}
        )
    except (ValueError, RecursionError):
        pass
    return _in_file("archive.json", read_shared, text)


def _with_record(text: str) -> Any:
    (_folder() / "interface.py").write_text(_SOURCE)
    _in_file("interface.json", lambda file: None, text)
    return load_interface(_folder() / "interface.py")


def _calibration(text: str) -> Any:
    return _in_file("calibration.json", lambda file: read_calibration(file.parent), text)


def _config(text: str) -> Any:
    from align_echo.base.plain_yaml import yaml_mapping

    try:
        return TrainConfig.model_validate(yaml_mapping(text, "job.yaml"))
    except ValueError as error:  # pydantic's own error is one
        raise UsageError(str(error)[:200]) from error


def _through(text: str) -> str:
    """What comes out of the sandbox where a text goes in as observation, action and the engine's answer."""
    with contextlib.closing(_SMALL.open(prepare(_ECHOING, CONTRACT), CONTRACT, text, text, _answered)) as session:
        rules, returned = session.infer_rules(), session.wrap_step(text)
        session.take_log(0)
    return rules if rules == returned.observation else f"{rules}{returned.observation}"


def _answered(action: str) -> EngineReply:
    return EngineReply(action, 0.0, False, False, 0.0)


def _same(text: str, result: str) -> str:
    return "" if result == text[: _SMALL.text] else f"another text comes out: {result[:80]!r}"


_SMALL = Sandbox(seconds=1.0, memory=16 * 2**20)
_ECHOING = """\
def InferRules(init_obs, task):
    return init_obs


def WrapStep(env, init_obs, task, agent_action, logger):
    logger.info(agent_action)
    obs, reward, done, info = env.step([agent_action])
    return obs[0], False, False
"""
_SOURCE = identity(CONTRACT).source
_TRAJECTORY = Trajectory(
    environment="alfworld", split="train", task_id="train/1", task_type="pick", agent="novice", interface="none",
    seed=0, goal="put", initial_observation="You are here.",
).model_dump_json()  # fmt: skip
_SHARED = json.dumps(
    {
        "name": "mine",
        "environment": "alfworld",
        "games": "",
        "source": _SOURCE,
        "contract": CONTRACT.model_dump(mode="json"),
        "provenance": identity(CONTRACT).provenance.model_dump(mode="json"),
        "hints": [],
        "versions": {},
    }
)
_RECORD = json.dumps(
    {
        "contract": CONTRACT.model_dump(mode="json"),
        "provenance": identity(CONTRACT).provenance.model_dump(mode="json"),
        "hints": [],
    }
)

# ---------------------------------------------------------------- seeds

_ACTIONS = (
    "Thought: I need the mug.\nAction: go to kitchen",
    "<think>hm</think>\n**Action:** `put mug 1 in sink`\nObservation: done",
    "<action>search[red shoes]</action>",
    '{"thought": "x", "action": "look"}',
    "1. **Action 1:** go to the Kitchen.\n```\nlook\n```",
    "> Action:\n> look",
)
_FINDING = """\
<misalignments>
<misalignment><task_id>train/1</task_id><action_type>put</action_type><action>put a in b</action><intent>to put</intent>
<rule>needs b open</rule><sufficient_feedback>open it first</sufficient_feedback><kind>new-logic</kind>
<support>1</support></misalignment>
</misalignments>"""
_MOVES = (
    _FINDING,
    "<operation>run_task</operation><argument>train/1</argument>",
    "<operation>step(action='look')</operation>",
    '<operation>{"operation": "step", "argument": "look"}</operation>',
    "<resolved>no</resolved><unresolved>1, 2</unresolved><refinement>check first</refinement>",
    "<misalignments>none</misalignments>",
)
_HYPOTHESES = (
    '<hypotheses>[{"kind": "needs", "action": "put {0} in {1}", "step": "open {1}"}]</hypotheses>',
    '[{"kind": "instead", "wrong": "grab {a}", "right": "take {a}"}, {"kind": "claim", "text": "x", "experiments": '
    '[{"task": "train/1", "actions": ["look"], "sees": "a"}]}]',
    '{"hypotheses": [{"type": "no_effect", "action": "open {0}", "after": "open {0}"}]}',
    "none",
)
_ECHO = (
    "<reason>It never opened the drawer.</reason>\n<suggestions>\n- open drawer 1 first\n2) then look\n</suggestions>",
    "<think>hm</think><reason>x</reason><suggestions>none</suggestions>",
)
_ICRL = ("Mistake: it never looked\nNext time: look\nNext time: **open** it", "Mistake: x\nNext time: none")
_MESSAGES = (
    "Nothing happens. `take apple 1 from shelf 1` does not work yet: you need to `go to shelf 1` first.",
    'You must "open the drawer" before that; try: open drawer 1 instead, e.g. with **use key**.',
    "Do not <action>look</action>, say __open it__ instead.",
    "Hint: you should first take the lamp, then use it. It is 'already' closed (see \u201copen X\u201d).",
)
_BODY = json.dumps(
    {
        "choices": [
            {
                "message": {"content": [{"type": "text", "text": "look"}], "refusal": None},
                "finish_reason": "stop",
                "logprobs": {"content": [{"token": "a", "logprob": -0.1, "top_logprobs": []}]},
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": "4"},
    }
)
_YAML = (
    "method: grpo\nsteps: 3\ncollecting: {tasks: 2, samples: 4}\nlist: [1, 2.5, yes, ~]\n",
    "a: &x {b: 1}\nc: *x\n",
)
_INTERFACE_CODE = (
    _SOURCE,
    "import json\nclass A(object):\n    @staticmethod\n    def f(x):\n        return x\n\n\n"
    "def InferRules(init_obs, task):\n    return ''\n\n\n"
    "def WrapStep(env, init_obs, task, agent_action, logger):\n    InferRules.n = 1\n    del task\n"
    "    raise ValueError('a', 1)\n",
)
_SECRETS = (
    f"Authorization: Bearer {KEY}\nhttp://me:{KEY}@host/v1?api_key={KEY}&x=1",
    f'{{"api-key": "{KEY}", "token=": "{KEY}"}} authorization={KEY}',
)
_REPLY = (ReplyFormatError,)
_FILE = (UsageError,)

_ALL = (
    Target("action", parse_action, _ACTIONS, _REPLY, _one_line),
    Target("action, with forms", lambda text: parse_action(text, VIEW), _ACTIONS, _REPLY, _one_line),
    Target("reasoned action", lambda text: parse_reasoned_action(text, VIEW), _ACTIONS, _REPLY, _one_line),
    Target("thoughts", visible_text, _ACTIONS, _REPLY),
    Target("forms of an environment", forms_in, ("look | go to {room} | put OBJ in <b>x</b>\nOBJ is a thing",)),
    Target("offered action", lambda text: as_offered(text, ["look", "go to a", "search[b]"]), ("Go to the a.",)),
    Target("plan", parse_plan, ("Plan:\n1. look\n2. go\nSub-goal: 1\nAction: look",), _REPLY),
    Target("sub-goal", parse_sub_goal, ("Plan:\n1. look\nSub-goal: 1\nAction: look",), _REPLY),
    Target("refinement's verdict", parse_refine_verdict, ("It is wrong.\nVerdict: change", "Verdict: keep"), _REPLY),
    Target("findings", lambda text: parse_findings(text, TASKS), _MOVES, _REPLY),
    Target("analyzer's move", lambda text: parse_analyzer_move(text, TASKS, (), True), _MOVES, _REPLY),
    Target("checker's move", lambda text: parse_checker_move(text, (), True, 2), _MOVES, _REPLY),
    Target("choice", lambda text: parse_choice(text, 3), ("<choice>Analysis #2</choice>",), _REPLY),
    Target("code", parse_code, (f"<code>\n```python\n{_SOURCE}```\n</code>", f"~~~\n{_SOURCE}~~~"), _REPLY),
    Target("hypotheses", lambda text: parse_hypotheses(text, TASKS), _HYPOTHESES, _REPLY),
    Target("verdict", parse_verdict, ("Correct.", "wrong"), _REPLY),
    Target("reasoned verdict", parse_reasoned_verdict, ("Reason: it is open\n**Verdict:** correct",), _REPLY),
    Target("critique, echo", parse_critique, _ECHO, _REPLY, _critique),
    Target("critique, icrl", partial(parse_critique, form="icrl"), _ICRL, _REPLY),
    Target("text for a critic", plain, ("a < b </ Task > <response>x</response> <  /feedback",), (), _untagged),
    Target("action on a screen", parse_gui, ('click(12, 34)', 'type("h\\u00e9")', 'scroll(1, 2, "up")'), _REPLY, _gui),
    Target("commands", commands_in, _MESSAGES, (), _commands),
    Target("sentences", split_sentences, _MESSAGES, (), _joined),
    Target("skeleton", lambda text: build_skeleton(text, ["apple 1", "shelf 1"]), _MESSAGES),
    Target("braces", lambda text: braced(text, r"\boxed"), (r"so \boxed{\frac{1}{2}} or \boxed{3}",), (), _within),
    Target("box", extract_answer, (r"so \boxed{1 \frac{1}{2}}", r"\boxed{x^{2} + 3,000}"), _REPLY),
    Target("search or answer", parse_search, ("<search>who is</search>", "<answer>a</answer>")),
    Target("shop's action", parse_shop, ("search[red shoes]", "click[buy now]")),
    Target(
        "tool call",
        lambda text: [read_turn(text, as_json=form).canonical(as_json=form) for form in (True, False)],
        ('Action: {"tool": "a", "args": [1, "b", {"c": []}]} End Action', "Answer: 3", "Action: a, 1 End Action"),
    ),
    Target("search server's question", lambda text: answer_search(text.encode("utf-8", "surrogatepass"), lambda *_: []),
           ('{"queries": ["a"], "topk": 3, "return_scores": true}',), (UsageError,)),
    Target("search server's answer", lambda text: read_reply(text, 3), (
        '{"result": [[{"document": {"contents": "\\"T\\"\\nx"}, "score": 1.5}]]}',), (ValueError,)),
    Target("endpoint's body", read_body, (_BODY,), (PassingFault, RefusedAnswer)),
    Target("endpoint's body, all of it", lambda text: _all_of(text), (_BODY,), (PassingFault, RefusedAnswer)),
    Target("yaml", lambda text: read_plain(text, "f.yaml"), _YAML, _FILE),
    Target("config", _config, _YAML, _FILE),
    Target("lines of records", partial(_in_file, "r.jsonl", lambda file: JsonlFile(file).read(Trajectory)),
           (f"{_TRAJECTORY}\n{_TRAJECTORY}\n",), _FILE),
    Target("lines of objects", partial(_in_file, "o.jsonl", json_lines), ('{"a": 1}\n{"b": [2]}\n',), _FILE),
    Target("an object", partial(_in_file, "c.json", json_object), ('{"command": "evaluate", "tasks": ["a"]}',)),
    Target("damaged episodes", partial(_in_file, "e.jsonl", _damaged), (f"{_TRAJECTORY}\n{_TRAJECTORY}\n",), (),
           _harmless),
    Target("calibration", _calibration, ('{"temperature": 1.5, "before": 0.2}',), (UsageError, MissingDataError)),
    Target("interface's record", _with_record, (_RECORD,), (InterfaceError,)),
    Target("archive", _archive, (_SHARED,), (UsageError, InterfaceError)),
    Target("interface's source", lambda text: prepare(text, CONTRACT), _INTERFACE_CODE, (InterfaceError,)),
    Target("code in the sandbox", lambda text: _SMALL.check(text, CONTRACT), (*_INTERFACE_CODE, _ECHOING),
           (InterfaceError,)),
    Target("text through the sandbox", _through, ("go to \u00e9 \U0001f600", "a\x1b[2J\x00\x1e\x1f\r\n"),
           (InterfaceError,), _same),
    Target("for the terminal", printable, ("a\x1b[2Jb\u202ec\x00\r\n\td\u2028",), (), _harmless),
    Target("without keys", _redacted, _SECRETS, (), _without_key),
)  # fmt: skip
TARGETS = {target.name: target for target in _ALL}
"""By name."""


def _all_of(text: str) -> Any:
    body = read_body(text)
    choices = range(len(body.choices))
    return body.spent, [(body.text(n), body.finish_reason(n), body.withheld(n)) for n in choices], body.first_tokens()
