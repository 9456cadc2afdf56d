# needs: align-echo[inspect]
"""Two games of ALFWorld as a task of inspect_ai. Its mock model plays: it knows the way in the first one.

With a model of your own: `inspect eval align_echo/episodes -T env=alfworld -T tasks=6 --model openai/gpt-4.1-mini`.
"""

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

import align_echo
from align_echo.loops.inspect import episodes

SPLIT = "valid_unseen"
KNOWN = "valid_unseen/look_at_obj_in_light-Newspaper-None-DeskLamp-215/trial_G1_001"
SCRIPT = ["go to sidetable 1", "take newspaper 2 from sidetable 1", "use desklamp 1"]
TASKS = [KNOWN, align_echo.tasks("alfworld", split=SPLIT)[0]]


def answer(messages, tools, tool_choice, config):
    """The mock model's reply: the script's next action in the game that is known; in any other it looks about."""
    turn = sum(message.role == "assistant" for message in messages)
    knows = "newspaper" in messages[1].text and turn < len(SCRIPT)
    output = ModelOutput.from_content("mock", SCRIPT[turn] if knows else "look")
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
print(f"{KNOWN}: won after {len(SCRIPT)} turns; the other was truncated. The log: {log.location}")
