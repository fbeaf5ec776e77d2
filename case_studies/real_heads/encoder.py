"""The encoder's heads, and those of the same architecture at random, held against positions and delimiters."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from case_studies.head_claims.encoder import DOCUMENTS, Vocabulary, paragraphs, weights
from case_studies.head_claims.said import ENCODER
from case_studies.real_heads.decoder import Patterns
from case_studies.real_heads.findings import Model
from case_studies.real_heads.kept import kept_scan
from case_studies.topics_wikipedia.corpus import Piece, check_corpus, read_corpus
from case_studies.topics_wikipedia.encoder import Encoder, load_encoder, randomly_initialised, read

TEXT = "articles"


def encoders(folder: Path) -> list[Model]:
    """The encoder and its randomly initialised twin, each scanned on two paragraphs an article.

    Articles are strata: each half has one paragraph of each.
    """
    encoder = load_encoder()
    pad = int(encoder.tokenizer.pad_token_id)
    names = encoder.tokenizer.convert_ids_to_tokens(range(len(encoder.tokenizer)))
    tokens = paragraphs(read_corpus(check_corpus(None), DOCUMENTS), encoder.tokenizer, pad)
    words = Vocabulary(tuple(names), pad)
    out = []
    for one in (encoder, randomly_initialised(encoder, 0, 1)):
        slug = "encoder" if one is encoder else "encoder-random"
        found = kept_scan(
            slug, weights(one), _patterns(one, tokens, pad), tokens, words, folder, ENCODER,
            strata=np.arange(len(tokens)) // 2,
        )  # fmt: skip
        out.append(Model(one.name, weights(one), {TEXT: found}))
    return out


def _patterns(encoder: Encoder, tokens: np.ndarray, pad: int) -> Callable[[], Patterns]:
    def patterns() -> Patterns:
        layers, heads = encoder.shape
        count, length = tokens.shape
        out = np.zeros((count, layers, heads, length, length), dtype=np.float32)
        out[..., 0] = 1.0  # of PAD, which nobody reads
        real = (tokens != pad).sum(1)
        listed = [Piece(0, row[:n], np.ones(n, dtype=bool)) for row, n in zip(tokens, real, strict=True)]
        for i, found, _ in read(encoder, listed):
            n = real[i]
            out[i, :, :, :n] = 0.0
            out[i, :, :, :n, :n] = found
        return out

    return patterns
