"""The sections of the page of `dyck-attention`, one function each."""

from collections.abc import Sequence

from case_studies.dyck_attention.families import FEWER_STEPS, PANELS, PAPER_ACCURACY, TABLE_RANDOM
from case_studies.dyck_attention.findings import Findings
from case_studies.dyck_attention.measure import (
    EDITED_STRINGS,
    PREFIX_LENGTH,
    TABLE_SENTENCES,
    Measured,
    TableRow,
    Variant,
)
from case_studies.page import Figure, Table
from case_studies.words import Cell, Row
from interp.grammars import DyckGrammar
from interp.numbers import ABSENT, estimate, number, percent
from interp.plots import attention_heatmap
from interp.population import Population
from interp.presets import make_recipe
from interp.worlds.dyck.evaluate import RULES
from interp.worlds.dyck.recipes import grammar_of, settings_of
from interp.worlds.dyck.task import FINAL_STRINGS, LONG_STRINGS
from probes.variation import PAPER_SENTENCE, TABLE_LENGTH

SHOWN_SEEDS = 8
TABLE_TITLE = "Other grammars and depths (Table 1)"
ON_PREFIXES = "released code, prefixes"
RELEASED_TOLD = (
    " Released code: its block, with the link after the norm that the caption of Table 1 speaks of; on complete "
    "strings, and on prefixes, which are all that its generator makes of more than one bracket."
)
LONG_TEXT_LENGTH = 56  # brackets of the longer string of Fig. 8
RULE_NAMES = {"argmax": "argmax", "argmax_closers": "argmax of closing brackets", "mass": "mass > 0.8"}


def accuracy_parts(f: Findings) -> list[str | Table]:
    """Accuracy by rule, on all and on non-trivial closers, and at length 400-500."""
    measured = [*f.main, *f.others]
    uniform = "constructed/uniform (no training)"

    def table(prefix: str, suffix: str, with_floor: bool, note: str) -> Table:
        rows: list[Row] = [
            [m.family.name]
            + [Cell(m.accuracy.mean[f"{prefix}{rule}{suffix}"], 3) for rule in RULES]
            + [number(min(m.accuracy.worst[f"{prefix}{rule}{suffix}"] for rule in RULES))]
            for m in measured
        ]
        rows.append([uniform] + [number(f.uniform[f"{prefix}{rule}{suffix}"]) for rule in RULES] + [""])
        if with_floor:
            rows.append(["closing the token before"] + [number(f.floors[rule + suffix]) for rule in RULES] + [""])
        return Table(["family", *RULE_NAMES.values(), "worst seed and rule"], rows, note)

    grammar, settings = grammar_of(measured[0].family.recipe), settings_of(make_recipe("dyck-standard"))
    low, high = settings.min_length, settings.max_length
    losses = Table(
        ["family", "excess loss"],
        [[m.family.name, Cell(m.accuracy.mean["excess"], 4)] for m in measured],
        "Nats a prediction above the exact law on the same strings (entropy floor of the law "
        f"{number(grammar.entropy_floor(min_length=low, max_length=high), 4)}; the best that depth and open type alone "
        f"allow, without position, is {number(grammar.depth_only_floor(min_length=low, max_length=high), 4)}).",
    )
    marks = [d for d in (1, 3, 5, 7, 9, 13, 17, 21) if all(d in m.by_distance for m in measured)]
    distance = Table(
        ["distance from opening to closing bracket", *map(str, marks)],
        [[m.family.name] + [number(m.by_distance[d].value) for d in marks] for m in measured],
        "Mean over seeds of the mass rule, by the number of positions between a bracket and its partner.",
    )
    return [
        f"Closing accuracy on {FINAL_STRINGS} strings of the training law, drawn independently of training (short ones "
        "occur in both): mean over seeds [interval over seeds].",
        table("", "", True, "All closing brackets. About two thirds directly follow their opening bracket."),
        table("", "_nontrivial", True, "Non-trivial closing brackets: the token before is a closing bracket as well."),
        short_table(f),
        table(
            "long_",
            "",
            False,
            f"Length generalisation: positions 400 to 499 of {LONG_STRINGS} prefixes of 500 brackets "
            "(about 18 times the training length).",
        ),
        losses,
        distance,
    ]


