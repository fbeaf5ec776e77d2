"""The naive rule beside the audit: each of its bounds from both sides, what is counted, and what the page tells."""

import numpy as np
import pytest
import torch

from closeness import assert_close
from probes.audit.bench.trained import tasks as t
from probes.audit.bench.trained.cases import NO_LABEL
from probes.audit.bench.trained.families import HEAD, SPARE
from probes.audit.bench.trained.models import Frozen
from probes.audit.bench.trained.naive import LOWERS, SCORE, TOP, Means, looks_of, lowered, means_of
from probes.claims import BUILT_IN, Claim, offset

PREVIOUS = BUILT_IN["previous"]
USES = Claim([HEAD], PREVIOUS, uses="task")
BELOW = 1e-9


# -- the rule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "by", "asks", "words"),
    [
        (Means(SCORE, 0, LOWERS), "score", True, ("holds", "used", "supported")),
        (Means(SCORE, 0, LOWERS - BELOW), "score", True, ("holds", "unused", "misleading")),
        (Means(SCORE, 0, LOWERS - BELOW), "score", False, ("holds", "unused", "supported")),
        (Means(SCORE - BELOW, 1, 1), "score", True, ("fails", "not asked", "refuted")),
        (Means(0, TOP, LOWERS), "top", True, ("holds", "used", "supported")),
        (Means(0, TOP, LOWERS - BELOW), "top", True, ("holds", "unused", "misleading")),
        (Means(1, TOP - BELOW, 1), "top", False, ("fails", "not asked", "refuted")),
    ],
)
def test_each_bound_of_the_rule(means, by, asks, words):
    assert means.words(by, asks) == words


def test_the_bounds_are_those_that_were_fixed_before_it_was_run():
    assert (SCORE, TOP, LOWERS) == (0.25, 0.5, 0.10)


def test_a_mean_weight_is_measured_beyond_chance_where_the_claim_applies():
    keys = np.eye(3, k=-1, dtype=bool)[None].repeat(2, 0)
    weights = np.array([[[1, 0, 0], [0.7, 0.3, 0], [0.1, 0.4, 0.5]], [[1, 0, 0], [0.5, 0.5, 0], [0, 0.8, 0.2]]])
    rows = np.array([[True, True, True], [True, False, True]])  # row 0 has no key
    score, top = looks_of(weights, keys, rows)
    assert_close(score, np.mean([(0.7 - 1 / 2) / (1 / 2), (0.4 - 1 / 3) / (2 / 3), (0.8 - 1 / 3) / (2 / 3)]), scale=1)
    assert_close(top, 2 / 3, scale=1)


def test_rows_without_a_key_or_with_every_key_say_nothing():
    weights, rows = np.tri(3)[None] / np.arange(1, 4)[:, None], np.ones((1, 3), dtype=bool)
    assert looks_of(weights, np.tri(3, dtype=bool)[None], rows) == (0.0, 0.0)
    assert looks_of(weights, np.zeros((1, 3, 3), dtype=bool), rows) == (0.0, 0.0)


def test_what_an_ablation_takes_is_a_share_of_the_mean_margin():
    labels, rows = np.array([[0, 1, NO_LABEL]]), np.ones((1, 3), dtype=bool)
    intact = np.array([[[3.0, 1, 0], [0, 4, 2], [9, 0, 0]]])  # margins 2 and 2
    less = np.array([[[3.0, 1.5, 0], [0, 4, 2.1], [0, 9, 0]]])  # 1.5 and 1.9
    assert_close(lowered(intact, less, labels, rows), 0.6 / 4, scale=1)
    assert_close(lowered(intact, less, labels, np.array([[False, True, True]])), 0.05, scale=1)
    assert lowered(intact, less, labels, np.array([[False, False, True]])) == 0.0  # nothing is labelled there
    assert lowered(-intact, less, labels, rows) == 0.0  # no margin that could be lowered


def brings_the_class(say):
    """A model of two heads frozen to the previous word, each of which says so much of its class; nothing is learned."""
    recipe = t.reader(PREVIOUS, 2, {HEAD: Frozen(PREVIOUS, 0.7), SPARE: Frozen(PREVIOUS, 0.7)})
    model = recipe.build()
    size, classes = t.VOCABULARY.vocab_size, t.CLASSES
    with torch.no_grad():
        for word in range(size):
            model.embed.W_E[word, word] = 1.0
        for norm in (model.blocks[0].ln1, model.ln_final):
            norm.w[:] = 1.0
        attn = model.blocks[0].attn
        for head, amount in enumerate(say):
            for word in range(t.WORDS):
                attn.W_V[head, word, word % classes] = 1.0
            for kind in range(classes):
                attn.W_O[head, kind, size + kind] = amount
        for kind in range(classes):
            model.unembed.W_U[size + kind, kind] = 1.0
    return recipe, model


def test_a_head_that_brings_the_answer_is_used_and_an_idle_one_misleading():
    recipe, model = brings_the_class((1.0, 0.0))
    examples = t.examples_of(recipe, 0)
    before = model(torch.from_numpy(examples.tokens[:4]))
    claims = [USES, Claim([SPARE], PREVIOUS, uses="task"), Claim([HEAD], offset(-2)), Claim([HEAD, SPARE], PREVIOUS)]
    found = means_of(model, claims, examples, recipe.grammar)
    by_score = [means.words("score", claim.uses is not None)[2] for means, claim in zip(found, claims, strict=True)]
    assert by_score == ["supported", "misleading", "refuted", "supported"]
    assert found[0].lowers > 0.8
    assert found[1].lowers == 0.0
    assert found[3].lowers == pytest.approx(found[0].lowers)
    assert found[0].top == 1.0
    assert_close(model(torch.from_numpy(examples.tokens[:4])), before, scale=1)
    assert not any(point._forward_hooks for point in model.hook_dict.values())
