# needs: align-echo[inspect]
"""Two games of ALFWorld as a task of inspect_ai. A model that is scripted plays: it knows the way in the first one.

With a model of your own: `inspect eval align_echo/task -T env=alfworld -T tasks=6 --model openai/gpt-4.1-mini`.
"""

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

import align_echo
from align_echo.loops.inspect import task
from align_echo.types import Trajectory

TASKS = align_echo.tasks("alfworld", split="valid_unseen")[:2]


def way(game: str) -> list[str]:
    """What the environment's own expert does, which sees the hidden state."""
    env = align_echo.make("alfworld", split="valid_unseen")
    env.reset(options={"task": game})
    actions = []
    while (action := env.unwrapped.oracle().expert_action()) is not None:
        actions.append(action)
        env.step(action)
    env.close()
    return actions


actions = iter(way(TASKS[0]))


def answer(messages, tools, tool_choice, config):
    """A reply of the script; whoever has no action left looks about."""
    output = ModelOutput.from_content("script", next(actions, "look"))
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else a tokenizer is downloaded
    return output


(log,) = evaluate(
    task("alfworld", split="valid_unseen", tasks=TASKS, interface="probe", step_limit=30),
    model=get_model("mockllm/model", custom_outputs=answer),
    max_samples=1,
    display="none",
)

assert log.status == "success", log.error
first, second = log.samples
assert first.scores["reward"].value == {"success": 1, "score": 1, "truncated": 0}
assert second.scores["reward"].value == {"success": 0, "score": 0, "truncated": 1}
played = Trajectory.model_validate(first.store["trajectory"])
print(f"{played.goal}: won after {len(played.steps)} turns; the log is {log.location}")
