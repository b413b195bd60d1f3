import json

import peft
import torch
import transformers

from nethack_pipe.forward_model.adapter import load_forward_model
from nethack_pipe.forward_model.conversations import encode
from tests.forward_model.conftest import World
from tests.helpers import tiny_forward


def logits(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits


def test_peft_loads_the_folder_and_our_loader_agrees_with_it(world: World) -> None:
    base, folder = world.root / "models/base", world.root / "models/sft"
    plain = transformers.AutoModelForCausalLM.from_pretrained(base)
    model, tokenizer = load_forward_model(folder, base)
    [item] = encode(tokenizer, [tiny_forward.examples(1, 3)[0].prompt])
    before = logits(plain, item.input_ids)
    reloaded = logits(peft.PeftModel.from_pretrained(plain, str(folder)).eval(), item.input_ids)
    assert (reloaded - before).abs().max() > 0.01
    torch.testing.assert_close(logits(model, item.input_ids), reloaded, rtol=1e-4, atol=1e-4)
    # The base stays tied; adapting its input embedding must not have changed the output layer.
    assert model.lm_head.weight is not model.model.embed_tokens.weight


def test_the_configuration_is_the_same_everywhere(world: World) -> None:
    config = json.loads((world.root / "models/sft/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "models/base"
    assert config["target_modules"] == sorted(config["target_modules"])
    assert set(config["target_modules"]) == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens",
    }  # fmt: skip
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (4, 8.0, 0.05)


def test_the_card_tells_data_base_and_figures(world: World) -> None:
    card = (world.root / "models/sft/README.md").read_text()
    assert card.startswith("---\nbase_model: models/base\n")
    assert "32 transitions of training games (data/rollouts, data/counterfactuals)" in card
    assert f"Held-out loss {world.sft.metrics['held_out_loss']:.4g}"[:-1] in card
    assert str(world.root) not in card
