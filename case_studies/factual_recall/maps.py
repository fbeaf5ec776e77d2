"""What trained maps hold: what a token adds to the logits at END, beside block indicators and sums of outer products.

Of a token z: what END gets of it through attention, sum over heads of the mean weight on tokens of its kind (linear
attention: its own weight) times embedding, values, output and unembedding. Norms enter by their gains alone, and an
MLP is left out: the direct path.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from case_studies.factual_recall.stages import kept
from interp import Population
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.stats import POSITIVE, REALS, Estimate, mean_over_seeds
from interp.worlds.facts import FactsGrammar

Array = NDArray[np.float64]
CORRELATION = (-1.0, 1.0)
STRINGS, SHUFFLES, TABLES = 200, 200, 20
KINDS = ("subject", "relation", "noise")


def token_logits(model: SandboxTransformer) -> Array:
    """What each token adds at END [token, answer], each row centred."""
    grammar: Any = model.grammar
    block: Any = model.blocks[0]
    tokens = grammar.draw(generator(0, "factual-recall/maps"), STRINGS)
    kinds = grammar.kinds(tokens)
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(tokens), names_filter="blocks.0.attn.hook_pattern")
        pattern = cache["blocks.0.attn.hook_pattern"][:, :, -1].double().numpy()  # [string, head, key]
        embed: Any = model.embed
        read = block.read(embed.W_E).double()
        moved = torch.einsum("vd,hde,heo->hvo", read, block.attn.W_V.double(), block.attn.W_O.double())
        of_kind = np.stack([pattern.transpose(1, 0, 2)[:, kinds == kind].mean(1) for kind in range(4)])  # [kind, head]
        share = torch.from_numpy(of_kind[grammar.kinds(np.arange(grammar.vocab_size))])
        if model.config.attention == "linear":  # a token's weight is its own, of either sign, wherever it stands
            q = torch.einsum("d,hde->he", read[grammar.end], block.attn.W_Q.double())
            k = torch.einsum("vd,hde->vhe", read, block.attn.W_K.double())
            share = torch.einsum("he,vhe->vh", q, k) / block.attn.attn_scale
        added = torch.einsum("vh,hvo->vo", share, moved)
        final: Any = model.ln_final
        if model.config.ends_in_norm:
            added = (added - added.mean(-1, keepdim=True)) * final.w.double()
        unembed: Any = model.unembed
        logits = (added @ unembed.W_U.double()).numpy()
    return np.asarray(logits - logits.mean(1, keepdims=True))


def correlation(one: Array, other: Array) -> float:
    """Mean over rows of the correlation of two arrays [row, answer]."""
    a, b = (x - x.mean(1, keepdims=True) for x in (one, other))
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.where(size > 0, (a * b).sum(1) / np.where(size > 0, size, 1.0), 0.0).mean())


def cosine(one: Array, other: Array) -> float:
    """Of two arrays, all rows centred and laid end to end."""
    a, b = ((x - x.mean(1, keepdims=True)).ravel() for x in (one, other))
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size > 0 else 0.0


def indicators(grammar: FactsGrammar) -> Array:
    """What the constructed model has: the answers of each subject, the block of each relation [token, answer]."""
    return np.concatenate([np.eye(grammar.outputs)[grammar.table].sum(1), grammar.blocks.astype(float)])


def hebbian(grammar: FactsGrammar) -> Array:
    """W = sum over facts of (u_a (e_s + e_r)^T), one-hot: how often token and answer go together [token, answer]."""
    fact = np.eye(grammar.outputs)[grammar.table]
    return np.concatenate([fact.sum(1), fact.sum(0)])


def recalled(grammar: FactsGrammar, w: Array) -> float:
    """Share of facts whose answer has the most of w[s] + w[r]; where several have, a part of one."""
    total = w[: grammar.subjects, None] + w[None, grammar.subjects : grammar.first_noise]  # [subject, relation, answer]
    best = np.isclose(total, total.max(-1, keepdims=True), rtol=1e-9, atol=0)
    own = np.take_along_axis(best, grammar.table[..., None], -1)[..., 0]
    return float((own / best.sum(-1)).mean())


@dataclass(frozen=True)
class Maps:
    """Of an arm; arrays [seed], and the same of its untrained models.

    - `relation`: correlation of what relations add with the indicators of their blocks; `null`: the 97.5 % quantile of
      its mean over seeds with answers permuted.  `subject`: of what subjects add with their answers.
    - `noise`: norm of what noise tokens add over that of relations.
    - `hebbian`, `constructed`: cosine with sums of outer products, and with the indicators; `other`: with the sums of
      other tables.  `recalled`: facts that the direct path alone has right.
    """

    relation: Array
    subject: Array
    noise: Array
    hebbian: Array
    other: Array
    constructed: Array
    recalled: Array
    untrained: float
    null: float

    def estimates(self) -> dict[str, Estimate]:
        """Means over seeds."""
        return {
            "relation": mean_over_seeds(self.relation, support=CORRELATION).with_null(self.null),
            "subject": mean_over_seeds(self.subject, support=CORRELATION),
            "noise": mean_over_seeds(self.noise, support=POSITIVE),
            "hebbian": mean_over_seeds(self.hebbian, support=CORRELATION).with_null(float(self.other.mean())),
            "constructed": mean_over_seeds(self.constructed, support=CORRELATION),
            "nearer_to_constructed": mean_over_seeds(self.constructed - self.hebbian, support=REALS),
            "recalled": mean_over_seeds(self.recalled, support=(0.0, 1.0)),
        }


def maps(population: Population) -> Maps:
    """Of a trained population; seeds that diverged are left out."""
    grammar: Any = population.grammar
    size, relations = grammar.first_noise, slice(grammar.subjects, grammar.first_noise)
    added = [token_logits(population[i]) for i in kept(population)]
    truth, blocks = indicators(grammar), grammar.blocks.astype(float)
    outer = hebbian(grammar)
    tables = [hebbian(replace(grammar, table_seed=grammar.table_seed + 1 + i)) for i in range(TABLES)]
    rng = generator(0, "factual-recall/shuffles")
    orders = [rng.permutation(grammar.outputs) for _ in range(SHUFFLES)]
    shuffled = [np.mean([correlation(w[relations], blocks[:, order]) for w in added]) for order in orders]
    fresh = [correlation(token_logits(model)[relations], blocks) for model in population.untrained()]
    return Maps(
        np.array([correlation(w[relations], blocks) for w in added]),
        np.array([correlation(w[: grammar.subjects], truth[: grammar.subjects]) for w in added]),
        np.array([_norm(w[size : grammar.end]) / max(_norm(w[relations]), 1e-30) for w in added]),
        np.array([cosine(w[:size], outer) for w in added]),
        np.array([np.mean([cosine(w[:size], other) for other in tables]) for w in added]),
        np.array([cosine(w[:size], truth) for w in added]),
        np.array([recalled(grammar, w) for w in added]),
        float(np.mean(fresh)),
        float(np.quantile(shuffled, 0.975)),
    )


def _norm(rows: Array) -> float:
    return float(np.linalg.norm(rows, axis=1).mean())


# -- linear attention's keys --------------------------------------------------------------------------------


def key_weights(population: Population) -> dict[str, Array]:
    """|w_KQ(z)| at END of a linear model, mean over tokens of a kind [seed], by kind; without seeds that diverged."""
    grammar: Any = population.grammar
    those = kept(population)
    q = population.params["blocks.0.attn.W_Q"][those, 0, grammar.end].double()  # [seed, d_head]
    k = population.params["blocks.0.attn.W_K"][those, 0].double()
    w = torch.einsum("se,sve->sv", q, k).abs().numpy()
    kinds = grammar.kinds(np.arange(grammar.vocab_size))
    return {name: w[:, kinds == kind].mean(1) for kind, name in enumerate(KINDS)}


# -- the memory alone ---------------------------------------------------------------------------------------

WIDTHS, DRAWS, RECALL = (16, 32, 64, 128), 10, 0.99


def memory_capacity(width: int, draw: int, *, most: int = 1000) -> int:
    """Most pairs that W = sum_x u_x e_x^T of random unit vectors recalls to 99 % (slides, L3377-3381)."""
    rng = generator(draw, f"factual-recall/memory/{width}")
    e, u = (rng.standard_normal((most, width)) for _ in range(2))
    e, u = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (e, u))
    best = 0
    for count in range(1, most + 1):
        scores = u[:count] @ (u[:count].T @ (e[:count] @ e[:count].T))  # [answer, question]
        if (scores.argmax(0) == np.arange(count)).mean() >= RECALL:
            best = count
        elif count > 2 * best + 20:
            break
    return best


def memory_slope() -> tuple[dict[int, float], Estimate]:
    """Mean capacity by width, and the slope of its logarithm over that of the width, a slope a draw."""
    found = np.array([[memory_capacity(width, draw) for draw in range(DRAWS)] for width in WIDTHS], dtype=float)
    slopes = np.polyfit(np.log(np.array(WIDTHS, dtype=float)), np.log(found), 1)[0]
    means = dict(zip(WIDTHS, found.mean(1).tolist(), strict=True))
    return means, mean_over_seeds(slopes, over="trials", support=REALS)
