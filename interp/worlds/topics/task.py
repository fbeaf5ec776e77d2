"""Training topic models on counts: exact, and without a single position of padding.

A model without positions sees a document as counts n of shown words. A position that shows word q attends to word k
with weight n_k exp(s_qk) / sum_l n_l exp(s_ql), so its logits depend on (document, q) alone, and a loss over
positions is a loss over such pairs, each with the counts of the true words to predict. All of it is a few
products with matrices of vocabulary size, whatever the lengths of the documents.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.config import TransformerConfig
from interp.functional import Params
from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.rng import generator
from interp.training.evaluation import beside
from interp.training.task import DRAW_AHEAD
from interp.worlds.topics.grammar import Documents, TopicGrammar
from interp.worlds.topics.recipes import grammar_of, settings_of
from interp.worlds.topics.settings import TopicSettings

EVAL_DOCUMENTS, FINAL_DOCUMENTS = 400, 2000
ATTENTION = ("blocks.0.attn.W_Q", "blocks.0.attn.W_K")
VALUE, EMBEDDING, BIAS = "blocks.0.attn.W_V", "embed.W_E", "unembed.b_U"


@dataclass(frozen=True)
class Pairs:
    """Documents as counts, and what is to be predicted. Leading axes (steps, seeds) may stand before all.

    - `shown` [doc, vocab]: frequencies of shown words, each document's summing to 1.
    - `document`, `query` [row]: the pair that a row is for.
    - `target` [row, vocab]: weight of each true word; all rows together sum to 1 (each document with a set M alike).
    """

    shown: NDArray[np.float32]
    document: NDArray[np.int64]
    query: NDArray[np.int64]
    target: NDArray[np.float32]


def count_pairs(documents: Documents, grammar: TopicGrammar, merge: bool, rows: int | None = None) -> Pairs:
    """`documents` as pairs. `merge`: one row a document, for attention that does not look at the query.

    `rows`: pad with rows of weight 0 (or cut) to this many.
    """
    if rows is None:
        rows = len(
            np.unique(
                np.argwhere(documents.chosen)[:, 0] * grammar.vocab_size
                + (0 if merge else documents.shown[documents.chosen])
            )
        )
    pairs = stacked_pairs(documents, grammar, merge, 1, rows)
    return Pairs(pairs.shown[0], pairs.document[0], pairs.query[0], pairs.target[0])


def stacked_pairs(documents: Documents, grammar: TopicGrammar, merge: bool, steps: int, rows: int) -> Pairs:
    """`count_pairs` of several batches at once: `documents` holds those of the first step, then of the next, ..."""
    count, vocab = len(documents.words), grammar.vocab_size
    inside = documents.words >= 0
    place = np.broadcast_to(np.arange(count)[:, None], inside.shape)
    counts = np.bincount(place[inside] * vocab + documents.shown[inside], minlength=count * vocab)
    shown = counts.reshape(count, vocab) / documents.lengths[:, None]
    batch = count // steps
    doc, query = place[documents.chosen], documents.shown[documents.chosen]
    true = documents.words[documents.chosen]
    unique, row = np.unique(doc * vocab + (0 if merge else query), return_inverse=True)
    step = unique // (vocab * batch)
    within = np.arange(len(unique)) - np.searchsorted(step, np.arange(steps))[step]  # row among those of its step
    fits = within < rows
    place_of = step * rows + within
    chosen = np.bincount(doc, minlength=count)
    asked = (chosen.reshape(steps, batch) > 0).sum(1)  # a document with nothing to predict does not count
    weight = 1.0 / (chosen[doc] * asked[doc // batch])
    kept = fits[row]
    target = np.bincount(place_of[row[kept]] * vocab + true[kept], weight[kept], minlength=steps * rows * vocab)
    document, word = np.zeros((2, steps * rows), dtype=np.int64)
    document[place_of[fits]], word[place_of[fits]] = (unique // vocab % batch)[fits], (unique % vocab)[fits]
    return Pairs(
        shown.reshape(steps, batch, vocab).astype(np.float32),
        document.reshape(steps, rows),
        word.reshape(steps, rows),
        target.reshape(steps, rows, vocab).astype(np.float32),
    )


def row_capacity(grammar: TopicGrammar, batch: int, merge: bool) -> int:
    """Rows that a batch fills: a document's [MASK] and each other word it shows at chosen positions.

    The number of the latter is at most binomial; twelve standard deviations above its mean are never reached.
    """
    if merge:
        return -(-batch // 4) * 4
    mean = batch * grammar.max_length * grammar.mask_prob * (grammar.keep_prob + grammar.random_prob)
    return -(-math.ceil(batch + mean + 12 * math.sqrt(mean + 1)) // 16) * 16


def exact_pairs(grammar: TopicGrammar, merge: bool) -> Pairs:
    """The infinite documents of every set of topics (Assumption 2.1.1), all equally likely."""
    law = grammar.word_law()
    sets, vocab = law.shape
    shown = grammar.shown_law(law)
    if merge:  # whatever is shown there, a chosen position's true word follows the document's law
        document, query = np.arange(sets), np.zeros(sets, dtype=np.int64)
        return Pairs(shown.astype(np.float32), document, query, (law / sets).astype(np.float32))
    random = np.r_[0.0, np.full(grammar.num_words, grammar.random_prob / grammar.num_words)]
    target = random[None, :, None] * law[:, None, :]  # [set, query, true word]: a random word is shown
    target[:, grammar.mask] = (1 - grammar.keep_prob - grammar.random_prob) * law
    target[:, np.arange(vocab), np.arange(vocab)] += grammar.keep_prob * law
    target /= sets
    document, query = np.repeat(np.arange(sets), vocab), np.tile(np.arange(vocab), sets)
    return Pairs(shown.astype(np.float32), document, query, target.reshape(-1, vocab).astype(np.float32))


def pair_logits(config: TransformerConfig, buffers: Params, params: Params, pairs: Sequence[Tensor]) -> Tensor:
    """Logits [row, vocab] of one model at (document, query) pairs: `shown`, `document`, `query`.

    `buffers` holds the frozen tensors that `params` lacks (a one-hot W_E, an identity W_U, biases).
    """
    shown, document, query = pairs
    p = {**buffers, **params}
    attn = "blocks.0.attn."
    embed = p[EMBEDDING]
    unembed = embed.T if config.unembed == "tied" else p["unembed.W_U"]
    values = (embed @ p[VALUE][0] + p[attn + "b_V"][0]) @ unembed  # what each shown word adds to the logits
    if config.attention == "uniform":
        return (shown @ values)[document] + p[BIAS]
    q = embed @ p[attn + "W_Q"][0] + p[attn + "b_Q"][0]
    k = embed @ p[attn + "W_K"][0] + p[attn + "b_K"][0]
    scale = (config.attn_scale or math.sqrt(config.d_head)) if config.scale_scores else 1.0
    scores = q @ k.T * (1 / scale)
    present, scores = shown[document], scores[query]
    top = scores.detach().masked_fill(present == 0, -torch.inf).amax(-1, keepdim=True)
    # e^-40 is nothing beside the 1 of the largest in float32; smaller ones would be denormal numbers, which are slow.
    weight = torch.exp((scores - top).clamp(min=-40.0)) * present
    return (weight / weight.sum(-1, keepdim=True)) @ values + p[BIAS]


def pair_loss(logits: Tensor, target: Tensor, kind: str) -> Tensor:
    """Cross entropy (nats) or squared distance to the one-hot truth, per chosen position, averaged (eq. 2.1)."""
    weight = target.sum(-1)
    if kind == "ce":
        return (torch.logsumexp(logits, -1) * weight).sum() - (logits * target).sum()
    return ((logits.square().sum(-1) + 1) * weight).sum() - 2 * (logits * target).sum()


class TopicTask:
    """Draws documents, and maps parameters and documents of all seeds to losses and metrics."""

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        self.grammar, self.config, self.settings = grammar_of(recipe), recipe.config, settings_of(recipe)
        self.ahead = DRAW_AHEAD
        self.merge = self.config.attention == "uniform"
        self.rows = row_capacity(self.grammar, self.settings.batch, self.merge)
        self.buffers = {name: b.to(device) for name, b in template.named_buffers()}
        self.device = device
        self.trained = trained_names([name for name, _ in template.named_parameters()], self.settings)
        self.exact = self._on(exact_pairs(self.grammar, self.merge)) if self.settings.data == "exact" else None
        self._losses = torch.vmap(self._one)
        self._eval: dict[int, list[Tensor]] = {}

    def draw(self, seed: int, steps: range) -> tuple[NDArray[Any], ...]:
        """`Pairs` of each step, arrays [steps, ...]; nothing for the exact law."""
        if self.exact is not None:
            return (np.zeros((len(steps), 1), dtype=np.float32),)
        drawn = [self.grammar.draw(generator(seed, "documents", step), self.settings.batch) for step in steps]
        documents = Documents(*(np.concatenate([getattr(d, f.name) for d in drawn]) for f in fields(Documents)))
        pairs = stacked_pairs(documents, self.grammar, self.merge, len(steps), self.rows)
        return pairs.shown, pairs.document, pairs.query, pairs.target

    def __call__(self, params: Params, *batch: Tensor) -> Tensor:
        """Loss of each seed [S]."""
        if self.exact is not None:
            return torch.vmap(lambda p: self._one(p, *self._exact()))(params)
        return self._losses(params, *batch)

    def metrics(self, params: Params, final: bool) -> dict[str, NDArray[Any]]:
        """Held-out loss (of the exact law: the loss itself) of each seed, without any penalty."""
        if self.exact is not None:
            data = self._exact()
        else:
            count = FINAL_DOCUMENTS if final else EVAL_DOCUMENTS
            if count not in self._eval:
                documents = self.grammar.sample(count, seed=0, stream="held-out")
                self._eval[count] = self._on(count_pairs(documents, self.grammar, self.merge))
            data = self._eval[count]
        with torch.no_grad():
            loss = torch.vmap(lambda p: self._plain(p, *data))(params)
        words = self.grammar.num_words
        even = math.log(words) if self.settings.loss == "ce" else 1 - 1 / words
        return {"loss": loss.cpu().numpy(), **beside({"any word": even}, len(loss))}

    def _exact(self) -> list[Tensor]:
        assert self.exact is not None
        return self.exact

    def _on(self, pairs: Pairs) -> list[Tensor]:
        arrays = (pairs.shown, pairs.document, pairs.query, pairs.target)
        return [torch.from_numpy(a).to(self.device) for a in arrays]

    def _plain(self, params: Params, *batch: Tensor) -> Tensor:
        logits = pair_logits(self.config, self.buffers, params, batch[:3])
        return pair_loss(logits, batch[3], self.settings.loss)

    def _one(self, params: Params, *batch: Tensor) -> Tensor:
        loss = self._plain(params, *batch)
        if self.settings.l2:
            squares = [params[name].square().sum() for name in self.trained]
            loss = loss + self.settings.l2 / 2 * torch.stack(squares).sum()
        return loss


def trained_names(names: Sequence[str], settings: TopicSettings) -> list[str]:
    """The parameters that learn. Biases of the attention follow its weights."""
    if settings.trained == "attention":
        return [n for n in names if n in (*ATTENTION, "blocks.0.attn.b_Q", "blocks.0.attn.b_K")]
    if settings.trained == "embedding":
        return [n for n in names if n == EMBEDDING]
    return list(names)


def start_params(params: Params, recipe: Recipe) -> Params:
    """Initial weights of one model with what `settings.start` asks for put in."""
    start, grammar = settings_of(recipe).start, grammar_of(recipe)
    if start == "random":
        return params
    out = dict(params)
    if start == "zero":
        return {name: torch.zeros_like(p) for name, p in params.items()}
    from interp.worlds.topics.theory import TopicTheory

    theory = TopicTheory.from_grammar(grammar)
    if start == "identity":
        out |= {name: torch.zeros_like(out[name]) for name in ATTENTION if name in out}
        out[VALUE] = torch.eye(recipe.config.d_model, dtype=out[VALUE].dtype)[None]
        if BIAS in out:  # the bias of Theorem 2.1.1; [MASK] is never predicted
            out[BIAS] = torch.full_like(
                out[BIAS], -grammar.mask_prob * grammar.random_prob / theory.a / grammar.num_words
            )
            out[BIAS][grammar.mask] = 0.0
        return out
    matrix = theory.value_matrix() if start == "block" else theory.diagonal_value_matrix()
    out[VALUE] = torch.from_numpy(matrix.T.astype(np.float32).copy())[None]  # the thesis's W^V maps columns
    return out
