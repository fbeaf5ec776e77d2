"""Every head of a real encoder against positional and special-token claims, and of its randomly initialised twin."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.head_claims.audits import estimate_of, kept
from case_studies.head_claims.groups import Models
from case_studies.head_claims.said import ENCODER, VERDICTS
from case_studies.topics_wikipedia.corpus import BUNDLED_NAME, Document, check_corpus, read_corpus
from case_studies.topics_wikipedia.encoder import Encoder, load_encoder, randomly_initialised
from interp.errors import AnalysisError
from interp.stats import Estimate
from probes.audit import AuditResult
from probes.claims import Claim, Relation

# Tokens that a paragraph is cut to, special tokens included; articles take turns. Of several lengths, so that [SEP] is
# no fixed position; of few, so that many inputs reach every position: an audit compares with each.
LENGTHS = (24, 36, 48)
DOCUMENTS = 5000  # at most; the bundled dump holds fewer
FEWEST = 60  # articles: an audit asks for 50 inputs in the half that decides
HEADS_QUICK = 2  # of each layer, the first ones


@dataclass(frozen=True)
class Vocabulary:
    """What an audit needs of a tokenizer: the tokens by id, and which of them is padding."""

    vocab: tuple[str, ...]
    pad: int

    @property
    def vocab_size(self) -> int:
        """Tokens of the tokenizer; a model may know more."""
        return len(self.vocab)


@dataclass(frozen=True)
class Scan:
    """One encoder's audits, head by head and relation by relation, all corrected together."""

    name: str
    relations: tuple[Relation, ...]
    heads: tuple[tuple[int, int], ...]
    results: tuple[AuditResult, ...]

    def of(self, relation: Relation) -> list[AuditResult]:
        """The audits of one relation, a head each."""
        return list(self.results[self.relations.index(relation) :: len(self.relations)])

    def counts(self, relation: Relation) -> Counter[str]:
        """Heads by verdict."""
        return Counter(r.verdict for r in self.of(relation))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: by relation, a letter a head (verdict) and its score."""
        rows = {}
        for relation in self.relations:
            own, counts = self.of(relation), self.counts(relation)
            rows[relation.words] = {
                **{verdict: counts[verdict] for verdict in VERDICTS},
                "heads": "".join(r.verdict[0] for r in own),
                "scores": [None if e is None or e.value is None else round(e.value, 4) for e in map(_score, own)],
            }
        return {"name": self.name, "heads": [f"L{layer}H{head}" for layer, head in self.heads], "relations": rows}


@dataclass(frozen=True)
class Read:
    """Both encoders on the same text. `tokens` [input, pos]: two paragraphs an article, padded."""

    trained: Scan
    random: Scan
    corpus: str
    tokens: NDArray[np.int64]
    vocabulary: Vocabulary
    bridge: Any


def scan_encoders(folder: Path, full: bool) -> Read:
    """The encoder and its twin, audited. Quick: some heads of each layer."""
    encoder = load_encoder()
    documents = read_corpus(check_corpus(None), DOCUMENTS)
    pad = int(encoder.tokenizer.pad_token_id)
    names = encoder.tokenizer.convert_ids_to_tokens(range(len(encoder.tokenizer)))
    vocabulary = Vocabulary(tuple(names), pad)
    tokens = paragraphs(documents, encoder.tokenizer, pad)
    layers, heads = encoder.shape
    chosen = [(layer, head) for layer in range(layers) for head in range(heads if full else min(heads, HEADS_QUICK))]
    twin = randomly_initialised(encoder, 0, 1)
    trained, random = (scan(e, chosen, tokens, vocabulary, folder) for e in (encoder, twin))
    return Read(trained, random, BUNDLED_NAME, tokens, vocabulary, encoder.bridge)


def scan(
    encoder: Encoder,
    heads: Sequence[tuple[int, int]],
    tokens: NDArray[np.int64],
    vocabulary: Vocabulary,
    folder: Path,
    relations: Sequence[Relation] = ENCODER,
) -> Scan:
    """Every head against every relation."""
    claims = [Claim([head], relation) for head in heads for relation in relations]
    models = Models(encoder.bridge, f"{encoder.name}, {weights(encoder)}")
    articles = np.arange(len(tokens)) // 2
    results = kept(encoder.name, models, claims, folder, tokens, grammar=vocabulary, strata=articles)
    return Scan(encoder.name, tuple(relations), tuple(heads), tuple(results))


def _score(result: AuditResult) -> Estimate | None:
    return estimate_of(result, "score")


def weights(encoder: Encoder) -> str:
    """What tells one encoder's weights from another's, a few sums."""
    sums = [p.detach().double().abs().sum().item() for p in encoder.bridge.parameters()]
    return f"{len(sums)} tensors, {sum(sums):.6f}"


def paragraphs(documents: Sequence[Document], tokenizer: Any, pad: int) -> NDArray[np.int64]:
    """Two paragraphs of each article, cut to one length: the first two that are as long [input, pos].

    Articles are strata of the audit: each half has one paragraph of each, so that its inputs are independent.
    """
    rows: list[list[int]] = []
    for document in documents:
        length = LENGTHS[len(rows) // 2 % len(LENGTHS)]
        ids = tokenizer(list(document.paragraphs), truncation=True, max_length=length)["input_ids"]
        enough = [row for row in ids if len(row) == length]
        if len(enough) > 1:
            rows += enough[:2]
    if len(rows) < 2 * FEWEST:
        raise AnalysisError(
            f"{len(rows) // 2} articles have two paragraphs of {max(LENGTHS)} tokens: {FEWEST} are needed"
        )
    out = np.full((len(rows), max(LENGTHS)), pad, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out
