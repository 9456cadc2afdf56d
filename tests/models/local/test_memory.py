"""Memory of local models: estimates by hand, the shared limit, and conversations that wait or are read again."""

from __future__ import annotations

import ctypes
import resource
import statistics
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen3ForCausalLM

from align_echo.errors import UsageError
from align_echo.models.local import memory, transformers_engine
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.memory import (
    GIB,
    MIB,
    MemoryPool,
    ModelMemory,
    free_memory,
    learning_activations,
    model_memory,
    parse_size,
)
from align_echo.models.local.row_blocks import BLOCK
from align_echo.models.local.slot_attention import PackedStep, SlotPart
from align_echo.models.local.slot_cache import SlotCache
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import plain_reply
from tests.models.local.tiny import tiny_config, tiny_model

WAIT = 60.0
SMOLLM2 = SimpleNamespace(
    hidden_size=576, num_attention_heads=9, num_key_value_heads=3, head_dim=64, num_hidden_layers=30,
    intermediate_size=1536, vocab_size=49152,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"), [("6GiB", 6 * GIB), ("500 MB", 500_000_000), ("1.5g", 1_500_000_000), ("64MiB", 64 * MIB)]
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["much", "0", "-1GiB", "1 GiB more", "GiB", "600"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match=r"--memory .* is no size"):
        parse_size(text)


def test_estimates_are_those_made_by_hand():
    need = model_memory(SMOLLM2, 134_515_008, weight_bytes=4, context=8192, step_tokens=1024)
    assert need.weights == 538_060_032
    assert need.token == 30 * 2 * 3 * 64 * 4 == 46_080
    assert need.conversation == 46_080 * 8192
    assert need.room(need.fixed + 10 * 46_080) == 10
    layer, logits = 6 * 576 + 2 * 15 * 64 + 4 * 1536, 20 * 2**25
    assert learning_activations(SMOLLM2, 1000, checkpointing=False) == 4 * 1000 * 30 * layer + logits
    assert learning_activations(SMOLLM2, 1000, checkpointing=True) == 4 * 1000 * (30 * 576 + layer) + logits
    assert learning_activations(SMOLLM2, 10, checkpointing=False) == 4 * 10 * 30 * layer + 20 * 10 * 49_152


@pytest.mark.parametrize(("rooms", "words"), [(2, "2 of which fit at once"), (0.5, "which is cut at 2,048 to fit")])
def test_a_line_says_how_many_conversations_fit(rooms, words):
    need = ModelMemory(weights=GIB, activations=MIB, token=1024, context=4096)
    line = need.describe(need.fixed + int(rooms * need.conversation))
    fixed = "weights 1.0 GiB, activations 1 MiB"
    assert line.startswith(f"{fixed}, keys and values 4 MiB for a conversation of 4,096 tokens")
    assert line.endswith(words)


def test_what_cannot_fit_is_refused_and_says_why():
    pool, need = MemoryPool(), ModelMemory(weights=GIB, activations=MIB, token=MIB, context=4096)
    pool.set_limit(2 * GIB)
    with pytest.raises(UsageError, match=r"big does not fit in 2\.0 GiB .*weights 1\.0 GiB.* --memory"):
        pool.check_fit("big", need)
    pool.set_limit(3 * GIB)
    assert pool.check_fit("big", need) == 2 * GIB - MIB
    with pytest.raises(UsageError, match="it needs 2 times"):
        pool.check_fit("big", need, copies=2)
    pool.join(GIB)
    with pytest.raises(UsageError, match=r"beside 1\.0 GiB in use"):
        pool.check_fit("big", need)


def test_models_share_what_is_left_and_give_it_back():
    pool = MemoryPool()
    first: list[int] = []
    second: list[int] = []
    pool.set_limit(100)
    pool.join(20, first.append)
    number = pool.join(30, second.append)
    assert (first, second) == ([80, 25], [25])
    with pool.reserve(10):
        assert (first[-1], second[-1]) == (20, 20)
    pool.leave(number)
    assert first[-1] == 80


def test_the_default_is_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 10 * GIB)
    assert MemoryPool().limit() == 5 * GIB


