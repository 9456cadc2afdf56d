"""Making a pocket model from nothing, at toy size: it serves, its card says what it is, and it can be made again."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from align_echo.errors import UsageError
from align_echo.models import load_model
from align_echo.train.sft import SftSettings
from align_echo.types import Message
from studies.pocket import corpus
from studies.pocket.build import LaterStage, PocketSettings, build
from studies.pocket.corpus import digest, make_part, read_part

TOY = PocketSettings(
    parts={"glances": 1, "household": 1, "shopping": 1},
    vocabulary=600, hidden=64, layers=2, heads=4, key_value_heads=2, head=16, feed_forward=32,
    training=SftSettings(epochs=0.5, bf16=False, save_every=1000),
    later=(
        LaterStage(parts={"remarks": 1, "shopping": 1}, training=SftSettings(bf16=False, save_every=1000)),
        LaterStage(parts={"shopping": 1}, training=SftSettings(bf16=False, save_every=1000)),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def small_parts():
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("GLANCES_A_PART", 10), ("GAMES_A_PART", 1), ("SHOPPING_A_PART", 4)):
            patch.setattr(corpus, name, size)
        yield


@pytest.fixture(scope="module")
def made(small_parts, tmp_path_factory):
    return build(TOY, tmp_path_factory.mktemp("pocket"))


@pytest.mark.long
def test_its_folder_serves_as_any_other_model(made):
    model = load_model(f"transformers:{made}")
    reply = model.complete([Message(role="user", content="go")], temperature=0.0, max_tokens=4)
    assert reply.tokens is not None
    assert 1 <= len(reply.tokens.sampled_ids) <= 4


@pytest.mark.long
def test_plain_transformers_take_it_too(made):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(made), AutoTokenizer.from_pretrained(made)
    assert model.config.model_type == "qwen3"
    assert model.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>")
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "go"}], tokenize=False)
    assert chat == "<|im_start|>user\ngo<|im_end|>\n"


@pytest.mark.long
def test_the_weights_are_half_precision(made):
    assert {str(tensor.dtype) for tensor in load_file(made / "model.safetensors").values()} == {"torch.float16"}


@pytest.mark.long
def test_the_card_says_what_it_is_and_what_it_learned_from(made):
    facts = json.loads((made / "making.json").read_text())
    card = (made / "README.md").read_text()
    assert "test-scale model" in card
    assert facts["settings"]["training"]["epochs"] == 0.5
    files = (["glances-000", "household-000", "shopping-000"], ["remarks-000", "shopping-001"], ["shopping-002"])
    for names, of_stage in zip(files, (facts, *facts["later"]), strict=True):
        parts = [made.parent / "corpus" / f"{name}.jsonl" for name in names]
        assert of_stage["data_sha256"] in card
        assert of_stage["data_sha256"] == digest(parts)
        assert sum(of_stage["demonstrations"].values()) == sum(len(read_part(part)) for part in parts)


@pytest.mark.long
def test_the_same_settings_make_the_same_weights(made, small_parts, tmp_path):
    again = build(TOY, tmp_path)
    assert (again / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()
    assert (again / "tokenizer.json").read_bytes() == (made / "tokenizer.json").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("stage", [1, 2])
def test_a_model_in_the_middle_of_its_making_goes_through_the_other_stages(made, small_parts, tmp_path, stage):
    again = build(TOY, tmp_path, start=made.parent / f"stage-{stage}")
    assert (again / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()
    assert (again / "making.json").read_bytes() == (made / "making.json").read_bytes()
    assert not (tmp_path / f"stage-{stage}").exists()


@pytest.mark.long
def test_a_model_that_is_made_is_no_start(made, tmp_path):
    with pytest.raises(UsageError, match="has gone through all 3 stages"):
        build(TOY, tmp_path, start=made)


def test_what_was_not_made_here_is_no_start(small_parts, tmp_path):
    with pytest.raises(UsageError, match="is no model that was made here"):
        build(TOY, tmp_path, start=tmp_path / "nothing")
    assert not (tmp_path / "corpus").exists()


def test_a_part_that_is_there_is_not_made_again(small_parts, tmp_path):
    file = make_part("shopping", 0, seed=1, folder=tmp_path)
    file.write_text(file.read_text().splitlines()[0] + "\n")
    assert len(read_part(make_part("shopping", 0, seed=1, folder=tmp_path))) == 1


@pytest.mark.long
def test_another_seed_makes_other_data(small_parts, tmp_path):
    first = make_part("household", 0, seed=1, folder=tmp_path / "1")
    second = make_part("household", 0, seed=2, folder=tmp_path / "2")
    assert first.read_bytes() != second.read_bytes()
