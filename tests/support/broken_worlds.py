"""Worlds that are broken in one place, by the check that catches them: how each is made, and what is said of it."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

import parity
from interp.claims import Made
from interp.constraints import Annotated, Interval, Literal, doc
from interp.errors import InterpError
from interp.settings import TrainingSettings
from interp.training.task import TokenTask
from interp.unread import Unread
from interp.world import Column, Overlay, World
from interp.worlds.markov import MarkovGrammar
from parity import PAD, Parity, ParityQuestion, ParitySettings, lent, world


def kind(**how):
    """`Parity` with other attributes, as a frozen dataclass of the same name."""
    return dataclass(frozen=True)(type("Parity", (Parity,), {"__module__": __name__, **how}))


def changed(method, change):
    """`Parity` whose method gives what `change` makes of (its result, self, arguments)."""

    def run(self, *args):
        return change(getattr(Parity, method)(self, *args), self, *args)

    return kind(**{method: run})


def chains(told):
    """Chains whose `latent_rungs` gives what `told` makes of (the right one, generator, how many)."""

    def latent_rungs(self, rng, count):
        return told(lambda: MarkovGrammar.latent_rungs(self, rng, count), rng, count)

    small = classmethod(lambda cls: cls(length=6, first="uniform"))
    parts = {"__module__": __name__, "KIND": "chains", "latent_rungs": latent_rungs, "small": small}
    made = dataclass(frozen=True)(type("Chains", (MarkovGrammar,), parts))
    return World(name="chains", about="chains whose kernels are told wrongly", grammars=(made,))


KEPT = ("__annotations__", "__post_init__")
Thawed = dataclass(type("Parity", (), {k: v for k, v in vars(Parity).items() if k in KEPT or not k.startswith("__")}))


@dataclass(frozen=True)
class Counting(Parity):
    """Another option, without documentation."""

    more: int = 1

    @classmethod
    def from_dict(cls, data):
        return cls(**{name: value for name, value in data.items() if name != "kind"})


@dataclass(frozen=True)
class Idle(Counting):
    more: Annotated[int, doc("read by nothing")] = 1


@dataclass(frozen=True)
class Forgetful(Idle):
    @classmethod
    def from_dict(cls, data):
        return cls(data["length"], data["ones"])


def settings(name="more", **parts):
    """Settings with one further field of a type and default."""
    field, default = parts.pop("field"), parts.pop("default")
    space = {"__annotations__": {name: field}, name: default, "__module__": __name__, **parts}
    return dataclass(frozen=True)(type("Settings", (TrainingSettings,), space))


@dataclass(frozen=True)
class Unchecked(ParitySettings):
    def __post_init__(self):
        object.__setattr__(self, "snapshots", tuple(self.snapshots))


@dataclass(frozen=True)
class Lossy(ParitySettings):
    LATER: ClassVar = {"noise": 1.0}  # which is not the default


def preset(**changes):
    """The world's presets, the first one changed."""
    first, *rest = world().presets.items()
    return dict([(first[0], replace(first[1], **changes)), *rest])


def claims(**changes):
    return replace(parity.CLAIMS, **changes)


def relation(keys, **changes):
    return claims(relations=(replace(parity.ONES, keys=keys, **changes),))


def condition(rows, **changes):
    return claims(conditions=(replace(parity.AT_ONE, rows=rows, **changes),))


def made(written, pattern, make):
    return claims(relations_made=(Made(written, pattern, make),))


def question(change):
    """The world's question, its items changed: `change` (items, tokens, seed) -> items."""

    class Changed(ParityQuestion):
        def items(self, tokens, grammar, rows, seed, kind="own"):
            return change(super().items(tokens, grammar, rows, seed, kind), tokens, seed)

    return claims(questions=(Changed(),))


class Unkind(ParityQuestion):
    def items(self, tokens, grammar, rows, seed):
        return super().items(tokens, grammar, rows, seed)


class Deaf(ParityQuestion):
    """Reads anywhere."""

    def items(self, tokens, grammar, rows, seed, kind="own"):
        return super().items(tokens, grammar, np.ones_like(rows), seed, kind)


