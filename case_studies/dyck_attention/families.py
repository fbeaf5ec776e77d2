"""The populations of `dyck-attention`, group by group, with what the paper says of each.

The paper (Wen et al. 2023, section 4.1 and App. D) gives widths and learning rates, and neither steps nor batch nor
schedule; ours are the presets' unless a family says otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from case_studies.populations import Family

STANDARD = Family("standard, no positions", "dyck-standard")
LINEAR = Family("standard, linear positions", "dyck-standard", {"positions": "linear"})
MINIMAL = Family("minimal first layer (eq. 15)", "dyck-minimal")
MAIN = (STANDARD, LINEAR, MINIMAL)

OTHERS = (
    Family("minimal, type + depth (eq. 16)", "dyck-minimal-sum"),
    Family("minimal, type + angle (eq. 17)", "dyck-minimal-angle"),
    Family("attention frozen uniform", "dyck-uniform"),
)

PREFIXES = (
    Family("standard, no positions, prefixes", "dyck-standard", {"data": "prefix"}),
    Family("standard, linear positions, prefixes", "dyck-standard", {"data": "prefix", "positions": "linear"}),
    Family("minimal first layer (eq. 15), prefixes", "dyck-minimal", {"data": "prefix"}),
)
# Of Fig. 9, which gives no number for them.
OTHER_PREFIXES = (
    Family("minimal, type + depth (eq. 16), prefixes", "dyck-minimal-sum", {"data": "prefix"}),
    Family("minimal, type + angle (eq. 17), prefixes", "dyck-minimal-angle", {"data": "prefix"}),
)

# As the released code has it (github.com/YuchenLi01/transformers_are_uninterpretable): block, frozen one-hot tokens,
# the scalar i / 6000 as position, one corpus of 100,000 tokens for all seeds, loss on closers, 40 epochs of batches of
# 100 (20 for one layer), a rate that moves once an epoch. Its generator cannot make complete strings (every one would
# be a single bracket), so these are drawn by the law that the paper states.
EPOCH, PREFIX_EPOCH = 106, 35  # steps in which that corpus is read once, of complete strings and of prefixes
EPOCH_DEEP = 123  # the same of depth 8, whose strings are shorter
_PREFIX = {"data": "prefix", "hold": PREFIX_EPOCH, "eval_every": 10 * PREFIX_EPOCH}
_ONE_LAYER = {"targets": "closers", "corpus": 100_000, "width": 50}
RELEASED = (
    Family("released code, no positions", "dyck-authors"),
    Family("released code, scalar positions", "dyck-authors", {"positions": "scalar"}),
    Family(
        "released code, minimal (eq. 15)",
        "dyck-minimal",
        {**_ONE_LAYER, "hold": EPOCH, "eval_every": 10 * EPOCH},
        20 * EPOCH,
        batch=100,
    ),
)
RELEASED_PREFIXES = (
    Family("released code, no positions, prefixes", "dyck-authors", _PREFIX, 40 * PREFIX_EPOCH),
    Family(
        "released code, scalar positions, prefixes",
        "dyck-authors",
        {**_PREFIX, "positions": "scalar"},
        40 * PREFIX_EPOCH,
    ),
    Family(
        "released code, minimal (eq. 15), prefixes", "dyck-minimal", {**_ONE_LAYER, **_PREFIX}, 20 * PREFIX_EPOCH, 100
    ),
)

# Ours in all but the loss, which is taken on closers only, as in the released code.
CLOSERS, CLOSERS_PREFIXES = (
    tuple(replace(f, name=f"{f.name}, closers", options={**f.options, "targets": "closers"}) for f in group)
    for group in (MAIN, PREFIXES)
)


def crossed(levels: int) -> tuple[Family, ...]:
    """The main families with so many first weights by as many orders of data: what each of them does to attention."""
    return tuple(replace(f, name=f"{f.name}, crossed", options={**f.options, "crossed": levels}) for f in MAIN)


# Variation of the last layer on `[[[[]]]](((())))`: section 4.1 (40 seeds) and App. D.2 (30 seeds for minimal).
PAPER_VARIATION = {
    STANDARD.name: 2.27,
    LINEAR.name: 2.20,
    MINIMAL.name: 0.24,
    PREFIXES[0].name: 14.51,
    PREFIXES[1].name: 11.92,
    PREFIXES[2].name: 0.34,
}
PAPER_RANDOM = 2.85
PAPER_ACCURACY = 0.97
PAPER_UNIFORM_ACCURACY = 0.99  # section 3.1: uniform attention

FEWER_STEPS = 600
# One setting of STANDARD changed at a time: what the paper leaves open.
VARIED = (
    Family("as in the main table", "dyck-standard"),
    Family("batch 100", "dyck-standard", {}, batch=100),
    Family("linear positions, batch 100", "dyck-standard", {"positions": "linear"}, batch=100),
    Family("half the steps", "dyck-standard", steps=750),
    Family("twice the steps", "dyck-standard", steps=3000),
    Family("on prefixes, twice the steps", "dyck-standard", {"data": "prefix"}, 3000),
    Family("constant schedule", "dyck-standard", {"schedule": "constant"}),
    Family("loss on closers only", "dyck-standard", {"targets": "closers"}),
    Family("initial scale .1", "dyck-standard", {"init_std": 0.1}),
    Family("linear positions, T_max 28", "dyck-standard", {"positions": "linear", "n_ctx": 28}),
    Family("linear positions, T_max 100", "dyck-standard", {"positions": "linear", "n_ctx": 100}),
    Family("learned positions", "dyck-standard", {"positions": "learned"}),
    Family("block of the released code", "dyck-standard", {"block": "authors"}),
    Family("frozen one-hot tokens", "dyck-standard", {"embedding": "onehot"}),
    Family("no final norm", "dyck-standard", {"final_norm": False}),
    Family("no bias of the unembedding", "dyck-standard", {"unembed_bias": False}),
    Family("one corpus for all seeds", "dyck-standard", {"corpus": 100_000}),
)

# The paper gives no number of steps either. A fit, and no explanation: of 300, 450, 600 and 900 with the loss on
# closers, tried on seeds 0 to 11, two come near its three numbers; both did on other seeds, most of which miss 97 %.
FEWER = tuple(
    replace(f, name=f"loss on closers only, {FEWER_STEPS} steps{which}", options={**f.options, "targets": "closers"},
            steps=FEWER_STEPS)
    for f, which in zip(MAIN, ("", ", linear positions", ", minimal first layer"), strict=True)
)  # fmt: skip

# The released code with one part of it as ours at a time.
WITHOUT = (
    Family("as in the released code", "dyck-authors"),
    Family("block of GPT-2", "dyck-authors", {"block": "gpt2", "final_norm": False}),
    Family("final norm", "dyck-authors", {"final_norm": True}),
    Family("learned embedding", "dyck-authors", {"embedding": "learned"}),
    Family("loss on all tokens", "dyck-authors", {"targets": "all"}),
    Family("new strings at every step", "dyck-authors", {"corpus": 0}),
    Family("batch 32", "dyck-authors", {}, batch=32),
    Family("rate moves every step", "dyck-authors", {"hold": 1}),
    Family("1500 steps", "dyck-authors", {"eval_every": 500}, 1500),
)


@dataclass(frozen=True)
class Cell:
    """One row of the paper's Table 1: a grammar, a number of layers, and the paper's mean (sd over 40 sentences)."""

    num_types: int
    max_depth: int
    layers: int
    paper: tuple[tuple[float, float], ...]

    @property
    def name(self) -> str:
        """Short, for tables."""
        return f"k={self.num_types}, D={self.max_depth}, {self.layers} layers"

    @property
    def family(self) -> Family:
        """Models of the paper's eq. 6: a residual link after the norm on the attention output."""
        return Family(self.name, "dyck-paper", self._options, TABLE_STEPS)

    @property
    def released(self) -> Family:
        """The released code's, with the link after the norm that the caption of the table speaks of."""
        epoch = TABLE_EPOCHS[self.max_depth]
        options = {**self._options, "norm_added": True, "hold": epoch, "eval_every": 10 * epoch}
        return Family(f"{self.name}, released code", "dyck-authors", options, 40 * epoch)

    @property
    def prefixes(self) -> Family:
        """`released`, trained on prefixes: all that the released generator makes of more than one bracket."""
        options = {**self._options, "norm_added": True, **_PREFIX}
        return Family(f"{self.released.name}, prefixes", "dyck-authors", options, 40 * PREFIX_EPOCH)

    @property
    def _options(self) -> dict[str, int]:
        return {"k": self.num_types, "depth": self.max_depth, "layers": self.layers}