def test_a_container_leaves_what_it_may_still_take(monkeypatch, tmp_path):
    assert 0 < free_memory() < 2**50
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    for name, text in {"memory.max": "5000", "memory.current": "3000", "memory.stat": "inactive_file 500"}.items():
        (tmp_path / name).write_text(text)
    assert free_memory() == 2500
    (tmp_path / "memory.max").write_text("max")
    assert free_memory() > 2500


# ---------------------------------------------------------------- rows of a cache


def fill(cache: SlotCache, slot: int, tokens: int) -> None:
    """Write tokens whose keys and values are 1."""
    step = PackedStep(cache, [SlotPart(slot, 0, list(range(tokens)))], torch.device("cpu"))
    states = torch.ones(1, 1, tokens, 16)
    with torch.inference_mode():
        for buffer in cache.layer(0, states, states):
            buffer[step.slots, :, step.columns] = states[0].transpose(0, 1)
    step.record()


def test_the_oldest_idle_rows_are_freed_and_hold_zeros_then():
    cache = SlotCache(4, 4096, paged=True, room=5 * BLOCK)
    for slot in range(3):
        assert cache.take(list(range(slot, 200)), "", set())[0] == slot
        fill(cache, slot, 2 * BLOCK)
    cache.free({2: 2 * BLOCK})
    assert cache.lengths.tolist() == [0, 2 * BLOCK, 2 * BLOCK, 0]
    assert cache.used == 4 * BLOCK
    keys, values = cache.layer(0, torch.ones(1, 1, 1, 16), torch.ones(1, 1, 1, 16))
    assert keys[0].abs().sum() == values[0].abs().sum() == 0
    assert keys[1].sum() == 2 * BLOCK * 16
    cache.free({2: BLOCK, 1: 4 * BLOCK})
    assert keys[2].sum() == BLOCK * 16


def test_rows_take_memory_only_where_they_are_written():
    """Peak memory of a process is read from the kernel: 64 rows of 32,768 tokens would be 8 GiB."""
    script = """
import resource, torch
from align_echo.models.local.slot_cache import SlotCache
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
cache, states, before = SlotCache(64, 32768, paged=True), torch.ones(1, 8, 1, 128), peak()
keys, values = cache.layer(0, states, states)
for slot in range(64):
    keys[slot, :, :256] = 1
print(peak() - before, keys.numel() * 4 // 2**20)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    taken, addresses = map(int, out.split())
    assert addresses >= 8192
    assert taken <= 64 + 16  # 64 rows of 256 tokens, of 8 heads of 128 numbers


# ---------------------------------------------------------------- engines within a limit


@pytest.fixture
def pool(monkeypatch) -> MemoryPool:
    made = MemoryPool()
    monkeypatch.setattr(transformers_engine, "POOL", made)
    return made


def bounded(pool: MemoryPool, tokens: int, **options) -> TransformersEngine:
    """An engine with room for so many tokens."""
    model = tiny_model(context=4096)
    need = transformers_engine.engine_memory(model, step_tokens=24)
    pool.set_limit(need.fixed + tokens * need.token)
    return TransformersEngine(model, name="tiny", decode=lambda ids: "", step_tokens=24, **options)


def conversations(count: int, tokens: int = 60) -> list[TokenRequest]:
    return [
        TokenRequest(tuple(range(3 + number, 3 + number + tokens)), SamplingConfig(max_tokens=5, seed=number))
        for number in range(count)
    ]


def watch_rows(engine: TransformersEngine, monkeypatch) -> tuple[list[int], list[int]]:
    """Record how many rows every step has, and how many tokens memory is held for."""
    rows, used, step = [], [], engine._step

    def watched() -> None:
        rows.append(len(engine._rows))
        step()
        used.append(engine._cache.used)

    monkeypatch.setattr(engine, "_step", watched)
    return rows, used


@pytest.mark.parametrize("paged", [True, False])
def test_conversations_that_do_not_fit_wait_and_are_answered_alike(pool, monkeypatch, paged):
    engine = bounded(pool, 1024, slots=32)
    if not paged:
        engine._cache = SlotCache(32, 1024, room=1024)
    rows, used = watch_rows(engine, monkeypatch)
    requests = [*conversations(24), *conversations(3, tokens=240), *conversations(24)]
    replies = [future.result(WAIT) for future in [engine.submit(request) for request in requests]]
    reference = tiny_model(context=4096)
    assert [reply.ids for reply in replies] == [plain_reply(reference, request) for request in requests]
    assert 1 < max(rows) <= 1024 // (BLOCK if paged else 1)
    assert max(used) <= 1024
    engine.close()


def test_a_freed_conversation_goes_on_where_it_was(pool):
    engine, reference = bounded(pool, 1024, slots=8), tiny_model(context=4096)
    first = conversations(1)[0]
    begun = engine.submit(first).result(WAIT)
    for other in conversations(20, tokens=200):
        engine.submit(other).result(WAIT)
    onward = TokenRequest((*first.ids, *begun.ids, 9), SamplingConfig(max_tokens=3, seed=2))
    assert engine.submit(onward).result(WAIT).ids == plain_reply(reference, onward)
    engine.close()


def test_a_context_is_cut_to_what_fits(pool):
    engine = bounded(pool, 2000)
    assert engine.context == 2000
    engine.close()
    assert pool._fixed == {}


def test_a_model_that_does_not_fit_is_refused(pool):
    with pytest.raises(UsageError, match=r"tiny does not fit in .* --memory"):
        bounded(pool, 1000)


MEASURED = """
import torch
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine, engine_memory

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def engine(**sizes):
    model = LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=4, head_dim=64, **sizes))
    model.train(False)
    return TransformersEngine(model, name="measured", decode=lambda ids: "")