def elsewhere(items, tokens, seed):
    """One more bit of the donors is flipped, where there is none of `flipped`."""
    donors = items.donors.copy()
    other = np.where(items.flipped == 0, 1, 0)
    each = np.arange(len(donors))
    donors[each, other] = 1 - donors[each, other]
    return replace(items, donors=donors)


def overlay(values, shown="targets", name=str):
    return {"mine": Overlay(shown, lambda tokens, grammar: values(tokens), "mine", name=name)}


def embedding(**changes):
    return {"parity-state": replace(parity.EMBEDDINGS["parity-state"], **changes)}


def exam(changes):
    return lent(lambda grammar: replace(parity.vouch(grammar), **changes(grammar)))


def drawn_alike(change):
    """A task whose batches are what `change` makes of (batch, seed, steps)."""

    class Changed(TokenTask):
        def draw(self, seed, steps):
            return change(super().draw(seed, steps), seed, steps)

    return lent(Changed)


class Sociable(TokenTask):
    """Seeds weigh each other's losses."""

    def __call__(self, params, *batch):
        losses = super().__call__(params, *batch)
        return losses * losses.detach().mean()


class Flat(TokenTask):
    """Nothing is learned."""

    def __call__(self, params, *batch):
        return 0 * super().__call__(params, *batch)


class Measured(TokenTask):
    """With one more measure, of `value` for the seed among `seeds`."""

    value = staticmethod(lambda seeds: np.zeros(seeds))

    def metrics(self, params, final):
        found = super().metrics(params, final)
        seeds = len(found["loss"])
        return found | {"more": self.value(seeds)}


class Compared(Measured):
    value = staticmethod(lambda seeds: np.arange(seeds) / seeds + seeds)


class Infinite(Measured):
    value = staticmethod(lambda seeds: np.full(seeds, np.inf))


class Unmeasured(TokenTask):
    def metrics(self, params, final):
        return {"accuracy": super().metrics(params, final)["accuracy"]}


def constructed(change):
    def construct(name):
        model = parity.construct(name)
        return change(model) or model

    return lent(construct)


def unfinished(model):
    with torch.no_grad():
        model.unembed.W_U.fill_(float("nan"))


def adopt(change):
    return lent(lambda names, *rest: change(parity.adopt(names, *rest), names))


def uneven_draws(tokens, self, rng, count):
    tokens[:, 0] = 0
    return tokens


def rows_apart(labels, self, tokens):
    return np.where((np.arange(len(tokens)) == 1)[:, None] & (labels >= 0), 1 - labels, labels)


def first_row_apart(found):
    return found ^ (np.arange(len(found)) == 1).reshape(-1, *[1] * (found.ndim - 1))


COUNT, CALLS, SIZES = itertools.count(2), itertools.count(), itertools.count(16)


def stubborn(grammar):
    if grammar.length != 6:
        raise InterpError("no")


def nan_embedding(config):
    return lambda tokens: torch.full((*tokens.shape, 5), float("nan"))


