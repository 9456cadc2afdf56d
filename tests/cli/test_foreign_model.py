"""The command line with a model's folder of a stranger: one line, exit status 2."""

from __future__ import annotations

import json

from tests.models.local.tiny import tiny_model, tiny_tokenizer


def test_a_model_that_cannot_be_is_said_in_one_line(run, tmp_path):
    folder = tmp_path / "model"
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    arguments = ("evaluate", "--env", "m3tooleval", "--agent", "vanilla", "--model", str(folder), "--tasks", 1)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(json.dumps(json.loads(config) | {"num_hidden_layers": -1}))
    status, _, error = run(*arguments, "--out", tmp_path / "run")
    assert status == 2
    assert error.strip().endswith("num_hidden_layers = -1 has to be above 0")
    (folder / "config.json").write_text(config)
    (folder / "chat_template.jinja").write_text("{{ 'ab' * 10 ** 10 }}")
    status, _, error = run(*arguments, "--out", tmp_path / "run")
    assert status == 2
    assert "its chat template needs too much memory" in error
    assert "Traceback" not in error
