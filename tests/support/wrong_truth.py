"""Worlds that are well made and say what is not true, by the check that catches them."""

from dataclasses import replace

import numpy as np

import parity
from broken_worlds import changed, claims, kind, overlay, question, relation
from interp.errors import RequestError
from parity import PAD, lent, world
from right_worlds import FORESEEING, Lawful, ListedParity, Sticky, WholeParity, of
from right_worlds import kind as kind_of


def lawful(law, base=Lawful):
    """The chain of letters with another law: `law` (self, tokens) -> nats."""
    return of(kind_of(base, law_nll=law))


def by_the_one_before(self, tokens):
    """The chain's law, by the letter before the last one."""
    before = np.concatenate([tokens[:, :1], tokens[:, :-1]], axis=1)
    return -np.log(np.where(before == self.labels(tokens), self.again, (1 - self.again) / 2))


def by_what_comes(self, tokens):
    """The chain's law where the last letter is an a; even where it is not."""
    return np.where(tokens[:, -1:] == 0, Lawful.law_nll(self, tokens), np.log(3))


def large_samples(change):
    """A chain whose large samples are what `change` makes of (tokens, generator)."""

    def draw(self, rng, count):
        tokens = Sticky.draw(self, rng, count)
        return change(tokens, rng) if count > 1000 else tokens

    return of(kind_of(Sticky, draw=draw))


def shuffled(tokens, rng):
    """Each position by itself: every letter is as frequent as before, and pairs are not."""
    return np.stack([rng.permutation(column) for column in tokens.T], axis=1)


def late(labels, self, tokens):
    """A label one step late."""
    return np.where(tokens == PAD, -100, np.concatenate([0 * labels[:, :1], labels[:, :-1]], axis=1))


def reference(**changes):
    return world(reference=lent(replace(parity.REFERENCE, **changes)))


def next_copies(tokens, grammar, visible):
    """Keys with the token that comes next."""
    following = np.concatenate([tokens[:, 1:], 0 * tokens[:, :1] + PAD], axis=1)
    return visible & (following[:, :, None] == tokens[:, None, :])


def at_the_end(tokens, grammar, visible):
    """The ones, in strings that begin with what they end with."""
    last = np.where(tokens == PAD, -1, np.arange(tokens.shape[1])).argmax(1)
    whole = tokens[np.arange(len(tokens)), last] == tokens[:, 0]
    return parity.keys_of(tokens, visible) & whole[:, None, None]


def unmoved(swap=False):
    """A question on the last bit of strings whose label is their first bit, in which the last bit is flipped."""

    def change(items, tokens, seed):
        first, each = items.tokens[:, 0], np.arange(len(items))
        keep = items.read > 0
        donors = items.tokens.copy()
        donors[each, items.read] = 1 - donors[each, items.read]
        answer = 1 - first if swap else first
        found = replace(items, donors=donors, flipped=items.read, answer=answer, foil=1 - answer)
        parts = {n: getattr(found, n)[keep] for n in ("sequence", "tokens", "donors", "read", "flipped")}
        return replace(found, **parts, answer=answer[keep], foil=1 - answer[keep])

    return question(change)


def labelled_by_first(**how):
    return kind(labels=lambda self, t: np.where(t == PAD, -100, t[:, :1]), **how)


LAWLESS = {"law_nll": property(lambda self: self.nothing)}


def two_bits(self, tokens, at):
    """A counterfactual that flips the bit, and the first or second one with it."""
    out, each = tokens.copy(), np.arange(len(tokens))
    for place in (at, np.where(at == 0, 1, 0)):
        out[each, place] = 1 - out[each, place]
    return out


def by_flipped(items, tokens, seed):
    return replace(items, donors=two_bits(None, items.tokens, items.flipped))


def token_labels(**how):
    """Each bit is its own label."""
    return kind(labels=lambda self, t: np.where(t == PAD, -100, t), **how)


def own_bit(items, tokens, seed):
    each = np.arange(len(items))
    found = by_flipped(items, tokens, seed)
    answer = items.tokens[each, items.read]
    return replace(found, answer=answer, foil=1 - answer)


class OwnOnly(parity.ParityQuestion):
    """The bit at `read`, flipped with another one."""

    kinds = ("own",)

    def items(self, tokens, grammar, rows, seed, kind="own"):
        rows = rows & (np.arange(tokens.shape[1]) > 1)
        return own_bit(super().items(tokens, grammar, rows, seed, kind), tokens, seed)


def refuse_all(relation, grammar):
    raise RequestError("no relation")