BROKEN = {
    "parts": [
        (lambda: world(about=" "), "about=' ' says nothing"),
        (lambda: world(grammars=()), "it has no grammar"),
        (lambda: replace(world(), settings=int), "are no settings"),
        (lambda: world(task="parity:Nothing"), "task='parity:Nothing' names nothing"),
        (lambda: world(embeddings=embedding(read="parity:nothing")), "read of parity-state='parity:nothing' names"),
        (lambda: world(kin=("parrots",)), "kin='parrots' is not a world"),
        (lambda: world(construct=None), "constructed names models"),
        (lambda: world(kind(KIND="dyck")), "KIND='dyck' is that of a grammar of world 'dyck', too"),
        (
            lambda: world(presets={"dyck-copy": preset()["parity-small"]}),
            "presets has \\['dyck-copy'\\], and world 'copying'",
        ),
    ],
    "grammars": [
        (
            lambda: world(kind(vocab=property(lambda self: ("0", "1", str(next(COUNT)))))),
            "the vocabulary that comes back from to_dict is another",
        ),
        (lambda: world(Thawed), "is not a frozen dataclass"),
        (lambda: world(kind(vocab=["0", "1", "_"])), "is not a tuple of texts"),
        (lambda: world(kind(vocab=("0", "0", "_"))), "have one name"),
        (lambda: world(kind(vocab_size=4)), "vocab_size=4, and vocab names 3 tokens"),
        (lambda: world(kind(label_names=("even", "even"))), "are no distinct texts"),
        (lambda: world(kind(pad=3)), "pad=3 is not a token id"),
        (lambda: world(kind(to_dict=lambda self: {"kind": "other"})), "says kind 'other'"),
        (lambda: world(changed("to_dict", lambda told, self: told | {"also": {1, 2}})), "is no JSON"),
        (lambda: world(kind(from_dict=classmethod(lambda cls, data: cls(length=9)))), "comes back from to_dict as"),
        (lambda: world(kind(__hash__=lambda self: id(self))), "have two hashes"),
        (lambda: world(kind(small=classmethod(lambda cls: Parity(3)))), "which is no Parity"),
        (lambda: world(kind(__init__=lambda self, length, ones: None)), "cannot be made without arguments"),
    ],
    "texts": [
        (lambda: world(changed("format", lambda text, self, tokens: text[::-1])), "is read as"),
        (
            lambda: world(changed("to_tokens", lambda ids, self, texts: ids[:, ::-1] if len(ids) > 1 else ids)),
            "together",
        ),
    ],
    "settings": [
        (lambda: world(settings=settings(field=Annotated[int, Interval(ge=0, le=9)], default=1)), "'more' has no help"),
        (lambda: world(settings=settings(field=Annotated[int, doc("more")], default=1)), "'more' has no bounds"),
        (lambda: world(settings=settings(field=Annotated[str, doc("more")], default="")), "'more' takes <object"),
        (lambda: world(settings=Unchecked), "takes .*: call check_fields in __post_init__"),
        (lambda: world(settings=Lossy), "settings with noise=1 come back from to_dict"),
        (
            lambda: world(
                settings=settings(
                    field=Annotated[Literal["a", "b"], doc("more")],
                    default="a",
                    LATER={"more": "b"},
                )
            ),
            "settings with more='b' come back",
        ),
    ],
    "presets": [
        (
            lambda: world(settings=Lossy, presets=preset(settings=Lossy(noise=1))),
            "the recipe of preset 'parity-small' comes",
        ),
        (lambda: world(presets=preset(about="")), "preset 'parity-small' does not say what it is"),
        (lambda: world(presets=preset(grammar=kind())), "is for Parity, no grammar of this world"),
        (lambda: world(presets=preset(settings=TrainingSettings())), "not its own"),
        (
            lambda: world(presets=preset(model=lambda grammar, sizes=SIZES: parity.config(grammar, d_mlp=next(sizes)))),
            "another model than its own",
        ),
    ],
    "unread": [
        (
            lambda: world(unread=(Unread(("settings.noize",), lambda recipe: True, "why"),)),
            "'settings.noize' names a field",
        ),
        (lambda: world(unread=(Unread(("noise",), lambda recipe: True, "why"),)), "'noise' names a field"),
        (lambda: world(unread=(Unread(("settings.noise",), lambda recipe: True, ""),)), "does not say why"),
        (lambda: world(unread=(Unread(("settings.noise",), lambda recipe: None, "why"),)), "answers None"),
    ],
    "options": [
        (lambda: world(options={"lr": "size"}), "option \\['lr'\\] is a key of models or settings already"),
        (lambda: world(options={"size": "size"}), "option 'size' sets 'size', a field that no grammar has"),
        (lambda: world(Counting, options={"more": "more"}), "option 'more' of grammar Counting is not documented"),
        (lambda: world(Idle, options={"more": "more"}), "option 'more' changes nothing: preset 'parity-small'"),
        (lambda: world(Forgetful, options={"more": "more"}), "option 'more' of grammar Forgetful is lost"),
        (lambda: world(kind(__eq__=lambda self, other: True, __hash__=lambda self: 0)), "does not count"),
        (lambda: world(kind(__post_init__=lambda self: stubborn(self))), "no value but 6 is accepted"),
    ],
    "sampling": [
        (
            lambda: world(changed("draw", lambda t, self, rng, n: np.where(np.random.rand(*t.shape) < 0.5, t, 0))),
            "again",
        ),
        (
            lambda: world(task=drawn_alike(lambda batch, seed, steps: [x + (len(steps) > 3) for x in batch])),
            "drawn apart",
        ),
        (
            lambda: world(
                task=lent(
                    type("Blind", (TokenTask,), {"draw": lambda self, seed, steps: TokenTask.draw(self, 0, steps)})
                )
            ),
            "seeds 5 and 6 draw the same",
        ),
    ],
    "labels": [
        (lambda: world(kind(labels=property(lambda self: self.nothing))), "has no labels\\(\\)"),
        (lambda: world(changed("labels", lambda labels, self, t: labels[:, :-1])), "have shape"),
        (lambda: world(changed("labels", lambda labels, self, t: labels / 1)), "of type float64"),
        (lambda: world(changed("labels", lambda labels, self, t: labels + 1)), "hold"),
        (
            lambda: world(changed("labels", lambda labels, self, t: np.full(t.shape, -100))),
            "none of 64 strings has any",
        ),
        (lambda: world(changed("labels", rows_apart)), "depend on the other strings of a batch"),
        (lambda: world(changed("labels", lambda labels, self, t: np.maximum(labels, 0))), "PAD has the label"),
        (
            lambda: world(kind(classes=lambda self, t: {"at_one": t})),
            "class 'at_one' of grammar Parity are of type int64",
        ),
    ],
    "law": [
        (lambda: world(changed("enumerate", lambda e, self: (e[0], e[1] * 1.001))), "sum to 1.001, not to 1"),
        (lambda: world(changed("enumerate", lambda e, self: (e[0], e[1][:-1]))), "no \\[n, length\\] and \\[n\\]"),
        (lambda: world(changed("enumerate", lambda e, self: (np.r_[e[0], e[0]], np.r_[e[1], e[1]] / 2))), "twice"),
        (
            lambda: world(changed("enumerate", lambda e, self: (np.r_[e[0], [[2] * 6]], np.r_[e[1], 0.0]))),
            "probability 0",
        ),
        (lambda: world(changed("enumerate", lambda e, self: (e[0] + 1, e[1]))), "enumerated tokens hold"),
        (lambda: world(changed("enumerate", lambda e, self: (e[0][1:], e[1][1:] / e[1][1:].sum()))), "does not list"),
        (lambda: world(changed("draw", uneven_draws)), "do not have the enumerated frequencies"),
        (
            lambda: world(changed("draw", lambda t, self, rng, n: Parity.draw(self, np.random.default_rng(), n))),
            "two samples",
        ),
        (lambda: world(changed("law_nll", lambda law, self, t: law + 1e-8)), "and the enumeration says 0"),
        (lambda: world(changed("law_nll", lambda law, self, t: law[:, :-1])), "law_nll has shape"),
    ],
    "rungs": [
        (lambda: chains(lambda right, rng, count: (rng.random(), right())[1]), "draws other numbers than draw"),
        (
            lambda: chains(lambda right, rng, count: {"kernel": np.roll(right()["kernel"], 1, axis=0)}),
            "about other strings than those that draw gives",
        ),
        (
            lambda: chains(lambda right, rng, count: {"kernel": 1 + right()["kernel"]}),
            "knows more than is read, and loses",
        ),
        (lambda: chains(lambda right, rng, count: {"unigram": right()["kernel"]}), "latent_rungs both have 'unigram'"),
        (lambda: world(kind(rungs=lambda self, t: {"uniform": np.full(t.shape, np.log(3))})), "from log 2"),
        (
            lambda: world(kind(rungs=lambda self, t: {"best": np.full(t.shape, -1e-6)})),
            "rung best gives numbers that are no surprise",
        ),
        (lambda: world(kind(rungs=lambda self, t: {"none": np.where(t == 1, np.inf, 1.0)})), "rung none gives numbers"),
        (lambda: world(changed("law_nll", lambda law, self, t: law - 0.1)), "below 0"),
        (lambda: world(changed("law_nll", lambda law, self, t: law + 0.9)), "beats the exact law"),
    ],
    "inputs": [
        (lambda: world(sentence=lambda grammar: 3), "sentence gives 3, neither a text nor None"),
        (lambda: world(sentence=lambda grammar: "0x1"), "no token fits 'x1'"),
        (lambda: world(inputs=lambda grammar, count, seed, stream: ["010"] * 3), "shown of grammar Parity have shape"),
        (lambda: world(inputs=lambda grammar, count, seed, stream: ["010"] * count), "shown .*: seeds 0 to 7 give"),
        (
            lambda: world(inputs=lambda g, count, seed, stream: g.draw(np.random.default_rng(), count)),
            "shown .*: the same seed, drawn again",
        ),
        (
            lambda: world(inputs=lambda g, count, seed, stream: 1 + g.draw(np.random.default_rng(seed), count)),
            "inputs shown of grammar Parity hold",
        ),
        (
            lambda: world(claims=claims(inputs=lambda g, count, *how: g.draw(np.random.default_rng(0), count - 1))),
            "64 were",
        ),
        (
            lambda: world(claims=claims(inputs=lambda g, n, length, seed, s: g.draw(np.random.default_rng(), n))),
            "drawn again",
        ),
        (
            lambda: world(claims=claims(inputs=lambda g, n, *how: g.draw(np.random.default_rng(0), n))),
            "seeds 0 to 7 give",
        ),
        (
            lambda: world(claims=claims(inputs=lambda g, n, most, seed, s: 2 + g.draw(np.random.default_rng(seed), n))),
            "hold",
        ),
        (lambda: world(claims=claims(longest=lambda grammar, length: 4)), "have 6 tokens, and longest announces 4"),
        (lambda: world(claims=claims(roles=lambda tokens, grammar: tokens[:, 1:])), "roles are no class"),
    ],
    "relations": [
        (
            lambda: world(claims=relation(lambda t, g, v: (t == 1)[:, None, :] & np.ones_like(v))),
            "not visible \\(causal\\)",
        ),
        (
            lambda: world(claims=relation(lambda t, g, v: first_row_apart(parity.keys_of(t, v)) & v)),
            "other inputs of a batch",
        ),
        (
            lambda: world(claims=relation(lambda t, g, v: v & (np.arange(t.shape[1]) == t.shape[1] // 2))),
            "where PAD follows",
        ),
        (lambda: world(claims=relation(lambda t, g, v: v & False)), "has no key on any"),
        (lambda: world(claims=relation(lambda t, g, v: (v & 1).astype(int))), "of type int64"),
        (lambda: world(claims=relation(lambda t, g, v: v[0])), "have shape"),
        (lambda: world(claims=relation(lambda t, g, v: (v.fill(True), v)[1])), "changes the arrays"),
        (lambda: world(claims=relation(parity.ONES.keys, needs="parrots")), "needs 'parrots', which is none of"),
        (lambda: world(claims=relation(parity.ONES.keys, kind="much")), "is of kind 'much'"),
    ],
    "conditions": [
        (lambda: world(claims=condition(lambda t, g, k: t)), "of type int64"),
        (lambda: world(claims=condition(lambda t, g, k: (t == 1)[:, 1:])), "have shape"),
        (lambda: world(claims=condition(lambda t, g, k: first_row_apart(t == 1))), "other inputs of a batch"),
        (
            lambda: world(claims=condition(lambda t, g, k: np.arange(t.shape[1]) >= t.shape[1] + 0 * t - 3)),
            "where PAD follows",
        ),
        (lambda: world(claims=condition(lambda t, g, k: t == 1, needs="parrots")), "needs 'parrots'"),
        (
            lambda: world(
                claims=claims(suggest=lambda g, n: [replace(parity.AT_ONE, name="x", rows=lambda t, g, k: t)])
            ),
            "condition 'x'",
        ),
    ],
    "wordings": [
        (
            lambda: world(
                claims=made(
                    "ones in the last n positions",
                    r"ones in last (\d+) position",
                    lambda n: replace(parity.recent(n), words="ones in the last 3 positions"),
                )
            ),
            "makes 'recent-3', not 'recent-1'",
        ),
        (
            lambda: world(claims=made("ones in the last n positions", r"ones in the last (\d+)", parity.recent)),
            "does not read",
        ),
        (lambda: world(claims=made("recent n", r"recent (\d+)", parity.recent)), "does not read 'ones in the last 1"),
        (
            lambda: world(
                claims=made("ones in the last n positions", r"ones in last (\d+) position", lambda n: parity.recent(4))
            ),
            "'recent-4'",
        ),
        (
            lambda: world(
                claims=made(
                    "ones in the last n positions",
                    r"ones in last (\d+) position",
                    lambda n: replace(parity.recent(n), name="recent"),
                )
            ),
            "makes the same, 'recent', of two numbers",
        ),
        (
            lambda: world(claims=made("ones in the last n positions", r"ones in last (\d+) position", int)),
            "no Relation",
        ),
        (
            lambda: world(
                claims=made(
                    "ones in the last n positions",
                    r"ones in last (\d+) position",
                    lambda n: replace(parity.recent(n), keys=lambda t, g, v: v & False),
                )
            ),
            "has no key",
        ),
        (
            lambda: world(
                claims=claims(
                    conditions_made=(
                        replace(
                            parity.CLAIMS.conditions_made[0],
                            make=lambda n: replace(parity.count_at_least(n), rows=lambda t, g, k: t),
                        ),
                    )
                )
            ),
            "of type int64",
        ),
    ],
    "questions": [
        (lambda: world(claims=claims(question=lambda grammar: "parrity")), "asked 'parrity', which is not a question"),
        (lambda: world(claims=claims(questions=(Unkind(),))), "kind 'own': items\\(\\) takes no kind="),
        (lambda: world(claims=question(lambda items, t, seed: items.first(0))), "no item on any"),
        (lambda: world(claims=question(lambda items, t, seed: replace(items, foil=items.answer))), "answer and foil"),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, answer=items.answer + 9))),
            "answers hold",
        ),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, sequence=items.sequence // 2 * 2))),
            "two items",
        ),
        (lambda: world(claims=claims(questions=(Deaf(),))), "a row that was not asked"),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, donors=items.tokens))),
            "same token at flipped",
        ),
        (lambda: world(claims=question(elsewhere)), "differs beyond flipped and what goes with it"),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, read=items.flipped * 0))),
            "read does not look",
        ),
        (
            lambda: world(
                claims=question(lambda items, t, seed: replace(items, tokens=items.donors, donors=items.tokens))
            ),
            "not those of the input",
        ),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, answer=items.foil, foil=items.answer))),
            "not from answer to foil",
        ),
        (
            lambda: world(
                claims=question(lambda items, t, seed, calls=CALLS: items.first(len(items) - next(calls) // 2 % 2))
            ),
            "gives another 'sequence'",
        ),
        (lambda: world(claims=question(lambda items, t, seed: items.first(len(items) - seed))), "asks other inputs"),
        (
            lambda: world(
                kind(
                    labels=lambda self, t: np.where(t == PAD, -100, 0),
                    law_nll=lambda self, t: np.ones(t.shape),  # so that no answer is certain
                ),
                claims=question(
                    lambda items, t, seed: replace(items, answer=0 * items.read + seed, foil=0 * items.read + 1 - seed)
                ),
            ),
            "another seed changes the right answer",
        ),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, seen=items.tokens))),
            "seen are of type int64",
        ),
        (
            lambda: world(claims=question(lambda items, t, seed: replace(items, flipped=None, donors=items.tokens))),
            "a donor is the input itself",
        ),
        (
            lambda: world(kind(counterfactual=lambda self, tokens, at: 1 - tokens)),
            "a donor lacks what goes with flipped",
        ),
    ],
    "overlays": [
        (lambda: world(overlays=overlay(lambda tokens: tokens / 2)), "gives float64"),
        (lambda: world(overlays=overlay(lambda tokens: tokens[1:])), "has shape"),
        (lambda: world(overlays=overlay(lambda tokens: tokens * 0 - 2)), "holds -2, below -1"),
        (lambda: world(overlays=overlay(lambda tokens: tokens * 0 + len(tokens))), "holds 6, and the last key is 5"),
        (lambda: world(overlays=overlay(lambda tokens: tokens * 0 - 1, "levels")), "holds -1, below 0"),
        (lambda: world(overlays=overlay(lambda tokens: tokens, "groups", name=lambda n: "")), "which is not a name"),
        (lambda: world(overlays={"one": replace(parity.OVERLAYS["ones"], about="")}), "does not say what it shows"),
        (
            lambda: world(overlays={"one": replace(parity.OVERLAYS["ones"], kind="shades")}),
            "'shades', which is none of targets",
        ),
    ],
    "embeddings": [
        (lambda: world(embeddings=embedding(states=lambda config: 4)), "states read hold"),
        (
            lambda: world(embeddings=embedding(width=lambda config: 16), presets=preset()),
            "fixes d_model=16|vectors of shape",
        ),
        (lambda: world(embeddings=embedding(build=lent(lambda config: torch.nn.Embedding(5, 6)))), "vectors of shape"),
        (
            lambda: world(embeddings=embedding(read=lent(lambda config, tokens: tokens[:, 1:]))),
            "states read have shape",
        ),
        (
            lambda: world(embeddings=embedding(build=lent(nan_embedding))),
            "gives logits that are not finite",
        ),
        (lambda: world(embeddings=embedding(), presets={}), "fits the model of no preset"),
    ],
    "vouch": [
        (lambda: world(vouch=exam(lambda g: {"chance": 0.4})), "chance is 0.4, and 2 candidates give 0.5"),
        (lambda: world(vouch=exam(lambda g: {"kin": lambda other: False})), "for kin"),
        (lambda: world(vouch=exam(lambda g: {"task": ""})), "does not say its task"),
        (
            lambda: world(vouch=exam(lambda g: {"draw": lambda n, length, seed: g.draw(np.random.default_rng(), n)})),
            "again",
        ),
        (
            lambda: world(vouch=exam(lambda g: {"draw": lambda n, length, seed: g.draw(np.random.default_rng(0), 9)})),
            "draws 9",
        ),
        (lambda: world(vouch=exam(lambda g: {"also_legal": lambda best, t: best})), "what else is legal are of type"),
        (lambda: world(vouch=exam(lambda g: {"questions": lambda t: (t > 9, t, np.arange(2))})), "asks nothing"),
        (
            lambda: world(vouch=exam(lambda g: {"questions": lambda t: (t < 9, t, np.arange(2))})),
            "none of the candidates",
        ),
        (lambda: world(vouch=exam(lambda g: {"questions": lambda t: (t < 9, t, np.zeros(1, int))})), "leave no choice"),
    ],
    "adopt": [
        (lambda: world(adopt=adopt(lambda found, names: found or parity.adopt(Parity.vocab, *[None] * 4))), "zq-1"),
        (lambda: world(adopt=adopt(lambda found, names: None)), "does not know the vocabulary"),
        (lambda: world(adopt=adopt(lambda found, names: found and replace(found, order=[1, 0, 2]))), "maps the ids"),
    ],
    "constructed": [
        (lambda: world(construct=lent(lambda name: name)), "no SandboxTransformer"),
        (lambda: world(constructed={"constructed/parity": ""}), "does not say what it is"),
        (lambda: world(construct=constructed(unfinished)), "not finite"),
        (lambda: world(construct=constructed(lambda model: setattr(model, "grammar", None))), "carries None"),
        (
            lambda: world(construct=constructed(lambda model: model.provenance.clear())),
            "does not say that it is constructed",
        ),
    ],
    "training": [
        (lambda: world(task=lent(Sociable)), "seed 0 trained beside another has another"),
        (lambda: world(task=lent(Flat)), "keep the weights that they start with"),
        (lambda: world(task=lent(Compared)), "is measured differently beside another than alone"),
    ],
    "saving": [
        (
            lambda: world(changed("to_dict", lambda told, self: told | {"at": next(COUNT)})),
            "what its file gives is saved as other bytes",
        ),
        (
            lambda: world(kind(vocab=property(lambda self: ("0", "1", str(next(COUNT)))))),
            "vocabulary of .* is not the one",
        ),
    ],
    "metrics": [
        (
            lambda: world(columns={"sense": "sense"}),
            "'sense' is shown and not measured; measured are accuracy, .*loss",
        ),
        (
            lambda: world(columns={"loss": Column("nats", most=1e-3)}),
            "column 'loss' is .*, and its Column goes from 0 to",
        ),
        (lambda: world(measures=("sense",)), "measure 'sense' is announced, and no preset has a finite number for it"),
        (
            lambda: world(task=lent(Infinite), columns={"more": "more"}),
            "'more' is announced, and no preset has a finite",
        ),
        (lambda: world(task=lent(Unmeasured), columns={}, measures=()), "no loss is measured"),
    ],
}
