# needs: align-echo[openenv]
"""Two clients of an OpenEnv server play ALFWorld at once.

It starts `align-echo serve openenv` on a free port. One client wins a task by a script, which stands where a policy
would choose; the other looks around until the last turn is taken.
"""

import subprocess
import sys
from pathlib import Path

from align_echo.loops.openenv import EpisodeClient, TextAction

COMMAND = str(Path(sys.executable).with_name("align-echo"))
SERVER = [COMMAND, "serve", "openenv", "--env", "alfworld", "--split", "valid_unseen", "--port", "0"]
TASK = "valid_unseen/look_at_obj_in_light-Newspaper-None-DeskLamp-215/trial_G1_001"
SCRIPT = ["go to sidetable 1", "take newspaper 2 from sidetable 1", "use desklamp 1"]


def play(url: str) -> None:
    """Play the task over two connections, turn by turn."""
    with EpisodeClient(base_url=url).sync() as winner, EpisodeClient(base_url=url).sync() as idler:
        assert "newspaper" in winner.reset(task=TASK).observation.goal
        looked = idler.reset(task=TASK)
        for action in SCRIPT:
            result = winner.step(TextAction(action=action))
            looked = idler.step(TextAction(action="look"))
            print(f"{action}\n{result.observation.text}\nreward {result.reward:g}, done {result.done}\n")
        assert (result.reward, result.done, result.observation.won) == (1.0, True, True)
        assert (result.observation.terminated, result.observation.truncated) == (True, False)
        assert winner.state().step_count == 3
        while not looked.done:
            looked = idler.step(TextAction(action="look"))
        assert (looked.reward, looked.observation.terminated, looked.observation.truncated) == (0.0, False, True)
        print(f"the other client was stopped after {idler.state().step_count} turns")


with subprocess.Popen(SERVER, stdout=subprocess.PIPE, text=True) as server:
    try:
        line = server.stdout.readline()  # "134 valid_unseen tasks of alfworld: http://127.0.0.1:PORT; Ctrl-C ends it"
        assert "http" in line, "the server did not start"
        play(line.partition(": ")[2].partition(";")[0])
    finally:
        server.terminate()
