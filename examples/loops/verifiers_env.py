# needs: align-echo[verifiers]
"""Two games of ALFWorld as an environment of verifiers, on this machine alone: `pip install '.[verifiers]'`.

A script stands for the model, behind an endpoint like OpenAI's: it knows the way in the first game.
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig

import align_echo
from align_echo.loops.verifiers import EpisodesEnv, EpisodesHarness, EpisodesTaskset

__all__ = ["EpisodesEnv", "EpisodesHarness", "EpisodesTaskset"]  # for verifiers this file is the environment

SPLIT = "valid_unseen"
KNOWN = "valid_unseen/look_at_obj_in_light-Newspaper-None-DeskLamp-215/trial_G1_001"
SCRIPT = ["go to sidetable 1", "take newspaper 2 from sidetable 1", "use desklamp 1"]
TASKS = [KNOWN, align_echo.tasks("alfworld", split=SPLIT)[0]]


def serve():
    """The endpoint: the script's next action in the game that is known; in any other it looks about."""

    class Script(BaseHTTPRequestHandler):
        def do_POST(self):
            messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
            turn = sum(message["role"] == "assistant" for message in messages)
            knows = "newspaper" in messages[1]["content"] and turn < len(SCRIPT)
            message = {"role": "assistant", "content": SCRIPT[turn] if knows else "look"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            choices = [{"index": 0, "finish_reason": "stop", "message": message}]
            about = {"id": "1", "object": "chat.completion", "created": 0, "model": "script"}
            body = json.dumps({**about, "choices": choices, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


if __name__ == "__main__":
    played = {"env": "alfworld", "split": SPLIT, "tasks": TASKS, "interface": "probe", "step_limit": 30}
    config = {
        "env": {"taskset": {"id": "verifiers_env", **played}},
        "model": "script",
        "client": {"base_url": serve(), "api_key_var": "NO_KEY"},
        "push": False,
        "rich": None,
    }
    won, truncated = asyncio.run(run_eval(EvalConfig.model_validate(config)))
    assert won.ok and truncated.ok, [*won.errors, *truncated.errors]  # noqa: PT018
    assert (won.traces[0].reward, won.traces[0].info["end"]) == (1.0, "won")
    assert (truncated.traces[0].reward, truncated.traces[0].info["end"]) == (0.0, "truncated")
    print(f"{KNOWN}: won after {won.traces[0].num_turns} turns; the other was truncated.")