WRONG = {
    "draws": [
        (lambda: large_samples(lambda t, rng: np.where(t == 2, 1, t)), "tokens at position 0 have other frequencies"),
        (lambda: large_samples(shuffled), "pairs of neighbours at position 0 have .* in 4000 strings .* batches of 8"),
        (
            lambda: world(changed("draw", lambda t, self, rng, n: np.where(t == 1, n > 1000, t))),
            "tokens at position 0 have other frequencies in 4000 strings drawn at once",
        ),
    ],
    "law": [
        (lambda: lawful(by_the_one_before), r"law_nll expects label \d after \[.*\] in .* of .* strings drawn"),
        (lambda: lawful(lambda self, t: np.zeros(t.shape)), r"after \[0\] probabilities that sum to 3, more than 1"),
        (lambda: lawful(lambda self, t: Lawful.law_nll(self, t) + 0.05), "law_nll expects label"),
        (lambda: lawful(by_what_comes), r"law_nll .* has two values: it reads what comes later"),
        (lambda: lawful(lambda self, t: Lawful.law_nll(self, t)[:, :-1]), "law_nll has shape"),
        (
            lambda: of(kind_of(WholeParity, law_nll=lambda self, t: np.full(t.shape, np.log(2))), "bidirectional"),
            r"law_nll expects label \d at 0 of \[.*\] in .* of .* strings drawn",
        ),
        (
            lambda: of(kind_of(ListedParity, law_nll=lambda self, t: np.full(t.shape, np.log(2))), "bidirectional"),
            r"at 0 of \[.*\] is 0.69\d+, and the enumeration says 0",
        ),
        (lambda: of(ListedParity), r"after \[0\] is 0, and the enumeration says 0.69"),
    ],
    "rungs": [
        (
            lambda: of(kind_of(Sticky, rungs=lambda self, t: {"bigram": np.full(t.shape, 0.01)})),
            r"rung 'bigram' .* gives the labels that are met after \[0\] probabilities that sum to 2.97",
        ),
        (
            lambda: of(kind_of(Sticky, rungs=lambda self, t: {"seer": by_what_comes(Lawful(self.length), t)})),
            "rung 'seer' .* reads what comes later",
        ),
    ],
    "reference": [
        (lambda: world(reference=lent(3)), "reference is 3, no Reference"),
        (lambda: reference(keys={"twos": None}), r"keys of the reference names \['twos'\]"),
        (lambda: reference(overlays={"twos": None}), r"overlays of the reference names \['twos'\]"),
        (lambda: reference(labels=lambda row, grammar: [0]), "the reference has 1 entries for"),
        (lambda: world(changed("labels", late)), r"labels of grammar Parity: 0 at \d of .*, and the reference says 1"),
        (lambda: world(changed("law_nll", lambda law, self, t: law + 0.1)), "law_nll of .* is 0.1 at 0 of .* says 0"),
        (
            lambda: world(claims=relation(lambda t, g, v: v & (t == 0)[:, None, :])),
            r"keys \(causal\) of relation 'ones' .* the reference says",
        ),
        (
            lambda: world(overlays=parity.OVERLAYS | {"ones": replace(parity.OVERLAYS["ones"], of=lambda t, g: t)}),
            "overlay 'ones' .* the reference says",
        ),
    ],
    "relations": [
        (lambda: of(WholeParity, **FORESEEING), "'end-like' .* has other keys at query 0 after .* where other"),
        (lambda: world(claims=relation(next_copies)), r"other keys at query \d after \[.*\] where other tokens follow"),
        (lambda: world(claims=relation(at_the_end)), "has other keys at query"),
        (
            lambda: world(
                kind(pad=None), claims=relation(lambda t, g, v: v & (np.arange(t.shape[1]) == t.shape[1] // 2))
            ),
            "where nothing follows",
        ),
    ],
    "questions": [
        (lambda: world(claims=unmoved()), "not from answer to foil|the label at read"),
        (lambda: world(labelled_by_first(), claims=unmoved()), r"the label at read stays [01] within a pair"),
        (lambda: world(labelled_by_first(**LAWLESS), claims=unmoved()), r"the label at read stays [01] within a pair"),
        (
            lambda: world(labelled_by_first(), claims=unmoved(swap=True)),
            "the answer is [01], and the label at read is [01] for certain",
        ),
        (
            lambda: world(
                token_labels(counterfactual=two_bits, enumerate=property(lambda self: self.nothing)),
                claims=claims(questions=(OwnOnly(),)),
            ),
            r"a donor differs from \[.*\] at \[0\], too, and flipping \d alone moves the label to the foil",
        ),
        (
            lambda: world(token_labels(counterfactual=two_bits), claims=claims(questions=(OwnOnly(),))),
            "alone moves the label to the foil",
        ),
    ],
    "overlays": [
        (lambda: of(WholeParity, **FORESEEING), "gives query 0 the key 5, which comes after it"),
        (
            lambda: world(overlays=overlay(lambda t: np.minimum(np.arange(len(t)) + 1, len(t) - 1))),
            "gives query 0 the key 1, which comes after it",
        ),
    ],
    "metrics": [
        (
            lambda: world(changed("law_nll", lambda law, self, t: law + 5)),
            "after 4 steps the loss is 4.* nats below that of the exact law",
        ),
    ],
    "audit": [
        (lambda: world(claims=relation(lambda t, g, v: v[:, :1])), "not bool of shape"),
        (lambda: world(claims=claims(refuse=refuse_all)), "no preset has a grammar in which"),
    ],
}  # fmt: skip