TABLE_STEPS = 3000
TABLE_EPOCHS = {4: EPOCH, 8: EPOCH_DEEP}  # by greatest depth
TABLE_RANDOM = 3.33
TABLE = (
    Cell(2, 4, 2, ((0.047, 0.006), (7.721, 0.908))),
    Cell(2, 4, 3, ((0.070, 0.013), (5.072, 0.645), (24.063, 1.166))),
    Cell(2, 8, 2, ((0.087, 0.012), (7.583, 0.961))),
    Cell(2, 8, 3, ((0.059, 0.011), (5.560, 0.714), (23.590, 0.829))),
    Cell(3, 4, 2, ((0.182, 0.024), (9.313, 0.815))),
    Cell(3, 4, 3, ((0.225, 0.032), (8.426, 0.877), (25.749, 0.897))),
    Cell(3, 8, 2, ((0.178, 0.028), (7.000, 0.884))),
    Cell(3, 8, 3, ((0.154, 0.036), (6.280, 0.711), (25.451, 0.871))),
)

PANELS = 4  # seeds a figure shows


@dataclass(frozen=True)
class Panel:
    """A figure of the paper: its label, the models, and the layer drawn (from the end)."""

    label: str
    family: Family
    long: bool = False  # drawn on a longer string


def _figure_families() -> Sequence[Panel]:
    wide = {"width": 200, "lr": 3e-4}
    return (
        Panel("Fig. 1a", Family("standard, width 200, lr 3e-4", "dyck-standard", wide)),
        Panel("Fig. 2a", Family("minimal (eq. 15), width 500, lr 1e-2", "dyck-minimal", {"width": 500}, 1600)),
        Panel(
            "Fig. 2b", Family("minimal (eq. 15), width 500, lr 3e-3", "dyck-minimal", {"width": 500, "lr": 3e-3}, 1600)
        ),
        Panel(
            "Fig. 2c",
            Family("minimal (eq. 17), width 500, lr 3e-3", "dyck-minimal-angle", {"width": 500, "lr": 3e-3}, 4000),
        ),
        Panel(
            "Fig. 2d",
            Family("minimal (eq. 16), width 500, lr 3e-3", "dyck-minimal-sum", {"width": 500, "lr": 3e-3}, 1600),
        ),
    )


