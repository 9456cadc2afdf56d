"""The door of `check.py`: what this Python lacks is said in one line, with status 2, before anything is imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = ("torch", "transformers", "accelerate", "peft", "gymnasium", "pydantic", "pydantic_monty", "openai", "jinja2")


def main() -> int:
    """Measure and print; the exit status."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        where = "make gpu-check PYTHON=..., the interpreter of an environment that has them"
        print(f"gpu-check lacks {', '.join(missing)} in the environment of {sys.executable}: {where}", file=sys.stderr)
        return 2
    from studies.gpu_check.check import main as check

    return check()


if __name__ == "__main__":
    sys.exit(main())
