"""Families whose models the toolkit's presets train: what is claimed of them, and what follows for their truth."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interp.model import SandboxTransformer
from interp.rng import generator
from interp.worlds.facts.claims import ASKED, BOTH, THE_RELATION, THE_SUBJECT
from interp.worlds.flipflop.claims import LAST_WRITE, gap_at_least
from interp.worlds.flipflop.claims import RELATIONS as WRITES
from interp.worlds.recall.claims import AFTER_LAST_COPY, LAST_COPY
from probes.audit.bench.trained.cases import NO_LABEL, Examples, Family, Head, Spoken, Subject, Use
from probes.audit.bench.trained.make import preset_model
from probes.audit.bench.trained.tasks import NUM_EXAMPLES, NUM_INPUTS
from probes.claims import BUILT_IN, Claim, Condition, Relation, offset

FIRST, SECOND = (0, 0), (1, 0)
PREVIOUS, INDUCTION = BUILT_IN["previous"], BUILT_IN["induction"]
LEAD = 2  # by so many counts one successor must lead, for an answer of a chain to be a certain one
IGNORED = 0.95  # share of no-ops in the strings on which a flip-flop is audited: far reads are few where it was trained
WHOSE = (THE_SUBJECT, THE_RELATION, BOTH)
GAPS = (8, 16, 24, 28)
FAINT = 0.02  # of a grafted head's output, beside that of the head whose pattern it has
Told = tuple[Head, Relation]
RECALL_FALSE: tuple[Told, ...] = (
    (FIRST, BUILT_IN["current"]), (FIRST, offset(-2)), (SECOND, PREVIOUS), (SECOND, LAST_COPY),
)  # fmt: skip
MARKOV_FALSE: tuple[Told, ...] = (
    (FIRST, BUILT_IN["current"]), (FIRST, offset(-2)), (SECOND, PREVIOUS), (SECOND, BUILT_IN["first"]),
)  # fmt: skip


def purpose(seed: int, name: str = "task") -> str | None:
    """Every other seed's claims are about use, too."""
    return name if seed % 2 == 0 else None


def said(
    head: Head, relation: Relation, kind: Any, pattern: bool | None, use: Use | None, uses: str | None = None,
    when: Condition | None = None, **more: Any,
) -> Spoken:  # fmt: skip
    """A claim about one head, with its truth."""
    return Spoken(Claim([head], relation, when, uses), kind, pattern, use, **more)


def false(told: tuple[Told, ...], use: Use = "not asked", built: bool = False) -> list[Spoken]:
    """Claims that are false of these heads."""
    return [said(head, relation, "false", False, use, built=built) for head, relation in told]


def drawn(model: Any, seed: int) -> Examples:
    """Strings of the model's grammar with their labels."""
    tokens = model.grammar.draw(generator(seed, "bench/trained/examples"), NUM_EXAMPLES)
    labels = np.asarray(model.grammar.labels(tokens))
    return Examples(tokens, np.where(labels < 0, NO_LABEL, labels))


# -- two hops -----------------------------------------------------------------------------------------------


def _recall(seed: int, folder: Path) -> Subject:
    """One layer cannot do it: layer 0 must bring each token's predecessor to it, layer 1 must match that."""
    model, uses = preset_model("recall", seed, folder), purpose(seed)
    claims = [
        said(FIRST, PREVIOUS, "two-hop", True, "used", uses),
        said(SECOND, AFTER_LAST_COPY, "one-hop", True, "used", uses),
        said(SECOND, INDUCTION, "one-hop", None, "used", uses),
        *false(RECALL_FALSE),
    ]
    return Subject(model, tuple(claims), drawn(model, seed), grammar=model.grammar, least=0.9)


def _markov(seed: int, folder: Path) -> Subject:
    model, uses = preset_model("markov", seed, folder), purpose(seed)
    claims = [
        said(FIRST, PREVIOUS, "two-hop", True, "used", uses),
        said(SECOND, INDUCTION, "one-hop", True, "used", uses),
        *false(MARKOV_FALSE),
    ]
    return Subject(model, tuple(claims), likeliest(model, seed), grammar=model.grammar, least=0.8)


