"""Test a third-party tokenizer in a process with limits before loading it.

Not here: tokenizers without a `tokenizer.json`, which are word tables.
"""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import UsageError
from align_echo.models.local.foreign import run_bounded

_PROBES = (
    *("go to cabinet 1", "a" * 2000, " " * 2000, "\n" * 2000, "1" * 2000, "!" * 2000, "aB" * 1000, "a " * 1000),
    "You see 3 things: a mug, a plate (blue) and Ünïcødé 日本語 😀.\n\tNothing happens!\r\n" * 25,
)
_TOKENS_A_BYTE = 16
_CHARACTERS_A_TOKEN = 1_000


def check_tokenizer(folder: Path) -> None:
    """Refuse a `tokenizer.json` that cannot be read within the limits, or with disproportionate tokens.

    Raises `UsageError` in one line. A folder without one passes.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return
    answers, excess = run_bounded({"task": "encode", "file": str(file.resolve()), "texts": _PROBES})
    if answers and "error" in answers[-1]:
        raise UsageError(f"{file.name} holds no tokenizer that can be used: {answers[-1]['error']}")
    if excess:
        raise UsageError(f"{file.name} cannot be used: to encode short texts, it {excess}")
    for text, answer in zip(_PROBES, answers, strict=True):
        grows = answer["tokens"] > _TOKENS_A_BYTE * len(text.encode())
        if grows or answer["characters"] > _CHARACTERS_A_TOKEN * (answer["tokens"] + 1):
            raise UsageError(f"{file.name} cannot be used: it makes {answer['tokens']:,} tokens of {len(text):,} signs")