FIGURES = tuple(_figure_families())

# Position encodings of VARIED that are larger against a token's embedding than those of the main families.
STRONGER = ("learned positions", "linear positions, T_max 28", "linear positions, T_max 100")

# Populations that differ in one thing, whose patterns the paper calls different.
ONE_APART = {
    "eq. 15 and eq. 16": (MINIMAL, OTHERS[0]),
    "eq. 15 and eq. 17": (MINIMAL, OTHERS[1]),
    "eq. 16 and eq. 17": OTHERS[:2],
    "with and without a final norm": (STANDARD, next(f for f in VARIED if f.name == "no final norm")),
    "without and with linear positions": (STANDARD, LINEAR),
    **{f"without and with {name}": (STANDARD, next(f for f in VARIED if f.name == name)) for name in STRONGER},
    "without and with linear positions, prefixes": PREFIXES[:2],
    "without and with scalar positions, released code": RELEASED[:2],
    "without and with scalar positions, released code, prefixes": RELEASED_PREFIXES[:2],
    "learning rates 1e-2 and 3e-3 (Figs. 2a, 2b)": (FIGURES[1].family, FIGURES[2].family),
}
# Models of prefixes, whose high variation the paper puts down to two kinds (App. D.2).
TWO_KINDS = (*PREFIXES[:2], *RELEASED_PREFIXES[:2])
