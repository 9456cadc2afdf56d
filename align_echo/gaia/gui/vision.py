"""Intuitive critic on screens: a Qwen2.5-VL whose next token is "correct" or "wrong" (GAIA, paper 3).

It is asked as critics of text are (`critic/ask.py`). All candidates of a screen are computed at once, each with its own
picture, because the circle differs: they share no prefix, and each is read in full. The processor of `transformers`
needs torchvision and is not used; its image processor on Pillow is. Not here: other model families, models at
endpoints, and training (`align_echo.gaia.gui.learning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from align_echo.critic.ask import WORDS, Critic, read_calibration
from align_echo.errors import ModelError, ReplyFormatError, UsageError
from align_echo.gaia.gui.screens import ScreenMessage, ScreenState, marked, question
from align_echo.models.local.chat import first_differing
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.loading import load_tokenizer, read_checked_files
from align_echo.models.local.weights import read_strange_model, without_bars
from align_echo.registry import with_article
from align_echo.types import Completion, Message, Usage, WordChoice
from align_echo.wrappers.gui.actions import GuiAction, parse

FAMILY = "qwen2_5_vl"
AT_ONCE = 8
"""Candidates in one forward pass."""


@dataclass(frozen=True)
class EncodedScreen:
    """An encoded question: `ids` [T] end before the verdicts differ; the picture is `pixels` [P, D] with `grid` [3]."""

    ids: tuple[int, ...]
    pixels: torch.Tensor
    grid: torch.Tensor


class ScreenEncoder:
    """Encodes screens and questions for a Qwen2.5-VL: the picture, then the text, in one user message.

    `config` is the model's own, with the ids of picture tokens. Raises `UsageError` if the tokenizer cannot be used,
    or does not distinguish the verdicts.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, pictures: Qwen2VLImageProcessorPil, config: Any) -> None:
        chat = ChatEncoder(tokenizer)
        self._tokenizer, self._chat, self._pictures = tokenizer, chat, pictures
        self._around = (int(config.vision_start_token_id), int(config.vision_end_token_id))
        self._image = int(config.image_token_id)
        self._start, self.words = first_differing([chat.plain(word) for word in WORDS], WORDS)

    def save(self, folder: Path) -> None:
        """Save tokenizer and image processor beside a model's weights."""
        self._tokenizer.save_pretrained(str(folder))
        self._pictures.save_pretrained(str(folder))

    def sight(self, screen: ScreenState, action: GuiAction) -> EncodedScreen:
        """Encode the question about one action. Raises `UsageError` for a picture that the model cannot take."""
        try:
            picture = self._pictures([marked(screen.screenshot, action)], return_tensors="pt")
        except ValueError as error:
            raise UsageError(f"the model cannot take the screenshot: {error}") from error
        pixels, grid = picture["pixel_values"], picture["image_grid_thw"][0]
        count = int(grid.prod()) // int(self._pictures.merge_size) ** 2
        ahead = (self._around[0], *[self._image] * count, self._around[1])
        return EncodedScreen(self._chat.opening_after(ahead, question(screen, action)) + self._start, pixels, grid)

    def batch(self, questions: Sequence[EncodedScreen], device: torch.device) -> dict[str, torch.Tensor]:
        """Build the model's arguments for B questions; shorter ones are padded on the left, so that all end together.
        """
        longest = max(len(encoded.ids) for encoded in questions)
        ids_BT = torch.zeros((len(questions), longest), dtype=torch.long)
        mask_BT = torch.zeros_like(ids_BT)
        for row, encoded in enumerate(questions):
            ids_BT[row, longest - len(encoded.ids) :] = torch.tensor(encoded.ids)
            mask_BT[row, longest - len(encoded.ids) :] = 1
        tensors = {
            "input_ids": ids_BT,
            "attention_mask": mask_BT,
            "mm_token_type_ids": ((ids_BT == self._image) & (mask_BT == 1)).int(),
            "pixel_values": torch.cat([encoded.pixels for encoded in questions]),
            "image_grid_thw": torch.stack([encoded.grid for encoded in questions]),
        }
        return {name: values.to(device) for name, values in tensors.items()}


def next_logits(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Compute the logits after each question [B, V], with gradient."""
    logits: torch.Tensor = model(**batch, logits_to_keep=1, use_cache=False).logits[:, -1]
    return logits


@dataclass(frozen=True)
class ScreenModel:
    """A model that sees, with its encoder: asked by `ScreenQuestion` (`critic/ask.py`), in one word."""

    model: Any
    encoder: ScreenEncoder
    at_once: int = AT_ONCE
    name: str = FAMILY

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 1) -> Completion:
        """Raise `UsageError`: such a model says one word."""
        raise UsageError("a critic on screens says one word and writes no reply")

    @torch.no_grad()
    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Return the likeliest verdict (None: another token) on each `ScreenMessage`, and the words' log-probabilities.

        A proposal that is no action has no verdict. Raises `UsageError` for an unusable picture.
        """
        sights: dict[int, EncodedScreen] = {}
        for index, (message,) in enumerate(conversations):
            if not isinstance(message, ScreenMessage):
                raise UsageError("a critic on screens is asked about an action on a screen")
            with suppress(ReplyFormatError):
                sights[index] = self.encoder.sight(message.screen, parse(message.content))
        choices: list[WordChoice | ModelError] = [WordChoice(said=None) for _ in conversations]
        readable = list(sights)
        for first in range(0, len(readable), self.at_once):
            part = readable[first : first + self.at_once]
            batch = self.encoder.batch([sights[index] for index in part], self.model.device)
            logprobs_BV = next_logits(self.model, batch).float().log_softmax(dim=-1)
            for index, row_V in zip(part, logprobs_BV, strict=True):
                likeliest = int(row_V.argmax())
                choices[index] = WordChoice(
                    said=words[self.encoder.words.index(likeliest)] if likeliest in self.encoder.words else None,
                    logprobs=tuple(float(row_V[word]) for word in self.encoder.words),
                    usage=Usage(
                        prompt_tokens=len(sights[index].ids),
                        completion_tokens=1,
                        local_tokens=len(sights[index].ids) + 1,
                    ),
                )
        return choices


def read_vision(source: str, dtype: torch.dtype | str = torch.float32) -> tuple[Any, ScreenEncoder]:
    """Load the model of a folder or hub name, and its encoder. Raises `UsageError` or `MissingDataError` for an
    unusable model.
    """
    without_bars()
    config = read_checked_files(source, lambda: AutoConfig.from_pretrained(source, trust_remote_code=False))
    if config.model_type != FAMILY:
        raise UsageError(f"{source} holds {with_article(config.model_type)}, which sees no screens: name a Qwen2.5-VL")
    pictures = read_checked_files(source, lambda: Qwen2VLImageProcessorPil.from_pretrained(source))
    tokenizer = load_tokenizer(source)
    encoder = ScreenEncoder(tokenizer, pictures, config)
    return read_checked_files(
        source, lambda: read_strange_model(Qwen2_5_VLForConditionalGeneration, source, dtype)
    ), encoder


def load_critic(folder: Path) -> Critic:
    """Load the critic of a folder with its calibration, on a GPU if there is one. Raises as `read_vision`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, encoder = read_vision(str(folder), torch.float32 if device == "cpu" else "auto")
    return Critic(ScreenModel(model.to(device).eval(), encoder), read_calibration(folder).temperature)
