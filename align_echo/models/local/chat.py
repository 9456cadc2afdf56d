"""A local model as a chat model. A conversation's token ids pass from call to call, and only new messages are encoded.

The model's replies enter its next context as the sampled ids, never as text. Messages and the ids of earlier calls
must agree to the token, or the call is refused. Batched questions (`draw`, `choose`) are submitted together, so the
engine computes a shared context only once. Not here: running the model (an `ModelEngine`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import takewhile

from align_echo.base.halting import wait_for_result
from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import ModelEngine, SamplingConfig, TokenReply, TokenRequest
from align_echo.types import Completion, Message, Tokens, Usage, WordChoice


@dataclass(frozen=True)
class LocalModel:
    """A `ChatModel` on an engine. Instances may share an engine and an encoder.

    `top_k`, `top_p` and `stop` are as in `SamplingConfig`. `adapter` names a loaded adapter. `context` limits the
    tokens of a conversation (0: the engine's limit). `weights` distinguishes models of one name (a hash of the files).
    A reply depends only on its context's ids, the settings, `seed` and `sample`.
    """

    engine: ModelEngine
    encoder: ChatEncoder
    top_k: int = 0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    sample: int = 0
    adapter: str = ""
    context: int = 0
    weights: str = ""

    @property
    def name(self) -> str:
        """Name of the engine, with the adapter's name if there is one."""
        return f"{self.engine.name}+{self.adapter}" if self.adapter else self.engine.name

    @property
    def identity(self) -> str:
        """Name and all settings that replies depend on, besides the request and the sample number."""
        settings = f"top_k {self.top_k}, top_p {self.top_p}, stop {list(self.stop)}, context {self.context}"
        return f"{self.name}, weights {self.weights or 'unnamed'}, seed {self.seed}, {settings}"

    def with_sample(self, sample: int) -> LocalModel:
        """Return the model for another draw of the same request."""
        return replace(self, sample=sample)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Generate a reply, with its token ids.

        Raises `ContextOverflowError` if there is no room for a reply, `ModelError` for a fault of the engine,
        `TokenDriftError` if the messages' ids do not match this conversation.
        """
        (reply,) = self.draw(messages, [self.sample], temperature=temperature, max_tokens=max_tokens)
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        """Draw one reply per sample number, with a `ModelError` in place of a failed reply (`models/drawing.py`).

        The context is computed once.
        """
        before, gained = self.encoder.conversation(messages)
        ids = before + gained
        sampling = SamplingConfig(
            temperature=temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            max_tokens=max_tokens,
            stop_ids=self.encoder.stop_ids,
            stop=self.stop,
        )
        seeds = [request_seed(self.seed, sample, ids) for sample in samples]
        replies = self._replies([(ids, replace(sampling, seed=seed)) for seed in seeds])
        tools = bool(messages[0].tools)
        return [
            reply if isinstance(reply, ModelError) else self._completion(before, gained, reply, tools)
            for reply in replies
        ]

    def choose(
        self, conversations: Sequence[Sequence[Message]], words: Sequence[str]
    ) -> list[WordChoice | ModelError]:
        """Compute each word's probability as the next reply of each conversation (`models/drawing.py`), one token
        each.

        Uses the words' first differing tokens, after their common prefix. Shared prefixes of conversations are
        computed once. Raises `UsageError` if these tokens do not distinguish all words or the engine reports no
        probabilities, `TokenDriftError` as `complete` does.
        """
        start, choices = first_differing([self.encoder.plain(word) for word in words], words)
        greedy = SamplingConfig(temperature=0.0, max_tokens=1, choices=choices)
        known = [self.encoder.conversation(messages) for messages in conversations]
        contexts = [before + gained + start for before, gained in known]
        replies = self._replies([(ids, greedy) for ids in contexts])
        return [
            reply if isinstance(reply, ModelError) else self._choice(words, choices, len(ids), reply)
            for ids, reply in zip(contexts, replies, strict=True)
        ]

    def _replies(self, requests: Sequence[tuple[tuple[int, ...], SamplingConfig]]) -> list[TokenReply | ModelError]:
        """Submit all contexts at once and wait for the engine's replies."""
        futures: list[Future[TokenReply]] = []
        try:
            for ids, sampling in requests:
                futures.append(self._begin(ids, sampling))
            return [_ended(future) for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def _begin(self, ids: tuple[int, ...], sampling: SamplingConfig) -> Future[TokenReply]:
        """Submit a context, limiting the reply to the available room. The future carries any `ModelError`."""
        failed: Future[TokenReply] = Future()
        room = (self.context or self.engine.context) - len(ids)
        try:
            if room < 1:
                raise ContextOverflowError(f"{len(ids)} tokens leave no room for a reply in the context of {self.name}")
            fitting = replace(sampling, max_tokens=min(sampling.max_tokens, room))
            return self.engine.submit(TokenRequest(ids, fitting, self.adapter))
        except ModelError as error:
            failed.set_exception(error)
            return failed

    def check_tools(self, tools: str) -> None:
        """Raise `UsageError` if the model's template writes no tools."""
        self.encoder.check_tools(tools)

    def _completion(
        self, before: tuple[int, ...], gained: tuple[int, ...], reply: TokenReply, tools: bool
    ) -> Completion:
        text = self.encoder.text(reply.ids)
        beside, calls = self.encoder.read_calls(text) if tools else (text, [])
        return Completion(
            text=text,
            calls=tuple(calls),
            beside=beside if calls else None,
            finish_reason=reply.finish_reason,
            usage=_usage(len(before) + len(gained), len(reply.ids)),
            tokens=Tokens(start=len(before), context_ids=gained, sampled_ids=reply.ids, logprobs=reply.logprobs),
        )

    def _choice(self, words: Sequence[str], choices: Sequence[int], context: int, reply: TokenReply) -> WordChoice:
        if len(reply.choices) != len(choices):
            raise UsageError(f"{self.engine.name} does not tell how probable given tokens are: use another engine")
        word = dict(zip(choices, words, strict=True)).get(reply.ids[0])
        return WordChoice(said=word, logprobs=reply.choices, usage=_usage(context, 1))


def _ended(future: Future[TokenReply]) -> TokenReply | ModelError:
    try:
        return wait_for_result(future)
    except ModelError as error:
        return error


def first_differing(ids: Sequence[tuple[int, ...]], words: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split the words' token ids into their common prefix and the next token of each word.

    Raises `UsageError` unless the next tokens exist and differ.
    """
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*ids, strict=False)))
    firsts = [choice[shared] for choice in ids if len(choice) > shared]
    if len(set(firsts)) < len(words):
        raise UsageError(f"the first tokens in which {', '.join(words)} differ do not tell them apart: use other words")
    return ids[0][:shared], tuple(firsts)


def request_seed(seed: int, sample: int, ids: Sequence[int]) -> int:
    """Derive the seed of one draw, in [0, 2**63), from the run's seed, the sample number and the full context."""
    text = f"{seed} {sample} {' '.join(map(str, ids))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _usage(prompt: int, completion: int) -> Usage:
    """Count tokens of a local model, which cost nothing."""
    return Usage(prompt_tokens=prompt, completion_tokens=completion, local_tokens=prompt + completion)
