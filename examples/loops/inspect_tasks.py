# needs: align-echo[inspect]
"""Two games of ALFWorld as a task of inspect_ai. Its mock model plays: it knows the way in the first one.

With a model of your own: `inspect eval align_echo/episodes -T env=alfworld -T tasks=6 --model openai/gpt-4.1-mini`.
"""

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

import align_echo
from align_echo.agents.privileged import expert
from align_echo.loops.inspect import episodes
from align_echo.rollout import run_episode

SPLIT = "valid_unseen"
TASKS = align_echo.tasks("alfworld", split=SPLIT)[:2]


def make():
    return align_echo.make("alfworld", split=SPLIT)


known = run_episode(make(), expert(make), TASKS[0], split=SPLIT)  # the expert sees the hidden state


def answer(messages, tools, tool_choice, config):
    """The mock model's reply: the expert's next action in the game that is known; in any other it looks about."""
    turn = sum(message.role == "assistant" for message in messages)
    knows = known.initial_observation in messages[1].text and turn < len(known.steps)
    output = ModelOutput.from_content("mock", known.actions[turn] if knows else "look")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else a tokenizer is downloaded
    return output


(log,) = evaluate(
    episodes("alfworld", split=SPLIT, tasks=TASKS, interface="probe", step_limit=30),
    model=get_model("mockllm/model", custom_outputs=answer),
    display="none",
)

assert log.status == "success", log.error
won, truncated = sorted(log.samples, key=lambda sample: TASKS.index(sample.id))
assert won.scores["reward"].value == {"success": 1, "score": 1, "truncated": 0}
assert truncated.scores["reward"].value == {"success": 0, "score": 0, "truncated": 1}
print(f"{known.goal} Won after {len(known.steps)} turns; the other was truncated. The log: {log.location}")
