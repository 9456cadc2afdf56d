# needs: align-echo[verifiers]
"""Two games of ALFWorld as an environment of verifiers, on this machine alone. `pip install '.[verifiers]'`"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import verifiers.v1 as vf
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig

import align_echo
from align_echo.agents.privileged import expert
from align_echo.loops.verifiers import EpisodesEnv, EpisodesHarness, EpisodesTaskset
from align_echo.rollout import run_episode

__all__ = ["EpisodesEnv", "EpisodesHarness", "EpisodesTaskset"]  # by these verifiers knows this file as an environment
