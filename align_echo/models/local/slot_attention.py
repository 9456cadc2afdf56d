"""Attention of one packed step over a `SlotCache`, as a `transformers` attention function.

A step is one row of N tokens from many conversations, back to back. The model's stock forward pass computes everything
per token; only attention needs each token's position. Supports full and sliding-window causal attention, with soft caps
(Gemma 2) and sinks (gpt-oss). Not supported: position biases and recurrent layers (`check_supported` refuses them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from align_echo.errors import AlignEchoError, UsageError, first_line
from align_echo.models.local.slot_cache import SlotCache
from align_echo.models.local.weights import without_plans

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# ---------------------------------------------------------------- columns that several rows share

CALL = 128
"""Columns read in the time it takes to start one more product."""

WORTH = 0.8
"""Use a table if it reads at most this share of the columns read without one."""


@dataclass(frozen=True)
class PrefixGroup:
    """Rows with equal first columns, by their indices in the step."""

    members: tuple[int, ...]
    columns: int

    @property
    def saved(self) -> int:
        """Number of column reads saved."""
        return (len(self.members) - 1) * self.columns - CALL


@dataclass(frozen=True)
class RowRun:
    """Rows `first` to `end` of a step, in neighbouring slots from `low` on. They read columns `begin` to `columns`."""

    first: int
    end: int
    low: int
    begin: int
    columns: int

    @property
    def read(self) -> int:
        """Number of columns read by all rows together."""
        return (self.end - self.first) * (self.columns - self.begin)

    def joined(self, later: RowRun) -> RowRun:
        """Merge this run with the run right after it."""
        begin, columns = min(self.begin, later.begin), max(self.columns, later.columns)
        return RowRun(self.first, later.end, self.low, begin, columns)

    def select(self, buffer: torch.Tensor) -> torch.Tensor:
        """Select the rows' part of keys or values [S, K, C, D]: [R, K, L, D]."""
        return buffer[self.low : self.low + self.end - self.first, :, self.begin : self.columns]

    def among(self, table: torch.Tensor) -> torch.Tensor:
        """Select the rows' part of a table [B, K, G, W]: [R, K, G, L]."""
        return table[self.first : self.end, ..., self.begin : self.columns]


def families(common: np.ndarray) -> list[PrefixGroup]:
    """Group rows by shared columns to save the most reads; no row is in two groups.

    `common` [B, B]: lower bound of the columns two rows share; symmetric.
    """
    return _families(list(range(len(common))), common.tolist())


def _families(members: list[int], common: list[list[int]]) -> list[PrefixGroup]:
    if len(members) < 2:
        return []
    columns = min(common[members[0]][index] for index in members[1:])
    single_family = PrefixGroup(tuple(members), columns)
    divided: list[PrefixGroup] = []
    left = members
    while left:
        nearer = common[left[0]]
        near = [index for index in left if index == left[0] or nearer[index] > columns + CALL]
        divided += _families(near, common) if len(near) < len(members) else []
        left = [index for index in left if index not in near]
    better = single_family.saved > sum(family.saved for family in divided)
    return ([single_family] if single_family.saved > 0 else []) if better else divided


def runs(slots: Sequence[int], starts: Sequence[int], begins: Sequence[int]) -> list[RowRun]:
    """Group rows in neighbouring slots if that costs less than one more product.

    `starts`: the column of each row's token, `begins`: the first column not covered by a family; [B], in slot order.
    """
    row_runs: list[RowRun] = []
    for index, (slot, start, begin) in enumerate(zip(slots, starts, begins, strict=True)):
        run = RowRun(index, index + 1, slot, begin, start + 1)
        if row_runs and slot == slots[index - 1] + 1:
            joined = row_runs[-1].joined(run)
            if joined.read <= row_runs[-1].read + run.read + CALL:
                row_runs[-1] = joined
                continue
        row_runs.append(run)
    return row_runs


