"""Most tokens of a reply by role: from an option's text, else from the endpoint's entry in the user's file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import get_args

from align_echo.errors import UsageError, did_you_mean
from align_echo.models.choosing import ModelName
from align_echo.models.endpoint import LEAST_TOKENS, ReplyTokens, Role

ROLES: tuple[Role, ...] = get_args(Role)
PLAYING: tuple[Role, ...] = ("agent",)
JUDGED: tuple[Role, ...] = ("agent", "judge")
_WRITES = " that writes"
_FORM = "write a number, or one by role: agent=512,analyzer=8192"


def read_reply_tokens(text: str | int | None, roles: Collection[Role] = PLAYING) -> ReplyTokens:
    """Read "512", which is for all but a judge, or "agent=512,judge=1024". `roles` are those of the run.

    Raises `UsageError`.
    """
    if text is None:
        return {}
    if str(text).strip().removeprefix("-").isdecimal():
        return dict.fromkeys([role for role in roles if role != "judge"], _enough(str(text)))
    tokens: ReplyTokens = {}
    for part in str(text).split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        role = next((role for role in ROLES if role == name), None)
        if role is None or role in tokens:
            known = f"{did_you_mean(name, ROLES)}the roles are {', '.join(ROLES)}, each once"
            raise UsageError(f"--max-tokens {text}: {known if name else _FORM}")
        if role not in roles:
            raise UsageError(f"--max-tokens {text}: this run asks no {role}{_WRITES * (role == 'judge')}: leave it out")
        tokens[role] = _enough(number)
    return tokens


def _enough(number: str) -> int:
    if not number.strip().removeprefix("-").isdecimal():
        raise UsageError(f"--max-tokens: {number!r} is no number of tokens: {_FORM}")
    if int(number) < LEAST_TOKENS:
        raise UsageError(f"--max-tokens: must be at least {LEAST_TOKENS}, not {number}")
    return int(number)


def find_reply_tokens(tokens: ReplyTokens, role: Role, model: ModelName | None) -> int | None:
    """Return the most tokens of a reply in a role: as asked for, else as the model or its endpoint is set up in the
    user's file, else None.
    """
    return tokens.get(role) or (model.reply_tokens(role) if model else None)


def with_reply_tokens(model: ModelName, role: Role, tokens: ReplyTokens) -> ModelName:
    """Return the name of a model that is asked in one role, with its most tokens of a reply."""
    return replace(model, max_tokens=tokens[role]) if role in tokens else model
