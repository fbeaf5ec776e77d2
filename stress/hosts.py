"""Models of every kind that an analyzer may be given: ours, and small random bridges, made without a network."""

import warnings
from pathlib import Path
from typing import Any

import torch

from interp import Population, load_checkpoint, train_population
from interp.grammars import DyckGrammar

GRAMMAR = DyckGrammar(2, 4)
N_CTX = 128


def ours() -> Population:
    """Three trained models of brackets."""
    population = load_checkpoint("dyck-standard")
    assert isinstance(population, Population)
    return population[:3]


def topics() -> Population:
    """Two barely trained topic models, with snapshots."""
    small = {"topics": 3, "words": 4, "min_length": 8, "max_length": 12, "eval_every": 2}
    return train_population("topic-joint", 2, options=small, steps=20, workers=1)


def targets() -> Population:
    """Two models that a random network can be pruned into."""
    small = {"depth": 2, "width": 8, "init_std": 0.35, "lr": 0.01, "max_length": 16}
    return train_population("dyck-paper", 2, options=small, steps=60, workers=1)


def native(seed: int = 0) -> Any:
    """A random bridge of TransformerLens's own architecture."""
    from transformer_lens.model_bridge import TransformerBridge

    settings = {
        "n_layers": 2, "d_model": 16, "n_ctx": N_CTX, "d_head": 8, "n_heads": 2, "d_vocab": GRAMMAR.vocab_size,
        "act_fn": "relu",
    }  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TransformerBridge.boot_native(settings).eval()


def trained(count: int) -> list[Any]:
    """Bridges of TransformerLens's own architecture that hold trained weights, and so do the grammar's task."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    out = []
    for model in ours()[:count]:
        c = model.config
        cfg = TransformerBridgeConfig(
            d_model=c.d_model, d_head=c.d_head, n_heads=c.n_heads, n_layers=c.n_layers, n_ctx=N_CTX, d_mlp=c.d_mlp,
            d_vocab=c.d_vocab, d_vocab_out=c.d_out, act_fn="gelu_new" if c.activation == "gelu" else "relu",
            normalization_type=c.norm, attention_dir=c.direction, eps=c.norm_eps,
        )  # fmt: skip
        weights = dict(model.state_dict()) | {"pos_embed.W_pos": torch.zeros(N_CTX, c.d_model)}  # it has no positions
        bridge = TransformerBridge.boot_native(cfg)
        bridge.load_state_dict(convert_tl_checkpoint(weights, cfg))
        out.append(bridge.eval())
    return out


def gpt2(folder: Path, seed: int = 0) -> Any:
    """A random GPT-2, saved and booted."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = save_tokenizer(folder)
    shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": N_CTX, "bos_token_id": 4, "eos_token_id": 5}
    return booted(folder, GPT2LMHeadModel, GPT2Config(vocab_size=words, **shape), seed)


def bert(folder: Path, seed: int = 0) -> Any:
    """A random BERT, saved and booted."""
    from transformers import BertConfig, BertForMaskedLM

    words = save_tokenizer(folder)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    return booted(folder, BertForMaskedLM, BertConfig(vocab_size=words, max_position_embeddings=N_CTX, **shape), seed)


def booted(folder: Path, kind: Any, config: Any, seed: int) -> Any:
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import AutoTokenizer

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        kind(config).save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return TransformerBridge.boot_transformers(str(folder), tokenizer=tokenizer, device="cpu").eval()


def save_tokenizer(folder: Path) -> int:
    """A tokenizer of single characters whose ids are the grammar's; how many there are."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["(", ")", "[", "]", "[START]", "[END]", "[PAD]"]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    special = {"bos_token": "[START]", "eos_token": "[END]", "pad_token": "[PAD]", "unk_token": "[PAD]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return len(names)