def short_table(f: Findings) -> Table:
    """Which seeds miss the paper's 97 %."""
    rows = []
    for name, accuracy in [(m.family.name, m.accuracy) for m in f.families] + [
        (f"Table 1, {row.cell.name}", row.accuracy) for row in f.table
    ]:
        rows.append([name, *(_seeds(accuracy.short[rule], f.count) for rule in RULES), number(accuracy.least)])
    return Table(
        ["family", *RULE_NAMES.values(), "worst seed and rule"],
        rows,
        f"Seeds whose closing accuracy stays below {percent(PAPER_ACCURACY)}, by rule, each family on its own training "
        "law. None is left out of any number of this page.",
    )


def heatmap_parts(measured: Sequence[Measured]) -> list[Figure]:
    """The last layer of several seeds side by side, on the paper's sentence."""
    parts: list[Figure] = []
    for m in measured:
        shown = m.population[:SHOWN_SEEDS]
        figure = attention_heatmap(
            shown,
            PAPER_SENTENCE,
            population="grid",
            overlay="stack_top",
            title=f"Last layer, {m.family.name}: two seeds lie {estimate(m.variation.variation[-1], 2, n=True)} apart",
        )
        caption = (
            f"Seeds {', '.join(map(str, shown.seeds))} of {m.family.name} on {PAPER_SENTENCE} after START. A box marks "
            "the last unmatched open bracket of each query: a stack-like head would put its weight there."
        )
        parts.append(Figure(figure, caption))
    return parts


def variation_parts(measured: Sequence[Measured]) -> list[str | Table | Figure]:
    """Variation by layer with its nulls."""
    rows = []
    for m in measured:
        for layer, (e, normal) in enumerate(zip(m.variation.variation, m.variation.normalised, strict=True)):
            null = e.null
            assert isinstance(null, dict)
            rows.append(
                [
                    f"{m.family.name}, layer {layer}",
                    Cell(e),
                    number(null["uniform_simplex"], 2),
                    number(null["sharpness_matched"], 2),
                    number(null["untrained"], none=ABSENT),
                    Cell(normal),
                ]
            )
    table = Table(
        ["family", "variation", "random rows", "as sharp, random keys", "untrained", "normalised"],
        rows,
        "Mean over pairs of seeds of the squared Frobenius distance on one input of "
        f"N = {measured[0].variation.positions} positions (START and {len(PAPER_SENTENCE)} brackets) [jackknife "
        "over seeds]. Random rows: uniform on the simplex, exact. As sharp: the trained rows with their visible keys "
        "permuted. Normalised: 0 for equal, 1 for disjoint patterns.",
    )
    figures: list[str | Table | Figure] = [
        Figure(
            m.variation.figure(),
            f"Every pair of seeds of {m.family.name}, by layer, with the baselines as lines.",
        )
        for m in measured
    ]
    return [table, *figures]


def even_parts(measured: Sequence[Measured]) -> list[str | Table]:
    """What an even pattern in the last layer costs."""
    names = {**RULE_NAMES, "mass_nontrivial": "mass, non-trivial"}
    rows = [[m.family.name] + [Cell(m.even[rule], 3) for rule in names] for m in measured]
    return [
        "A pattern may differ between seeds and not matter. Here the last layer of each model is made to attend evenly "
        "to all visible keys, everything else as trained.",
        Table(
            ["family", *names.values()],
            rows,
            f"Closing accuracy lost, mean over seeds, on {EDITED_STRINGS} strings. 0: the pattern decides nothing.",
        ),
    ]


