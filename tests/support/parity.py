"""A small world with every part that a world can have: strings of bits, each labelled by the parity so far.

`world()` builds it, from another grammar or with other parts where a test wants one that is broken; `lent` puts a thing
where a world can name it.
"""

import itertools
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from interp.claims import Claims, Condition, Items, Made, Relation
from interp.config import TransformerConfig
from interp.constraints import Annotated, Interval, doc
from interp.errors import GrammarError
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.settings import TrainingSettings
from interp.unread import Unread
from interp.vocabulary import cut, padded
from interp.world import Adopted, Embedding, Exam, Overlay, Preset, Reference, World

PAD = 2


@dataclass(frozen=True)
class Parity:
    """Strings of `length` bits, or one less; each is 1 with probability `ones`. A label is the parity so far."""

    KIND: ClassVar[str] = "parity"
    has_start: ClassVar[bool] = False
    vocab: ClassVar[tuple[str, ...]] = ("0", "1", "_")
    vocab_size: ClassVar[int] = 3
    pad: ClassVar[int] = PAD
    label_names: ClassVar[tuple[str, ...]] = ("even", "odd")

    length: Annotated[int, doc("bits of a string, at most")] = 6
    ones: Annotated[float, doc("how often a bit is 1")] = 0.3

    def __post_init__(self):
        if not 3 <= self.length <= 40 or not 0 < self.ones < 1:
            raise GrammarError(f"length={self.length}, ones={self.ones} are not from 3 to 40, and between 0 and 1")

    def format(self, tokens):
        return "".join(self.vocab[i] for i in tokens if i != PAD)

    def to_tokens(self, texts):
        ids = {name: i for i, name in enumerate(self.vocab)}
        return padded([cut(text, ids) for text in ([texts] if isinstance(texts, str) else texts)], PAD)

    def draw(self, rng, count):
        uniforms = rng.random((count, self.length + 1))
        tokens = (uniforms[:, 1:] < self.ones).astype(np.int64)
        tokens[uniforms[:, 0] < 0.5, -1] = PAD
        return tokens

    def labels(self, tokens):
        return np.where(tokens == PAD, -100, np.cumsum(tokens == 1, axis=1) % 2)

    def enumerate(self):
        rows = [bits for n in (self.length - 1, self.length) for bits in itertools.product((0, 1), repeat=n)]
        tokens = padded(rows, PAD)
        probs = np.where(tokens == 1, self.ones, np.where(tokens == 0, 1 - self.ones, 1.0)).prod(1) / 2
        return tokens, probs

    def law_nll(self, tokens):
        return np.zeros(tokens.shape)  # what was read decides

    def rungs(self, tokens):
        even = (1 + (1 - 2 * self.ones) ** np.arange(tokens.shape[1])) / 2  # before each position
        alone = -np.log(np.where(self.labels(tokens) == tokens, even, 1 - even + 1e-12))
        return {"uniform": np.full(tokens.shape, np.log(2)), "token alone": alone}

    def classes(self, tokens):
        return {"at_one": tokens == 1}

    def to_dict(self):
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data):
        return cls(data["length"], data["ones"])


@dataclass(frozen=True)
class ParitySettings(TrainingSettings):
    noise: Annotated[float, Interval(ge=0, le=1), doc("share of labels that are wrong")] = 0.0


# -- models ---------------------------------------------------------------------------------------------


def config(grammar, **changes):
    sizes = {"n_layers": 1, "d_model": 16, "d_head": 16, "d_mlp": 16, "d_vocab_out": 2, "pad_token": PAD}
    return TransformerConfig(grammar.vocab_size, **(sizes | changes))


def states(config, tokens):
    """Bit and parity, or PAD."""
    odd = (tokens == 1).cumsum(-1) % 2
    return torch.where(tokens == PAD, 4, tokens.clamp(max=1) + 2 * odd)


