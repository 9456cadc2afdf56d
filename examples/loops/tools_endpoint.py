# needs: align-echo
"""A model at an OpenAI-compatible endpoint plays ALFWorld by tool calls.

The client is the `openai` package's own. Its endpoint is a script here, which answers as a model would: for a real one
leave `http_client` out, and give `base_url` and a key.
"""

import json

import httpx
from openai import OpenAI

from align_echo.loops.tools import answered, opening, tool_definitions
from align_echo.rollout.session import Session

TASK = "valid_unseen/look_at_obj_in_light-Newspaper-None-DeskLamp-215/trial_G1_001"
SCRIPT = ["go to sidetable 1", "take newspaper 2 from sidetable 1", "use desklamp 1"]


def scripted(request: httpx.Request) -> httpx.Response:
    """What an endpoint would answer: first words without a call, then the script's actions."""
    turn = sum(message["role"] == "assistant" for message in json.loads(request.content)["messages"])
    message = {"role": "assistant", "content": "I will look for a newspaper."}
    if turn:
        call = {"name": "act", "arguments": json.dumps({"action": SCRIPT[turn - 1]})}
        message = {**message, "tool_calls": [{"id": f"call{turn}", "type": "function", "function": call}]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    answer = {"id": "a", "object": "chat.completion", "created": 0, "model": "script", "choices": [choice]}
    return httpx.Response(200, json=answer)


client = OpenAI(api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(scripted)))
with Session.open("alfworld", split="valid_unseen", interface="probe", agent="my loop") as session:
    messages = [{"role": "user", "content": opening(session.reset(TASK))}]
    while not session.over:
        asked = client.chat.completions.create(model="script", messages=messages, tools=tool_definitions(session))
        messages += answered(session, asked.choices[0].message)
    trajectory = session.trajectory()

for message in messages:
    print(f"{message['role']}: {message.get('content')}\n")
assert (trajectory.won, trajectory.score, trajectory.terminated) == (True, 1.0, True)
assert [step.action for step in trajectory.steps] == [None, *SCRIPT]
assert "it was won" in messages[-1]["content"]