def stack_table(measured: Sequence[Measured]) -> Table:
    """Mass on the last unmatched open bracket, by family and layer."""
    rows = []
    for m in measured:
        for layer, (score, top1) in enumerate(zip(m.stack.score, m.stack.top1, strict=True)):
            null = score[0].null
            assert isinstance(null, dict)
            rows.append(
                [
                    f"{m.family.name}, layer {layer}",
                    Cell(score[0], 3),
                    number(null["permuted"]),
                    number(null["unmatched"]),
                    number(null["untrained"], none=ABSENT),
                    Cell(top1[0]),
                ]
            )
    stack = measured[0].stack
    return Table(
        [
            "family",
            "stack-likeness (closers)",
            "any visible opening bracket",
            "evenly over unmatched",
            "untrained",
            "top-1 rate",
        ],
        rows,
        "How much closing brackets attend to the last unmatched open bracket: 1 for a stack-like head, 0 for an "
        f"even one; mean over the {stack.queries} closing brackets inside a bracket of {stack.num_inputs} prefixes. "
        "Any visible opening bracket: the same head if the opening bracket it weighs were left to chance.",
    )


def prefix_parts(f: Findings) -> list[str | Table | Figure]:
    """App. D.2: the same families trained on prefixes."""
    rows = []
    for m, own in zip(f.prefixes, f.prefix_variation, strict=True):
        e, null = m.variation.variation[-1], m.variation.variation[-1].null
        assert isinstance(null, dict)
        own_null = own.variation[-1].null
        assert isinstance(own_null, dict)
        rows.append(
            [
                m.family.name,
                Cell(e),
                number(null["sharpness_matched"], 2),
                Cell(own.variation[-1]),
                number(own_null["sharpness_matched"], 2),
                Cell(m.variation.normalised[-1]),
            ]
        )
    table = Table(
        ["family", "variation", "as sharp", f"{PREFIX_LENGTH} brackets", "as sharp", "normalised"],
        rows,
        f"Last layer. First pair of columns: on {PAPER_SENTENCE}; second: mean over {TABLE_SENTENCES} prefixes of "
        f"{PREFIX_LENGTH} brackets, the training length. Training strings are prefixes: nothing is closed at the end.",
    )
    accuracy = Table(
        ["family", *RULE_NAMES.values(), "mass, non-trivial", "long, mass, non-trivial"],
        [
            [m.family.name]
            + [
                Cell(m.accuracy.mean[n], 3)
                for n in ("argmax", "argmax_closers", "mass", "mass_nontrivial", "long_mass_nontrivial")
            ]
            for m in f.prefixes
        ],
        "Closing accuracy on prefixes of the training law, and at positions 400-499.",
    )
    figures = [heatmap(m.population[:PANELS], f"Prefixes: last layer, {m.family.name}") for m in f.prefixes]
    grammar = DyckGrammar(2, 4)
    text = grammar.format(grammar.sample(1, mode="prefix", length=LONG_TEXT_LENGTH, seed=1)[0])
    long = heatmap(f.prefixes[0].population[:2], f"Prefixes: last layer, {f.prefixes[0].family.name}", text)
    return [table, accuracy, *figures, long]


