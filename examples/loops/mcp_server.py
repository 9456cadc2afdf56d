# needs: align-echo[mcp]
"""A client of the Model Context Protocol plays ALFWorld.

It starts `align-echo serve mcp` as a coding agent does, lists the tasks, and plays one to its end. A script stands
where the agent's model would choose.
"""

import asyncio
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

COMMAND = str(Path(sys.executable).with_name("align-echo"))
SERVER = StdioServerParameters(command=COMMAND, args=["serve", "mcp", "--env", "alfworld", "--split", "valid_unseen"])
TASK = "valid_unseen/look_at_obj_in_light-Newspaper-None-DeskLamp-215/trial_G1_001"
SCRIPT = ["go to sidetable 1", "take newspaper 2 from sidetable 1", "use desklamp 1"]


async def play() -> None:
    """Play the task and say what came of each action."""
    async with Client(SERVER) as client:

        async def call(tool: str, **arguments: object) -> str:
            result = await client.call_tool(tool, arguments)
            text = result.content[0].text
            print(f"{tool} {arguments}\n{text}\n")
            assert not result.is_error, text
            return text

        assert {tool.name for tool in (await client.list_tools()).tools} == {"list_tasks", "reset", "act"}
        assert TASK in await call("list_tasks", count=100)
        assert "newspaper" in await call("reset", task=TASK)
        for action in SCRIPT:
            answer = await call("act", action=action)
        assert answer.endswith("The episode is over: it was won; its score is 1 of 1.")
        refused = await client.call_tool("act", {"action": "look"})
        assert refused.is_error
        assert "call reset(task)" in refused.content[0].text


asyncio.run(play())
