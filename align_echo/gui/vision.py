"""Intuitive critic on screens: a Qwen2.5-VL whose next token is "correct" or "wrong" (GAIA, paper 3).

As `critic/best_of.py` does for text, it returns the logit between the two verdicts, divided by the temperature stored
beside the weights. All candidates of a screen are computed at once, each with its own picture, because the circle
differs: they share no prefix, and each is read in full. The processor of `transformers` needs torchvision and is not
used; its image processor on Pillow is. Not here: other model families, models at endpoints, and training
(`align_echo.gui.learning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from align_echo.critic.best_of import read_calibration
from align_echo.critic.opinion import CriticOpinion, logit
from align_echo.critic.verdict import VERDICTS, Verdict
from align_echo.errors import ReplyFormatError, UsageError
from align_echo.gui.screens import ScreenState, marked, question
from align_echo.models.local.chat import first_differing
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.loading import load_tokenizer, read_checked_files
from align_echo.models.local.weights import read_strange_model, without_bars
from align_echo.registry import with_article
from align_echo.types import Usage
from align_echo.wrappers.gui.actions import GuiAction, parse

FAMILY = "qwen2_5_vl"
AT_ONCE = 8
"""Candidates in one forward pass."""


@dataclass(frozen=True)
class ScreenQuestion:
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
        self._start, self.words = first_differing([chat.plain(word) for word in VERDICTS], VERDICTS)

    def save(self, folder: Path) -> None:
        """Save tokenizer and image processor beside a model's weights."""
        self._tokenizer.save_pretrained(str(folder))
        self._pictures.save_pretrained(str(folder))

    def sight(self, screen: ScreenState, action: GuiAction) -> ScreenQuestion:
        """Encode the question about one action. Raises `UsageError` for a picture that the model cannot take."""
        try:
            picture = self._pictures([marked(screen.screenshot, action)], return_tensors="pt")
        except ValueError as error:
            raise UsageError(f"the model cannot take the screenshot: {error}") from error
        pixels, grid = picture["pixel_values"], picture["image_grid_thw"][0]
        count = int(grid.prod()) // int(self._pictures.merge_size) ** 2
        ahead = (self._around[0], *[self._image] * count, self._around[1])
        return ScreenQuestion(self._chat.opening_after(ahead, question(screen, action)) + self._start, pixels, grid)

    def batch(self, questions: Sequence[ScreenQuestion], device: torch.device) -> dict[str, torch.Tensor]:
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


@torch.no_grad()
def read_verdicts(
    model: Any, encoder: ScreenEncoder, sights: Sequence[ScreenQuestion], device: torch.device
) -> list[tuple[Verdict | None, float]]:
    """Return the most likely verdict (None: another token) and log P(correct) - log P(wrong) for each question, in
    order.
    """
    if not sights:
        return []
    logprobs_BV = next_logits(model, encoder.batch(sights, device)).float().log_softmax(dim=-1)
    verdicts: list[tuple[Verdict | None, float]] = []
    for row_V in logprobs_BV:
        likeliest = int(row_V.argmax())
        verdict = VERDICTS[encoder.words.index(likeliest)] if likeliest in encoder.words else None
        correct, wrong = (float(row_V[word]) for word in encoder.words)
        verdicts.append((verdict, logit(correct, wrong) or 0.0))
    return verdicts


@dataclass(frozen=True)
class VisionScorer:
    """A critic on screens: a model with its encoder, and the temperature of its probabilities."""

    model: Any
    encoder: ScreenEncoder
    temperature: float = 1.0
    at_once: int = AT_ONCE

    def score(self, screen: ScreenState, actions: Sequence[str]) -> list[CriticOpinion]:
        """Judge each action proposed on a screen, in order; a text that is no action gets no verdict.

        Raises `UsageError` for an unusable picture.
        """
        sights: dict[int, ScreenQuestion] = {}
        for index, action in enumerate(actions):
            try:
                sights[index] = self.encoder.sight(screen, parse(action))
            except ReplyFormatError:
                continue
        readable = list(sights)
        opinions = [CriticOpinion(action=action, verdict=None) for action in actions]
        for first in range(0, len(readable), self.at_once):
            part = readable[first : first + self.at_once]
            verdicts = read_verdicts(self.model, self.encoder, [sights[index] for index in part], self.model.device)
            for index, (verdict, between) in zip(part, verdicts, strict=True):
                usage = Usage(prompt_tokens=len(sights[index].ids), completion_tokens=1, cost_usd=None)
                opinion = CriticOpinion(action=actions[index], verdict=verdict, logit=between, usage=usage)
                opinions[index] = opinion.at(self.temperature)
        return opinions


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


def load_scorer(folder: Path) -> VisionScorer:
    """Load the critic of a folder with its calibration, on a GPU if there is one. Raises as `read_vision`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, encoder = read_vision(str(folder), torch.float32 if device == "cpu" else "auto")
    return VisionScorer(model.to(device).eval(), encoder, read_calibration(folder).temperature)