class ScoreTable:
    """Attention plan for the B rows of a step that draw one token each; W columns."""

    def __init__(
        self, starts: Sequence[int], shared: list[PrefixGroup], own: list[RowRun], slots: Sequence[int]
    ) -> None:
        self.rows = len(starts)
        self._own = own
        self._shared = [(_index(family.members), slots[family.members[0]], family.columns) for family in shared]
        width = max(starts) + 1
        at, ends = torch.arange(width), torch.tensor(starts)
        within = torch.zeros(self.rows, dtype=torch.long)
        for family in shared:
            within[list(family.members)] = family.columns
        self._hidden = (at > ends[:, None])[:, None, None]  # [B, 1, 1, W]
        twice = any(run.begin < int(within[run.first : run.end].max()) for run in own)
        self._read_by_family = (at < within[:, None])[:, None, None] if twice else None  # [B, 1, 1, W]

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """Compute the output [B, H, D] for queries [1, H, N, D], the rows' first, over buffers [S, K, C, D]."""
        heads, size = query.shape[1], query.shape[3]
        shared = keys.shape[1]
        scale = size**-0.5 if scaling is None else scaling
        queries = (query[0, :, : self.rows].transpose(0, 1) * scale).reshape(self.rows, shared, heads // shared, size)
        scores = queries.new_empty(*queries.shape[:3], self._hidden.shape[-1])
        for members, slot, columns in self._shared:
            scores[members, ..., :columns] = _met(queries[members], keys[slot, :, :columns].transpose(1, 2))
        for run in self._own:
            run.among(scores)[:] = queries[run.first : run.end] @ run.select(keys).transpose(2, 3)
        weights = scores.masked_fill_(self._hidden, float("-inf")).softmax(-1)
        alone = weights if self._read_by_family is None else weights.masked_fill(self._read_by_family, 0.0)
        out = queries.new_empty(*queries.shape[:3], values.shape[3])
        for run in self._own:
            out[run.first : run.end] = run.among(alone) @ run.select(values)
        for members, slot, columns in self._shared:
            out[members] += _met(weights[members, ..., :columns], values[slot, :, :columns])
        return out.flatten(1, 2)


def _index(members: tuple[int, ...]) -> slice | torch.Tensor:
    """Return an index for rows: a slice, which copies nothing, if they are neighbours."""
    if members == tuple(range(members[0], members[-1] + 1)):
        return slice(members[0], members[-1] + 1)
    return torch.tensor(members)


def _met(rows: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """Multiply the queries of n rows [n, K, G, A] with one slot's buffer [K, A, C]: [n, K, G, C]."""
    count, shared, queries, size = rows.shape
    stacked = rows.transpose(0, 1).reshape(shared, count * queries, size)
    return (stacked @ slot).view(shared, count, queries, -1).transpose(0, 1)


def score_table(slots: Sequence[int], starts: Sequence[int], common: np.ndarray, read: int) -> ScoreTable | None:
    """Build a table for rows in these slots [B], in order, with tokens in columns `starts` [B].

    `common` [B, B]: lower bound of the columns two rows share. Returns None unless it reads far fewer columns than
    `read`.
    """
    least = np.minimum(common, np.minimum.outer(starts, starts))
    shared = families(least)
    begins = [0] * len(slots)
    for family in shared:
        for index in family.members:
            begins[index] = family.columns
    own = runs(slots, starts, begins)
    reads = sum(run.read + CALL for run in own) + sum(family.columns + CALL for family in shared)
    return ScoreTable(starts, shared, own, slots) if reads <= WORTH * read else None


# ---------------------------------------------------------------- attention over slots

NAME = "align_echo_slots"
NO_NUMBERS = "the model's logits are no numbers: its weights are broken, or overflow in this dtype"
MERGED_GAP = 1
"""Maximum number of idle rows between rows computed together."""


@dataclass(frozen=True)
class SlotPart:
    """Tokens of a step in one slot: `ids` [T] from column `start` on."""

    slot: int
    start: int
    ids: tuple[int, ...] | list[int]


@dataclass
class _RowGroup:
    """R rows, `low` to `high`, each with the T query tokens at its own end; L columns."""

    first: int
    end: int
    low: int
    high: int
    tokens: int
    positions: torch.Tensor  # [R, T]; -1 + 1 = 0 for idle rows
    columns: int
    rows: torch.Tensor | None  # [B] indices of the R rows with queries; None: all
    fixed: bool = False  # True: build a mask even if nothing is hidden
    masks: dict[int, torch.Tensor | None] = field(default_factory=dict)

    def mask(self, window: int, dtype: torch.dtype, sharing: int) -> torch.Tensor | None:
        """Return the additive mask of the scores [R, 1, sharing * T, L]: 0 or -inf. None if nothing is hidden.

        `sharing` is the number of query heads per key head.
        """
        if window not in self.masks:
            hidden = _hidden(self.positions, self.columns, window)
            some = self.fixed or bool(hidden.any())
            self.masks[window] = _scores(hidden, dtype, 1 if self.tokens == 1 else sharing) if some else None
        return self.masks[window]


@dataclass
class _PaddedGroup:
    """P parts of up to T tokens, padded at the end with their last; L columns."""

    slots: torch.Tensor  # [P]
    places: torch.Tensor  # [P, T] in the packed row
    positions: torch.Tensor  # [P, T]
    columns: int
    masks: dict[int, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def build(cls, parts: list[SlotPart], firsts: np.ndarray, device: torch.device) -> _PaddedGroup:
        """Build a group. `firsts` [P] are the parts' first positions in the packed row."""
        lengths = np.array([len(part.ids) for part in parts])
        within = np.minimum(np.arange(lengths.max())[None], lengths[:, None] - 1)  # [P, T]
        starts = np.array([part.start for part in parts])
        slots, places, positions = (
            torch.from_numpy(values).to(device)
            for values in (np.array([part.slot for part in parts]), firsts[:, None] + within, starts[:, None] + within)
        )
        return cls(slots, places, positions, int((starts + lengths).max()))

    def mask(self, window: int, dtype: torch.dtype, sharing: int) -> torch.Tensor:
        """Return the additive mask of the scores [P, 1, sharing * T, L]: 0 or -inf, for `sharing` query heads per key
        head.
        """
        if window not in self.masks:
            self.masks[window] = _scores(_hidden(self.positions, self.columns, window), dtype, sharing)
        return self.masks[window]


def _hidden(positions: torch.Tensor, columns: int, window: int) -> torch.Tensor:
    """Mark the columns hidden from the tokens at these positions [R, T]: [R, T, L]."""
    at = torch.arange(columns, device=positions.device)
    hidden = at > positions[..., None]
    if window:
        hidden |= at <= positions[..., None] - window
    return hidden


def _scores(hidden: torch.Tensor, dtype: torch.dtype, sharing: int) -> torch.Tensor:
    """Convert hidden flags [R, T, L] to an additive mask [R, 1, sharing * T, L]: -inf if hidden, else 0."""
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))
    return mask[:, None] if sharing == 1 else mask[:, None].repeat(1, 1, sharing, 1)


class PackedStep:
    """Positions of the N tokens of a step. `parts` with one token come first, in slot order.

    `together`: attend for longer parts of similar length at once, padded, to save GPU launches. A CPU computes each
    part alone, without copies.
    """

    def __init__(
        self, cache: SlotCache, parts: list[SlotPart], device: torch.device, *, together: bool | None = None
    ) -> None:
        self.cache = cache
        ids = np.array([token for part in parts for token in part.ids], dtype=np.int64)
        slots = np.repeat([part.slot for part in parts], [len(part.ids) for part in parts]).astype(np.int64)
        columns = np.concatenate([np.arange(part.start, part.start + len(part.ids)) for part in parts])
        cache.reserve(int(columns.max()) + 1)
        starts = np.array([part.start for part in parts])
        cache.hold(np.array([part.slot for part in parts]), starts, starts + [len(part.ids) for part in parts])
        self.ids, self.columns, self.slots = (torch.from_numpy(values).to(device) for values in (ids, columns, slots))
        self._written = (slots, columns, ids)
        self.groups = _groups(parts, device, device.type == "cuda" if together is None else together)
        self.table = _table(cache, parts, self.groups) if device.type == "cpu" else None

    def record(self) -> None:
        """Record the new tokens in the cache; call it only after the forward pass through all layers."""
        self.cache.wrote(*self._written)


class FixedStep:
    """A step where slots 0 to R draw one token each over L columns, whatever they hold.

    Its tensors are reused; `take` fills in the values. Idle slots write into the spare column.
    """

    def __init__(self, cache: SlotCache, rows: int, columns: int, device: torch.device) -> None:
        self.cache = cache
        self.rows = self.slots = torch.arange(rows, device=device)
        self.ids, self.columns, self._positions = (torch.zeros(rows, dtype=torch.long, device=device) for _ in range(3))
        self.groups: list[_RowGroup | _PaddedGroup] = [
            _RowGroup(0, rows, 0, rows, 1, self._positions[:, None], columns, None, fixed=True)
        ]
        self.table: ScoreTable | None = None
        self._written = (np.zeros(0, dtype=np.int64),) * 3

    def take(self, parts: Sequence[SlotPart]) -> None:
        """Fill in these parts, of one token each."""
        slots, starts, ids = np.array([(part.slot, part.start, part.ids[0]) for part in parts], dtype=np.int64).T
        self._written = (slots, starts, ids)
        values = np.zeros((3, len(self.rows)), dtype=np.int64)  # idle slots: token 0 at position 0,
        values[1] = self.cache.columns  # written into the spare column
        values[:, slots] = ids, starts, starts
        for tensor, row in zip((self.ids, self.columns, self._positions), torch.from_numpy(values), strict=True):
            tensor.copy_(row)

    def record(self) -> None:
        """Record the new tokens in the cache."""
        self.cache.wrote(*self._written)


def _groups(parts: list[SlotPart], device: torch.device, together: bool) -> list[_RowGroup | _PaddedGroup]:
    """Group single tokens of neighbouring rows; keep longer parts alone, or group them by similar length."""
    single = [part for part in parts if len(part.ids) == 1]
    groups: list[_RowGroup | _PaddedGroup] = []
    group_start = 0
    for index in range(1, len(single) + 1):
        if index == len(single) or single[index].slot - single[index - 1].slot > MERGED_GAP + 1:
            groups.append(_rows(single[group_start:index], group_start, device))
            group_start = index
    first, long = len(single), parts[len(single) :]
    if together and len(long) > 1:
        return [*groups, *_padded(long, first, device)]
    for part in long:
        tokens, end = len(part.ids), part.start + len(part.ids)
        positions = torch.arange(part.start, end, device=device)[None]
        groups.append(_RowGroup(first, first + tokens, part.slot, part.slot + 1, tokens, positions, end, None))
        first += tokens
    return groups


def _table(cache: SlotCache, parts: list[SlotPart], groups: list[_RowGroup | _PaddedGroup]) -> ScoreTable | None:
    """Build the table for single tokens if rows share columns or differ in length; None: use groups."""
    single = [part for part in parts if len(part.ids) == 1]
    if len(single) < 2:
        return None
    slots, starts = [part.slot for part in single], [part.start for part in single]
    of_rows = [group for group in groups if isinstance(group, _RowGroup) and group.tokens == 1]
    read = sum((group.high - group.low) * group.columns for group in of_rows)
    return score_table(slots, starts, cache.common(slots), read)


def _padded(parts: list[SlotPart], first: int, device: torch.device) -> list[_PaddedGroup]:
    """Group parts by length, none twice as long as another. Their tokens start at `first` in the packed row."""
    firsts = np.cumsum([first, *(len(part.ids) for part in parts)])
    order = sorted(range(len(parts)), key=lambda index: len(parts[index].ids))
    divided: list[list[int]] = []
    for index in order:
        if not divided or len(parts[index].ids) > 2 * len(parts[divided[-1][0]].ids):
            divided.append([])
        divided[-1].append(index)
    return [_PaddedGroup.build([parts[index] for index in group], firsts[group], device) for group in divided]


def _rows(parts: list[SlotPart], first: int, device: torch.device) -> _RowGroup:
    low, high = parts[0].slot, parts[-1].slot + 1
    rows = [part.slot - low for part in parts]
    positions = np.zeros(high - low, dtype=np.int64)
    positions[rows] = [part.start for part in parts]
    return _RowGroup(
        first=first,
        end=first + len(parts),
        low=low,
        high=high,
        tokens=1,
        positions=torch.from_numpy(positions).to(device)[:, None],
        columns=int(positions.max()) + 1,
        rows=None if len(parts) == high - low else torch.tensor(rows, device=device),
    )


@dataclass(frozen=True)
class _Product:
    """How scores become weights: their scale, a soft cap, and sinks [H] that take a part of each head's weight."""

    scaling: float | None
    softcap: float | None
    sinks: torch.Tensor | None

    @property
    def is_plain(self) -> bool:
        """Whether torch computes it at once."""
        return self.softcap is None and self.sinks is None

    def attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Attend with queries [B, K, Q, D], Q those of each head with these keys, to keys and values [B, K, C, D]."""
        if self.is_plain:
            return scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=self.scaling)
        scale = queries.shape[-1] ** -0.5 if self.scaling is None else self.scaling
        scores = queries @ keys.transpose(-1, -2) * scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if mask is not None:
            scores = scores + mask
        if self.sinks is not None:
            sinks = self.sinks.reshape(1, keys.shape[1], -1, 1)  # [1, K, H / K, 1]
            sinks = sinks.repeat_interleave(queries.shape[2] // sinks.shape[2], dim=2).expand(len(scores), -1, -1, 1)
            scores = torch.cat([scores, sinks.to(scores.dtype)], dim=-1)
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
        return weights[..., : keys.shape[2]] @ values


def slot_attention(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, H, N, D]
    key: torch.Tensor,  # [1, K, N, D]
    value: torch.Tensor,  # [1, K, N, D]
    attention_mask: torch.Tensor | None,
    *,
    packed_step: PackedStep | FixedStep,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **unused: object,
) -> tuple[torch.Tensor, None]:
    """Write the new keys and values and attend: [1, N, H, D]. Called by the model's layers."""
    if position_bias is not None:
        raise UsageError("attention with position biases is not supported")
    product = _Product(scaling, softcap, s_aux)
    keys, values = packed_step.cache.layer(int(module.layer_idx), key, value)  # type: ignore[arg-type]
    keys[packed_step.slots, :, packed_step.columns] = key[0].transpose(0, 1)
    values[packed_step.slots, :, packed_step.columns] = value[0].transpose(0, 1)
    window = sliding_window or 0
    table = packed_step.table if not window and query.dtype == torch.float32 and product.is_plain else None
    if table and table.rows == query.shape[2]:
        return table.attend(query, keys, values, scaling)[None], None
    first = packed_step.groups[0]
    if len(packed_step.groups) == 1 and isinstance(first, _RowGroup):
        return _attend(first, query, keys, values, product, window)[None].contiguous(), None
    out = query.new_empty(query.shape[2], query.shape[1], value.shape[3])  # [N, H, D]
    if table:
        out[: table.rows] = table.attend(query, keys, values, scaling)
    for group in packed_step.groups:
        if table and isinstance(group, _RowGroup) and group.end <= table.rows:
            continue
        if isinstance(group, _PaddedGroup):
            out[group.places.flatten()] = _attend_padded(group, query, keys, values, product, window)
        else:
            out[group.first : group.end] = _attend(group, query, keys, values, product, window)
    return out[None], None


def _attend(
    group: _RowGroup, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, product: _Product, window: int
) -> torch.Tensor:
    """Compute the group's part of the output, [tokens of the group, H, D]."""
    _, heads, _, size = query.shape
    shared = keys.shape[1]
    rows, tokens = group.high - group.low, group.tokens
    if tokens == 1:
        queries = query[0, :, group.first : group.end].transpose(0, 1)  # [B, H, D]
        if group.rows is not None:
            queries = queries.new_zeros(rows, heads, size).index_copy_(0, group.rows, queries)
    else:
        queries = query[:, :, group.first : group.end]  # [1, H, T, D]
    # Treat heads with shared keys as queries of one head, so no keys are repeated.
    out = product.attend(
        queries.reshape(rows, shared, heads // shared * tokens, size),
        keys[group.low : group.high, :, : group.columns],
        values[group.low : group.high, :, : group.columns],
        group.mask(window, query.dtype, heads // shared),
    ).reshape(rows, heads, tokens, -1)
    if tokens > 1:
        return out[0].transpose(0, 1)
    return out[:, :, 0] if group.rows is None else out[group.rows, :, 0]


def _attend_padded(
    group: _PaddedGroup,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    product: _Product,
    window: int,
) -> torch.Tensor:
    """Compute the output at the group's positions, including padding: [P * T, H, D]."""
    heads, shared = query.shape[1], keys.shape[1]
    count, tokens = group.places.shape
    queries = query[0][:, group.places].transpose(0, 1)  # [P, H, T, D]
    out = product.attend(
        queries.reshape(count, shared, heads // shared * tokens, -1),
        keys[:, :, : group.columns].index_select(0, group.slots),
        values[:, :, : group.columns].index_select(0, group.slots),
        group.mask(window, query.dtype, heads // shared),
    )
    return out.reshape(count, heads, tokens, -1).transpose(1, 2).flatten(0, 1)


# ---------------------------------------------------------------- models


_STRANGE = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
"""Errors of models whose code is not as this attention needs it."""


def use_slots(model: PreTrainedModel) -> str:
    """Switch the model to attention over slots. Return the name of its previous attention.

    The model is tested first: a few tokens in three steps must give the same output as its own attention in one.
    Raises `UsageError`, with the model unchanged, if they differ.
    """
    check_supported(model)
    without_plans()
    own = str(model.config._attn_implementation)
    try:
        _try_slots(model)
    except BaseException as error:
        model.set_attn_implementation(own)
        if isinstance(error, (AlignEchoError, torch.OutOfMemoryError)) or not isinstance(error, _STRANGE):
            raise
        is_deaf = isinstance(error, TypeError) and "packed_step" in str(error)  # StableLM, Nemotron
        why = "its layers pass no keywords on to its attention" if is_deaf else first_line(error)
        raise UsageError(f"{type(model).__name__} is not supported here ({why}): serve it with vllm") from None
    return own


def _try_slots(model: PreTrainedModel) -> None:
    from transformers import AttentionInterface

    with torch.inference_mode():
        ids = torch.arange(12, device=model.device) % model.config.get_text_config().vocab_size
        wanted = model(input_ids=ids[None], use_cache=False).logits[0].float()  # [12, V]
        if not bool(torch.isfinite(wanted).all()):
            raise UsageError(NO_NUMBERS)
        AttentionInterface.register(NAME, slot_attention)
        model.set_attn_implementation(NAME)
        cache = SlotCache(slots=2, context=16)
        outputs = []
        for first, end in ((0, 7), (7, 11), (11, 12)):
            step = PackedStep(cache, [SlotPart(1, first, ids[first:end].tolist())], model.device)
            outputs.append(forward(model, step, torch.arange(end - first, device=model.device)).float())
    tolerance = 1e-3 if model.dtype == torch.float32 else 5e-2
    gap = float((torch.cat(outputs) - wanted).abs().max())
    if not gap <= tolerance * (1 + float(wanted.abs().max())):
        raise UsageError(f"the attention of {type(model).__name__} is of a kind not supported here: serve it with vllm")


def check_supported(model: PreTrainedModel) -> None:
    """Raise `UsageError` for kinds of attention that `slot_attention` does not compute."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    rope = getattr(config, "rope_parameters", None) or {}
    stretched = {"dynamic", "longrope"} & {rope.get("rope_type", "")}
    if kinds or stretched:
        named = ", ".join(sorted(kinds | stretched))
        raise UsageError(f"{type(model).__name__} is not supported here ({named}): serve it with vllm")


def forward(model: PreTrainedModel, step: PackedStep | FixedStep, wanted: torch.Tensor) -> torch.Tensor:
    """Run one step through the model. Return the logits [W, V] at the positions `wanted` [W] of the packed row."""
    for group in step.groups:
        group.masks.clear()
    out = model(
        input_ids=step.ids[None],
        position_ids=step.columns[None],
        use_cache=False,
        logits_to_keep=wanted,
        packed_step=step,
    )
    step.record()
    logits: torch.Tensor = out.logits[0]
    return logits
