from pathlib import Path

import transformers

from nethack_pipe import artifacts
from nethack_pipe.forward_model import base
from tests.forward_model.conftest import World
from tests.helpers import tiny_forward


def test_an_answer_is_one_token_a_field_and_tiles_are_not_merged() -> None:
    rows = tiny_forward.examples(400, 1)
    tokenizer = base.train_tokenizer(rows, 600, 160)
    answer = "pos:(-1,0) | hp:same | gold:same | depth:same | alive:yes | explored:same | msg:You see here a rock."
    tokens = [tokenizer.decode([token]) for token in tokenizer(answer)["input_ids"]]
    fields = answer.removesuffix("You see here a rock.").split(" | ")
    assert tokens[:7] == [fields[0], *(f" | {field}" for field in fields[1:])]
    line = "adj: n=. s=| e=# w=. ne=. nw=| se=. sw=# on=."
    tokens = [tokenizer.decode([token]) for token in tokenizer(line)["input_ids"]]
    assert tokens == ["adj:", " n=.", " s=|", " e=#", " w=.", " ne=.", " nw=|", " se=.", " sw=#", " on=."]


def test_any_text_can_be_read_and_written() -> None:
    tokenizer = base.train_tokenizer(tiny_forward.examples(20, 1), 512, 160)
    assert len(tokenizer) <= 512
    for words in ("Ünïcödé → 漢字", "  two  blanks\n\n", "pos:(12,-3) | hp:-17", "a\tb"):
        assert tokenizer.decode(tokenizer(words)["input_ids"]) == words


def test_base_is_an_ordinary_folder_with_tied_embeddings(world: World) -> None:
    folder = world.root / "models/base"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.vocab_size == len(tokenizer) == world.pretrain.metrics["vocab_size"]
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|end|>", "<|pad|>")
    turns = [{"role": "user", "content": "x =>"}]
    rendered = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert rendered == "<|user|>x =><|end|><|assistant|>"
    assert (folder / "model.safetensors").is_file()


def test_nothing_is_learned_from_held_out_games(world: World, tmp_path: Path) -> None:
    tiny_forward.write_world(tmp_path, held_out_message="Xyzzy plugh frotz!")
    pretrained = tiny_forward.pretrain(tmp_path)
    tuned = tiny_forward.sft(tmp_path)
    ours, theirs = tiny_forward.digests(tmp_path), tiny_forward.digests(world.root)
    cards = "models/sft/README.md"  # tells the held-out loss
    assert ours.pop(cards) != theirs.pop(cards)
    assert ours == theirs
    assert pretrained.metrics["held_out_loss"] != world.pretrain.metrics["held_out_loss"]
    assert tuned.metrics["train_loss"] == world.sft.metrics["train_loss"]


def test_metrics_and_curve_of_pretraining(world: World) -> None:
    metrics = world.pretrain.metrics
    # 60 training transitions, of which 8 steps of 4 use 32, once each.
    assert (metrics["steps"], metrics["effective_batch"], metrics["train_conversations"]) == (8, 4, 32)
    assert metrics["epochs"] == 1.0
    model = transformers.AutoModelForCausalLM.from_pretrained(world.root / "models/base")
    assert metrics["trainable_parameters"] == sum(p.numel() for p in model.parameters())
    assert [row["step"] for row in world.pretrain.curve] == [2, 4, 6, 8]
    assert [row["held_out_loss"] is None for row in world.pretrain.curve] == [True, False, True, False]
    assert metrics["held_out_loss"] == world.pretrain.curve[-1]["held_out_loss"]
    losses = [row["loss"] for row in world.pretrain.curve]
    assert losses[-1] < losses[0] - 0.5
    assert artifacts.hashes(world.root / "models/base").keys() >= {"config.json", "tokenizer.json", "model.safetensors"}