class ParityEmbed(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.W_state: torch.Tensor
        self.register_buffer("W_state", torch.eye(5, dtype=torch.float32), persistent=False)
        self.config = config

    def forward(self, tokens):
        return self.W_state[states(self.config, tokens)]


EMBEDDINGS = {
    "parity-state": Embedding(
        width=lambda config: 5,
        states=lambda config: 5,
        check=lambda config: None,
        build=f"{__name__}:ParityEmbed",
        read=f"{__name__}:states",
    )
}


def construct(name):
    made = SandboxTransformer.init(config(Parity()), 0, Parity())
    made.provenance.update(constructed=True, name=name)
    return made


def adopt(names, grammar, max_depth, classifier, longest):
    if list(names) != list(Parity.vocab):
        return None
    return Adopted([0, 1, PAD], grammar or Parity())


def vouch(grammar):
    return Exam(
        task="the parity so far",
        chance=0.5,
        where="",
        token_tells=False,
        questions=lambda tokens: (tokens != PAD, np.maximum(grammar.labels(tokens), 0), np.arange(2)),
        also_legal=lambda best, tokens: np.zeros(tokens.shape, dtype=bool),
        draw=lambda count, length, seed: grammar.draw(generator(seed, "exam"), count),
        kin=lambda other: isinstance(other, Parity),
    )


# -- what can be said of heads --------------------------------------------------------------------------


def keys_of(tokens, visible, reach=None):
    n = tokens.shape[1]
    near = np.ones((n, n), dtype=bool) if reach is None else np.arange(n)[:, None] - np.arange(n) < reach
    return visible & (tokens == 1)[:, None, :] & near


ONES = Relation("ones", "the ones", "mass", "parity", lambda tokens, grammar, visible: keys_of(tokens, visible))
AT_ONE = Condition("at-one", "the current token is a one", "parity", lambda tokens, grammar, keys: tokens == 1)


def recent(reach):
    def keys(tokens, grammar, visible):
        return keys_of(tokens, visible, int(reach))

    return Relation(f"recent-{reach}", f"ones in the last {reach} positions", "mass", "parity", keys)


def count_at_least(least):
    def rows(tokens, grammar, keys):
        return np.cumsum(tokens == 1, axis=1) >= int(least)

    return Condition(f"count-{least}", f"the count of ones is at least {least}", "parity", rows)


@dataclass(frozen=True)
class ParityQuestion:
    """The parity at `read`; the bit there, or one before it, is flipped."""

    name: str = "parity"
    words: str = "tell the parity"
    kinds: tuple[str, ...] = ("own", "earlier")

    def items(self, tokens, grammar, rows, seed, kind="own"):
        wanted = rows & (tokens != PAD) & (np.arange(tokens.shape[1]) >= (kind == "earlier"))
        drawn = np.where(wanted, generator(seed, "parity").random(tokens.shape), -1.0)
        sequence = np.flatnonzero(wanted.any(1))
        base, read = tokens[sequence], drawn.argmax(1)[sequence]
        flipped = read if kind == "own" else generator(seed, "flipped").integers(0, np.maximum(read, 1))
        each = np.arange(len(base))
        donors = base.copy()
        donors[each, flipped] = 1 - base[each, flipped]
        answer = grammar.labels(base)[each, read]
        return Items(sequence, base, donors, read, flipped, answer, 1 - answer)


CLAIMS = Claims(
    relations=(ONES,),
    conditions=(AT_ONE,),
    relations_made=(Made("ones in the last n positions", r"ones in last (\d+) position", recent),),
    conditions_made=(Made("the count of ones is at least n", r"count of ones is at least (\d+)", count_at_least),),
    questions=(ParityQuestion(),),
    question=lambda grammar: "parity",
    inputs=lambda grammar, count, length, seed, stream: grammar.draw(generator(seed, stream), count),
    longest=lambda grammar, length: grammar.length,
    roles=lambda tokens, grammar: tokens,
    truth="strings of bits",
)


def last_one(tokens, grammar):
    return np.maximum.accumulate(np.where(tokens == 1, np.arange(len(tokens)), -1))


OVERLAYS = {
    "last_one": Overlay("targets", last_one, "the last one", usual=True),
    "ones": Overlay("levels", lambda tokens, grammar: np.cumsum(tokens == 1), "ones so far"),
    "parity": Overlay("groups", lambda tokens, grammar: np.maximum(grammar.labels(tokens[None])[0], -1), "parity"),
}


def counts(row, grammar):
    """How many ones there are up to each bit."""
    return [row[: at + 1].count(1) for at in range(len(row))]


def lasts(row, grammar):
    return [max((at for at in range(end + 1) if row[at] == 1), default=-1) for end in range(len(row))]


REFERENCE = Reference(
    labels=lambda row, grammar: ["even odd".split().index("odd" if n % 2 else "even") for n in counts(row, grammar)],
    law=lambda row, grammar: [0.0] * len(row),
    keys={"ones": lambda row, grammar: [{at for at, bit in enumerate(row) if bit == 1}] * len(row)},
    overlays={"ones": counts, "last_one": lasts},
)

# -- the world ------------------------------------------------------------------------------------------


def lent(thing: Any) -> str:
    """Where a world finds a thing: "module:attribute"."""
    name = f"LENT_{id(thing)}"
    globals()[name] = thing  # and keeps it, so that no other thing gets this id
    return f"{__name__}:{name}"


def world(kind: type = Parity, claims: Claims = CLAIMS, settings: type = ParitySettings, **changes: Any) -> World:
    usual = settings(steps=50, batch=8, eval_every=25)
    parts: dict[str, Any] = {
        "name": "parity",
        "about": "strings of bits, labelled by the parity so far",
        "grammars": (kind,),
        "settings": settings,
        "presets": {
            "parity-small": Preset("one layer of width 16", config, usual, kind),
            "parity-oracle": Preset(
                "on bit and parity",
                partial(config, embedding="parity-state", d_model=5),
                replace(usual, lr=1e-2),
                kind,
            ),
        },
        "options": {"length": "length", "ones": "ones"},
        "unread": (Unread(("settings.noise",), lambda recipe: True, "no label is wrong"),),
        "columns": {"accuracy": "right"},
        "measures": ("accuracy", "excess"),
        "embeddings": EMBEDDINGS,
        "overlays": OVERLAYS,
        "vouch": f"{__name__}:vouch",
        "sentence": lambda grammar: "01101",
        "claims": lent(claims),
        "reference": f"{__name__}:REFERENCE",
        "constructed": {"constructed/parity": "random weights under a name"},
        "construct": f"{__name__}:construct",
        "adopt": f"{__name__}:adopt",
    }
    return World(**(parts | changes))
