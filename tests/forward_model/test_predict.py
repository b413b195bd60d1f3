from pathlib import Path

import torch

from nethack_pipe.forward_model.adapter import load_forward_model
from nethack_pipe.forward_model.conversations import encode
from nethack_pipe.forward_model.predict import ANSWER_ROOM, predict
from nethack_pipe.perception.text import parse
from tests.helpers import tiny_forward


def test_a_trained_model_answers_what_can_be_read_and_is_right(tmp_path: Path) -> None:
    tiny_forward.write_world(tmp_path)
    longer = {"max_steps": 120, "batch_size": 16, "logging_steps": 20, "eval_steps": 120, "save_steps": 120}
    tiny_forward.pretrain(tmp_path, hidden_size=64, **longer)
    tiny_forward.sft(tmp_path, lora_rank=16, **longer)
    model, tokenizer = load_forward_model(tmp_path / "models/sft", tmp_path / "models/base")
    rows = tiny_forward.examples(40, 77)
    prompts = [row.prompt for row in rows]
    answers = predict(model, tokenizer, prompts)
    assert all(parse(answer) is not None for answer in answers)
    right = sum(answer == row.target for answer, row in zip(answers, rows, strict=True))
    assert right >= 30, right
    # Whatever shares a batch, and in which order: every prompt has its own answer.
    assert predict(model, tokenizer, prompts[::-1], batch_size=7)[::-1] == answers
    assert predict(model, tokenizer, [prompts[0], prompts[1], prompts[0]], batch_size=1) == [*answers[:2], answers[0]]
    short = predict(model, tokenizer, prompts[:1], max_new_tokens=2)[0]
    assert answers[0].startswith(short) and 0 < len(short) < len(answers[0])

    # A prompt that left no room for an answer in training lost its beginning there, and does here.
    encoded = encode(tokenizer, prompts[:1])[0].input_ids
    cut = predict(model, tokenizer, prompts[:1], max_length=len(encoded) + ANSWER_ROOM - 10)
    assert cut == predict_ids(model, tokenizer, encoded[10:])
    assert predict(model, tokenizer, prompts, max_length=10_000) == answers


def predict_ids(model, tokenizer, ids: list[int]) -> list[str]:
    generated = model.generate(input_ids=torch.tensor([ids]), max_new_tokens=96, do_sample=False)
    return tokenizer.batch_decode(generated[:, len(ids) :], skip_special_tokens=True)