def play(running, count, tokens):
    prompts = [tuple((n * 37 + at * 11) % 64 for at in range(tokens)) for n in range(count)]
    for future in [running.submit(TokenRequest(ids, SamplingConfig(max_tokens=8))) for ids in prompts]:
        future.result()

small = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
play(engine(**small, max_position_embeddings=64), 2, 9)
before = status("VmRSS")
running = engine(
    vocab_size=4096, hidden_size=256, intermediate_size=512, num_hidden_layers=6, max_position_embeddings=1024
)
need = engine_memory(running._model)
play(running, 24, 900)
print(status("VmHWM") - before, need.fixed + need.token * 24 * 908)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_of_a_run_is_within_a_quarter_of_the_estimate():
    out = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True).stdout
    measured, estimated = map(int, out.split())
    assert measured == pytest.approx(estimated, rel=0.25)


@pytest.mark.parametrize("own", ["", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_a_users_own_setting_of_the_allocator_stays(own, monkeypatch):
    told: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda what, size: told.append((what, size)))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "linux")
    if own:
        monkeypatch.setenv(own, "131072")
    memory.keep_freed_memory()
    assert bool(told) == (own == "")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library keeps what it wants")
def test_the_logits_of_a_step_lie_where_those_of_the_step_before_did(monkeypatch):
    """64 rows of 49,152 logits are 3,072 pages, which the system would give and take at each step."""
    config = tiny_config()
    config.vocab_size = 49_152
    engine = TransformersEngine(Qwen3ForCausalLM(config), name="wide", decode=lambda ids: "", slots=64)
    pages: list[int] = []
    step = engine._step

    def watched() -> None:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        step()
        pages.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

    monkeypatch.setattr(engine, "_step", watched)
    requests = [TokenRequest((3 + number, 9), SamplingConfig(max_tokens=20, seed=number)) for number in range(64)]
    for future in [engine.submit(request) for request in requests]:
        future.result(WAIT)
    engine.close()
    assert len(pages) >= 20
    assert statistics.median(pages) < 300