def table_parts(
    table: Sequence[TableRow], released: Sequence[TableRow] = (), prefixes: Sequence[TableRow] = ()
) -> list[str | Table | Figure]:
    """Table 1, the same as the released code has it on either kind of data, and the third layer of Fig. 11."""
    rows = []
    ways = {way: listed for way, listed in (("released code", released), (ON_PREFIXES, prefixes)) if listed}
    theirs = {way: {row.cell.name: row.variation.variation for row in listed} for way, listed in ways.items()}
    for row in table:
        for layer, (e, (paper, deviation)) in enumerate(zip(row.variation.variation, row.cell.paper, strict=True)):
            null = e.null
            assert isinstance(null, dict)
            rows.append(
                [
                    f"Table 1, {row.cell.name}, layer {layer}",
                    f"{number(paper, 2)} ({number(deviation, 2)})",
                    Cell(e),
                    number(row.variation.by_input[layer].std(ddof=1), 2),
                    number(null["sharpness_matched"], 2),
                    Cell(row.variation.normalised[layer]),
                ]
                + [Cell(of[row.cell.name][layer]) for of in theirs.values()]
            )
    first = table[0].variation.variation[0].null
    assert isinstance(first, dict)
    out: list[str | Table | Figure] = [
        "Models of the paper's eq. 6 (a residual link after the norm on the attention output, unit norm, no skip "
        "around the MLP), width 50. The layers are numbered from 0.",
        Table(
            [
                *("grammar, layers, layer", "paper (sd)", "ours", "sd over inputs"),
                *("as sharp, random keys", "normalised", *ways),
            ],
            rows,
            f"Mean over pairs of seeds and over the same {TABLE_SENTENCES} prefixes of {TABLE_LENGTH} brackets (N = "
            f"{TABLE_LENGTH + 1} with START). The paper's brackets hold the standard deviation over sentences. Random "
            f"rows: {TABLE_RANDOM} in the paper, {number(first['uniform_simplex'])} exactly for N = "
            f"{TABLE_LENGTH + 1}." + (RELEASED_TOLD if released else ""),
        ),
    ]
    more: list[Row] = [
        [f"{where}, {row.cell.name}", Cell(row.sentence, 2), Cell(row.stack.score[-1][0])]
        for where, rows in (("eq. 6", table), *ways.items())
        for row in rows
    ]
    note = (
        f"Last layer: variation on {PAPER_SENTENCE} as in the main table, and stack-likeness (closers) on strings of "
    )
    head = ["models", "variation, one sentence", "stack-likeness (closers)"]
    out.append(Table(head, more, f"{note}the grammar's own."))
    deep = next((row for row in table if row.cell.layers == 3), None)
    if deep is not None:
        out.append(heatmap(deep.population[:PANELS], f"Third layer, {deep.cell.name} (as Fig. 11)"))
    return out


def open_parts(f: Findings) -> list[str | Table]:
    """What moves the variation: START, and settings the paper does not give."""
    start = Table(
        ["family", *next(iter(f.start.values()))],
        [[name, *(Cell(e) for e in kinds.values())] for name, kinds in f.start.items()],
        "Variation of the last layer on the paper's sentence, by how START's column enters. Its row adds exactly 0.",
    )
    parts: list[str | Table] = [start]
    if f.variants:
        parts.append(
            variant_table(
                "dyck-standard with",
                f.variants,
                "One setting changed at a time, except for prefixes, linear positions in batches of 100, and few "
                f"steps, where two are or three. The families of {FEWER_STEPS} steps are of further seeds, since that "
                "number was chosen on the first.",
            )
        )
    if f.without:
        told = "The released code with one part of it as ours at a time."
        parts.append(variant_table("dyck-authors with", f.without, told))
    return parts


def variant_table(head: str, variants: Sequence[Variant], told: str) -> Table:
    """Variation of the last layer and the worst seed, a row per setting."""
    rows = []
    for v in variants:
        null = v.variation.null
        assert isinstance(null, dict)
        rows.append([v.family.name, Cell(v.variation), number(null["sharpness_matched"], 2), number(v.accuracy.least)])
    return Table([head, "variation", "as sharp, random keys", "worst seed and rule"], rows, told)


def panel_parts(f: Findings) -> list[str | Figure]:
    """Figures 1a and 2, with the paper's widths and learning rates."""
    parts: list[str | Figure] = []
    for panel, population, least in f.panels:
        parts.append(
            heatmap(
                population[:PANELS],
                f"{panel.label}: {panel.family.name}",
                note=f"Worst seed and rule: {number(least)} of closing brackets.",
            )
        )
    return parts


def heatmap(population: Population, title: str, text: str = PAPER_SENTENCE, note: str = "") -> Figure:
    """The last layer of a few seeds side by side."""
    figure = attention_heatmap(population, text, population="grid", overlay="stack_top", title=title)
    seeds = ", ".join(map(str, population.seeds))
    shown = text if len(text) <= 30 else f"a string of {len(text)} brackets"
    caption = f"Seeds {seeds} on {shown} after START. A box marks the last unmatched open bracket. {note}"
    return Figure(figure, caption.strip())


def _seeds(short: Sequence[int], count: int) -> str:
    """Seeds that fall short, in few words."""
    if not short:
        return "none"
    listed = ", ".join(map(str, short[:6])) + (", ..." if len(short) > 6 else "")
    return f"{len(short)}: {listed}"