def likeliest(model: Any, seed: int) -> Examples:
    """Strings of a chain; the label is the state that followed the current one most often, by `LEAD` at least."""
    grammar = model.grammar
    tokens = grammar.draw(generator(seed, "bench/trained/examples"), NUM_EXAMPLES // 2)
    counts = np.zeros((len(tokens), grammar.states, grammar.states), dtype=np.int64)
    labels, each = np.full(tokens.shape, NO_LABEL), np.arange(len(tokens))
    for at in range(tokens.shape[1]):
        if at:
            counts[each, tokens[:, at - 1], tokens[:, at]] += 1
        here = counts[each, tokens[:, at]]
        ranked = np.sort(here, axis=-1)
        labels[:, at] = np.where(ranked[:, -1] - ranked[:, -2] >= LEAD, here.argmax(-1), NO_LABEL)
    return Examples(tokens, labels)


# -- one layer ----------------------------------------------------------------------------------------------


def _flipflop(seed: int, folder: Path) -> Subject:
    """The one head of the one layer must find the last write. How far back it does is a matter of training: `tail`."""
    model, uses = preset_model("flipflop-1l1h", seed, folder), purpose(seed)
    by_name: Mapping[str, Relation] = {r.name: r for r in WRITES}
    law = model.grammar.with_ignore(IGNORED)
    # One string in five has no second write, so that a few strings make up most long gaps; an audit counts each once.
    tokens = np.unique(law.draw(generator(seed, "bench/trained/examples"), 2 * NUM_EXAMPLES), axis=0)
    claims = [
        said(FIRST, LAST_WRITE, "true", True, "used", uses),
        *(said(FIRST, LAST_WRITE, "tail", None, None, uses, gap_at_least(gap)) for gap in GAPS),
        *false(((FIRST, by_name["write-before"]), (FIRST, PREVIOUS), (FIRST, BUILT_IN["current"]))),
    ]
    inputs = law.draw(generator(seed, "bench/trained/inputs"), 2 * NUM_INPUTS)
    examples = Examples(tokens, np.asarray(law.labels(tokens)))
    return Subject(model, tuple(claims), examples, inputs, model.grammar, 0.9)


def _facts(seed: int, folder: Path) -> Subject:
    """The query is END, always. Both the subject and the relation must be read; training decides which head reads
    which, so that truth is measured head by head."""
    model, uses = preset_model("facts", seed, folder), purpose(seed)
    heads = [(0, head) for head in range(model.config.n_heads)]
    claims = [said(h, r, "fixed-query", None, None, uses, ASKED) for h in heads for r in WHOSE]
    return Subject(model, tuple(claims), drawn(model, seed), grammar=model.grammar, least=0.9)


# -- made from these without training -----------------------------------------------------------------------


def _graft(seed: int, folder: Path) -> Subject:
    """Recall, with two more heads a layer that look where the trained one looks: head 1 says something faint and
    random, head 2 nothing at all (its W_O is 0)."""
    given = preset_model("recall", seed, folder)
    model = SandboxTransformer(replace(given.config, n_heads=3), given.grammar, dict(given.provenance))
    state = given.state_dict()
    for name, tensor in model.state_dict().items():
        tensor.copy_(state[name])  # heads come first in the shapes of heads' weights: all three get the one's
    rng = generator(seed, "bench/trained/graft")
    with torch.no_grad():
        for block in model.blocks:
            size = block.attn.W_O[0].std()
            noise = torch.from_numpy(rng.standard_normal(tuple(block.attn.W_O[1].shape))).float()
            block.attn.W_O[1] = FAINT * size * noise
            block.attn.W_O[2] = 0.0
    uses = purpose(seed)
    claims = [
        said(FIRST, PREVIOUS, "two-hop", True, "used", uses),
        said(SECOND, AFTER_LAST_COPY, "one-hop", True, "used", uses),
    ]
    for head, kind in ((1, "decoy"), (2, "idle")):
        claims += [
            said((0, head), PREVIOUS, kind, True, "unused", uses),
            said((1, head), AFTER_LAST_COPY, kind, True, "unused", uses),
        ]
    return Subject(model, tuple(claims), drawn(model, seed), grammar=model.grammar, least=0.9)


def _untrained(seed: int, folder: Path) -> Subject:
    """A model before training looks nowhere, and has no task that it could use a head for."""
    given = preset_model(("recall", "markov")[seed % 2], seed, folder)
    return _nothing(SandboxTransformer.init(given.config, seed, given.grammar), seed)


def _shuffled(seed: int, folder: Path) -> Subject:
    """A trained model's numbers, in another order within each weight."""
    given = preset_model(("recall", "markov")[seed % 2], seed, folder)
    model = SandboxTransformer(given.config, given.grammar, dict(given.provenance))
    rng = generator(seed, "bench/trained/shuffle")
    state = {
        name: torch.from_numpy(rng.permutation(tensor.numpy().ravel()).reshape(tensor.shape))
        for name, tensor in given.state_dict().items()
    }
    model.load_state_dict(state)
    return _nothing(model, seed)


def _nothing(model: Any, seed: int) -> Subject:
    """Claims that are true of a trained twin and false of this one; its use is never `used`."""
    found = ((FIRST, PREVIOUS), (SECOND, INDUCTION))
    rest = RECALL_FALSE if seed % 2 == 0 else MARKOV_FALSE
    claims = false((*found, *rest[:3]), "unused", built=True)
    return Subject(model, tuple(claims), drawn(model, seed), grammar=model.grammar)


PRESET_FAMILIES = (
    Family("recall", "2 layers of 1 head recall what followed the last copy", _recall),
    Family("markov", "2 layers of 1 head count in context", _markov),
    Family("flip-flop", "1 layer of 1 head keeps a bit", _flipflop),
    Family("facts", "4 heads look a fact up at END", _facts),
    Family("grafted", "recall, and heads with its patterns and no say", _graft, ("recall",)),
    Family("untrained", "recall and markov before training", _untrained, ("recall", "markov")),
    Family("shuffled", "recall and markov, their weights shuffled", _shuffled, ("recall", "markov")),
)
