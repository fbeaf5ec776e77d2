"""The page of `topics`. Every sentence is made from the numbers."""

from collections.abc import Iterable

from case_studies.page import Figure, Page, Section, Table
from case_studies.topics.embedding import alone_parts
from case_studies.topics.faint import faint_parts
from case_studies.topics.families import BLOCK, DIAGONAL, MASK_ONLY, PAPER_DIAGONAL, PAPER_FAINT, PAPER_RATIOS
from case_studies.topics.figures import landscape_figure, panel_figure
from case_studies.topics.findings import Findings
from case_studies.topics.lookup import RELATIONS, SPECIAL
from case_studies.topics.measure import LANDSCAPE, TAUS, GroupResult
from case_studies.topics.released_rows import released_parts
from case_studies.topics.table import spread, table_parts
from case_studies.words import Cell, Row
from interp.grammars import TopicGrammar
from interp.numbers import ABSENT, estimate, number, percent, power
from interp.stats import Estimate
from interp.worlds.topics.theory import TopicTheory

LEAD = "Fig. 2.2"  # its matrices stand at the top


def report(f: Findings, command: str) -> Page:
    """The report of the findings."""
    first = next(g for g in f.groups if g.group.label == LEAD)
    return Page(
        title="What one attention layer learns of topics",
        asked=(
            "Does a one-layer Transformer that fills in masked words of topic-model documents store the topics in "
            f"W_V, in the embeddings, or in its attention? {f.count} seeds per setting, T = v = 10."
        ),
        said=[
            "A Transformer of one layer keeps topics as blocks of W_V, of its embeddings, or both: words of one topic "
            "get larger entries (Li et al. 2023, Theorems 2.1.1, 2.1.2).",
            "With W_V at the block optimum, attention favours words of the same topic; at the diagonal one, the same "
            f"word (Theorems 2.1.3, 2.1.5). Ratios of trained models lie in {PAPER_RATIOS[0]} to {PAPER_RATIOS[1]}.",
            "Training has two stages: W_V grows first, W_K and W_Q follow (Figs 2.4, 2.9).",
        ],
        answer=answers(f),
        sure=(
            "Every bracketed interval is 95 % over seeds and says over how many, there or below its table; p is over "
            "relabellings of the words. Blocks stand beside a mere diagonal, random and untrained matrices; attention "
            "beside even attention, 1."
        ),
        lead=panels(first),
        compared=[paper_table(f)],
        sections=[
            Section("Stage 1: W_V on the exact law", exact_parts(f)),
            *(Section(f"{g.group.label}: {g.group.about}", group_parts(g)) for g in f.groups),
            *(Section(f"{g.group.label}: {g.group.about}, SGD", group_parts(g)) for g in f.tried),
            Section("The embedding alone", alone_parts(f.alone)),
            Section("Steps behind the faint blocks of Figs 2.5 and 2.6", faint_parts(f)),
            Section("Attention of jointly trained models", table_parts(f)),
            Section(
                "Tables 2.1 and 2.2 as the released code trains and reads",
                released_parts(f.released, f.diagonal, f.left),
            ),
            Section("Stage 2: attention with W_V frozen", stage_parts(f)),
            Section("Two stages of training", boundary_parts(f)),
            Section("Loss landscapes", landscape_parts(f)),
        ],
        settings=[settings_table(f)],
        command=command,
        digests=digests(f),
    )


def digests(f: Findings) -> list[tuple[str, str]]:
    """Name and digest of every population."""
    out = [(f"{g.group.label}, {arm.family.name}", arm.digest) for g in (*f.groups, *f.tried) for arm in g.arms]
    out += [(f"embedding alone, {a.family.name}", a.digest) for a in f.alone]
    out += [(f"released code, {row.setting.name}", row.digest) for row in (*f.released, *f.diagonal)]
    out += [(f"exact law, {row.name}", row.digest) for row in f.exact if row.digest is not None]
    out += [(f"Table 2.1, {row.family.name}", row.digest) for row in f.table]
    out += [(row.family.name, row.digest) for row in f.stages]
    out += [(f"faint blocks, {g.family.name}", g.digest) for g in f.growth]
    return out + [(f"two stages, {b.family.name}", b.digest) for b in f.boundaries]


def answers(f: Findings) -> list[str]:
    """Three sentences, made from the numbers."""
    first = f.exact[0]
    blocks = [arm for g in f.groups for arm in g.arms if arm.result.structure in ("blocks", "blocks and diagonal")]
    total = sum(len(g.arms) for g in f.groups)
    full = [arm for arm in blocks if arm.result.ari.value is not None and arm.result.ari.value > 0.99]
    stage = next(row for row in f.stages if row.family.name == BLOCK.name)
    end = stage.curve[max(stage.curve)]
    mask = next(row for row in f.stages if row.family.name == MASK_ONLY.name)
    two = [b for b in f.boundaries if b.result.two_stages]
    runs = sorted({b.result.share.n for b in f.boundaries})
    return [
        "On the exact law gradient descent from zero lands on Theorem 2.1.2: no entry of W_V is off by more than "
        f"{_percent(first.largest.value)} of itself. {len(blocks)} of {total} trained settings "
        f"(n={f.count} seeds each) show blocks (p ≤ 0.01), and in {len(full)} of them the topics are recovered "
        "whole from the matrix alone (ARI > 0.99).",
        "With W_V frozen at the block optimum attention comes to favour words of the same topic by a factor "
        f"{estimate(end, 2, n=True)} (even attention: 1); with [MASK] as the only replacement it stays at "
        f"{estimate(mask.curve[max(mask.curve)], n=True)}.",
        f"{len(two)} of {len(f.boundaries)} settings trained from near zero (n={' or '.join(map(str, runs))} runs "
        "each) show two stages"
        + (f", the first ending at step {', '.join(number(b.result.boundary.value, 0) for b in two)}." if two else "."),
    ]


def exact_parts(f: Findings) -> list[str | Table]:
    """Who lands on the closed form, who elsewhere among the optima."""
    theory = TopicTheory.from_grammar(TopicGrammar())
    rows = [
        [
            row.name,
            power(row.excess.value),
            _percent(row.largest.value),
            power(row.row_zero.value),
            power(row.family.value),
        ]
        for row in f.exact
    ]
    return [
        "Infinite documents of two topics, squared loss, attention frozen uniform: Theorem 2.1.4 gives every optimum, "
        "Theorem 2.1.2 the one of least norm.",
        Table(
            ["run", "excess loss", "largest relative error", "largest of row 0", "distance to the optima"],
            rows,
            f"Means over seeds ({_sizes(row.excess for row in f.exact)}; float64 has none). Closed form: same topic "
            f"{number(theory.W_same, 5)}, different topic {number(theory.W_diff, 5)}, from [MASK] "
            f"{number(theory.W_i0, 5)}, row of [MASK] 0. Distance: Frobenius, relative to the matrix, to the nearest "
            "of all optima. A run can be at an optimum and far from the closed form.",
        ),
    ]


def group_parts(g: GroupResult) -> list[str | Table | Figure]:
    """Four panels and their numbers."""
    rows = []
    for arm in g.arms:
        r = arm.result
        assert r.structure is not None
        rows.append(
            [
                arm.family.name,
                r.structure,
                Cell(r.contrast, 3),
                number(r.p_value, 4, none=ABSENT),
                Cell(r.diagonality, 3),
                Cell(r.ari),
                f"{number(arm.block_mean.value, 4)} / {number(arm.other_mean.value, 4)}",
                number(arm.loss.value, 4),
            ]
        )
    null = g.arms[0].result.contrast.null
    assert isinstance(null, dict)
    table = Table(
        ["trained with", "structure", "contrast (R²)", "p", "diagonality", "ARI", "block / other mean", "loss"],
        rows,
        "Contrast: share of the variance within rows that “same topic” explains; ideal blocks 1, a mere diagonal "
        f"{number(null['diagonal'], 2)}, random {number(null['random'])}. p: over relabellings of the words. ARI: "
        "topics clustered from the matrix alone, 1 all found, 0 chance. Block mean: all entries of the ten diagonal "
        "blocks, as in the thesis.",
    )
    return [table] if g.group.label == LEAD else [table, panels(g)]


def panels(g: GroupResult) -> Figure:
    """The matrices of one of the thesis's figures."""
    what = f"{g.group.label}: {g.group.about}"
    return Figure(
        panel_figure(g, what),
        f"{what}. Mean over n={g.arms[0].result.num_models} seeds, words sorted by topic; scales differ.",
    )


def stage_parts(f: Findings) -> list[str | Table | Figure]:
    """Ratios over steps with W_V frozen."""
    steps = sorted(next(iter(f.stages)).curve)
    table = Table(
        ["W_V", *(f"step {s}" for s in steps)],
        [[row.family.name, *(Cell(row.curve[s]) for s in steps)] for row in f.stages],
        "Same-topic, different-word attention over different-topic attention; even attention: 1. Squared loss, Adam "
        "0.01.",
    )
    rows = [[row.family.name, *(spread(row.relations, name) for name in RELATIONS)] for row in f.stages]
    means = Table(
        ["W_V", *RELATIONS],
        rows,
        "Mean attention at the last step ± standard deviation over seeds "
        f"({_sizes(row.relations.ratio for row in f.stages)}), rescaled to documents of 100 words.",
    )
    block = next(row for row in f.stages if row.family.name == BLOCK.name)
    best = block.optima
    optimum = (
        ""
        if best is None
        else (
            " For two topics per document (infinite documents, same-word and same-topic weights equal) the best ratio "
            f"is {number(best.kept, 2)} in the thesis's loss, which normalises attention over words alone and lets "
            f"[MASK] keep its share; it is {number(best.attended, 2)} where [MASK] is attended to as a word of another "
            f"topic is, and {number(best.free, 2)} where [MASK] has the weight that is best for it "
            f"({number(best.free_weight, 2)} times that of such a word)."
        )
    )
    return [
        "Theorem 2.1.3 (block W_V) puts the best attention on the same topic; Theorem 2.1.5 (diagonal W_V) on the "
        f"same word, with other words of the topic below even those of other topics.{optimum} Without kept and random "
        "words every chosen position shows [MASK], whose query does not depend on the word: attention cannot follow "
        "the topic.",
        table,
        means,
    ]


def boundary_parts(f: Findings) -> list[str | Table | Figure]:
    """Two stages or not, setting by setting."""
    rows = []
    for b in f.boundaries:
        r = b.result
        rows.append(
            [
                b.family.name,
                str(r.share.n),
                "two stages" if r.two_stages else "no",
                Cell(r.share),
                Cell(r.boundary, 0) if r.two_stages else ABSENT,
                Cell(r.value_done) if r.two_stages else ABSENT,
                Cell(r.attention_done) if r.two_stages else ABSENT,
            ]
        )
    table = Table(
        ["trained with", "runs", "verdict", "share of runs", "stage 1 ends", "growth of W_V by then", "of W_Q, W_K"],
        rows,
        "Cross entropy, everything but the one-hot embedding trained. Two stages: a flat first stretch of W_Q and W_K "
        "fits far better than a rise from the start, and by its end W_V has done half of its growth or more and later "
        "grows at most half as fast. The thesis shows steps 0-400 and 400-1000; the sentence with its settings is cut.",
    )
    shown = next((b for b in f.boundaries if b.result.two_stages), f.boundaries[0])
    parts: list[str | Table | Figure] = [
        table,
        Figure(
            shown.result.figure(),
            f"Norms over training, {shown.family.name}: a line per seed (n={shown.result.share.n} runs).",
        ),
    ]
    turned = next((b for b in f.boundaries if b.result.rotation is not None and b is not shown), None)
    if turned is not None:
        parts.append(
            Figure(
                turned.result.figure(),
                f"The same for {turned.family.name} (n={turned.result.share.n} runs), with the rotation of W_V.",
            )
        )
    return parts


def landscape_parts(f: Findings) -> list[str | Table | Figure]:
    """Figs 2.7 and 2.8 with the optima."""
    rows = []
    for tau, block, diagonal in zip(TAUS, f.optima["block"], f.optima["diagonal"], strict=True):
        rows.append(
            [
                str(tau),
                number(block.gamma, 1),
                f"({number(LANDSCAPE.lambda1 * (tau - 1), 1)}, {number(LANDSCAPE.lambda2 * LANDSCAPE.num_topics, 0)})",
                number(block.loss, 6),
                f"{diagonal.alpha:.2g}, {diagonal.beta:.3g}",
                f"({number(LANDSCAPE.lambda3 * tau, 0)}, {number(LANDSCAPE.lambda4 * LANDSCAPE.num_topics, 0)})",
                number(diagonal.loss, 5),
            ]
        )
    table = Table(
        ["topics per document", "block: γ*", "bound", "loss", "diagonal: α*, β*", "bound on β*", "loss"],
        rows,
        "T = 100, v = 300, masking 0.15/0.1/0.1. Bounds of Theorems 2.1.3 and 2.1.5, with the λ₁ of the proof: the "
        f"printed one ({number(LANDSCAPE.lambda1_printed)} against {number(LANDSCAPE.lambda1)}) does not follow from "
        "it.",
    )
    captions = {
        "diagonal": "Fig. 2.7: diagonal W_V. Loss over attention to other words of the topic (α) and to the same word "
        "(β), in units of attention to other topics. The mark is the optimum (α* below the axis is drawn at its edge).",
        "block": "Fig. 2.8: block W_V. Only γ = ((v - 1) α + β) / v matters, hence the ridge of equal losses; the mark "
        "is where α = β = γ*.",
    }
    figures = [Figure(landscape_figure(f, kind), captions[kind]) for kind in ("diagonal", "block")]
    return [table, *figures]


def paper_table(f: Findings) -> Table:
    """The thesis's numbers beside ours."""
    theory = TopicTheory.from_grammar(TopicGrammar())
    rows: list[Row] = [
        [
            "W^V on the exact law (Thm 2.1.2)",
            f"{number(theory.W_diff, 5)} / {number(theory.W_same, 5)} / {number(theory.W_i0, 5)}",
            f"within {_percent(f.exact[0].largest.value)} (no seeds: float64)",
            "",
        ]
    ]
    for g in f.groups:
        if g.group.label in PAPER_FAINT:
            arm = g.arms[2]
            same, other = PAPER_FAINT[g.group.label]
            rows.append(
                [
                    f"{g.group.label}, squared loss with SGD: block / other mean",
                    f"{number(same, 4)} / {number(other, 4)}",
                    f"{number(arm.block_mean.value, 4)} / {number(arm.other_mean.value, 4)}",
                    "",
                ]
            )
            rows.append(
                [
                    f"{g.group.label}: expected to have that block mean at step",
                    "not given",
                    _steps(f, g.group.label),
                    "",
                ]
            )
    for row in f.table:
        if row.paper is not None:
            rows.append(
                [
                    f"same topic / different topic, {row.family.name}",
                    number(row.paper[1] / row.paper[2], 2),
                    Cell(row.right.ratio),
                    Cell(row.released.ratio),
                ]
            )
    diagonal = next(row for row in f.stages if row.family.name == DIAGONAL.name)
    rows.append(
        [
            "diagonal W_V: same word / topic / other",
            " / ".join(number(x, 4) for x in PAPER_DIAGONAL),
            " / ".join(number(diagonal.relations.means[RELATIONS[k]].value, 4) for k in (0, 2, 3)),
            "",
        ]
    )
    return Table(
        ["quantity", "thesis", "ours", "ours, released lookup"],
        rows,
        f"Ours: means over n={f.count} seeds. Released lookup: what the released code takes for the topic of a word, "
        f"{SPECIAL} places on. The thesis averages 3 runs (Table 2.1) or 7 chosen of 10 (Table 2.2, where W_V "
        "was trained and became diagonal; ours is frozen at the diagonal optimum). Its ratios lie in "
        f"{PAPER_RATIOS[0]}-{PAPER_RATIOS[1]}. Batch, steps and initial scale are not given there.",
    )


def settings_table(f: Findings) -> Table:
    """What was trained."""
    names = ("steps", "batch", "lr", "optimizer", "loss", "l2", "start", "trained", "data")
    families = [("Fig. " + g.group.label.split()[-1], arm.family) for g in f.groups for arm in g.arms]
    families += [("Table 2.1", row.family) for row in f.table]
    families += [("stage 2", row.family) for row in f.stages]
    families += [("Fig. 2.4", b.family) for b in f.boundaries]
    rows = []
    for label, family in families:
        recipe = family.recipe
        rows.append(
            [f"{label}, {family.name}", family.preset, f"{recipe.config.init_std:g}"]
            + [str(getattr(recipe.settings, n)) for n in names]
        )
    return Table(["population", "preset", "initial scale", *names], rows, "Batch counts documents a seed and step.")


def _steps(f: Findings, label: str) -> str:
    found = [a.steps[label] for a in f.answers if not a.setting.averaged]
    known = [step for step in found if step is not None]
    if len(known) < len(found):
        return f"never in {len(found) - len(known)} of {len(found)} settings"
    return f"{min(known):,.0f} to {max(known):,.0f} by setting (no seeds: expectation)"


def _sizes(estimates: Iterable[Estimate]) -> str:
    """Over how many seeds, of several estimates: "n=4 seeds", or "n=1 and 4 seeds"."""
    return f"n={' and '.join(str(n) for n in sorted({e.n for e in estimates}))} seeds"


def _percent(value: float | None) -> str:
    return power(value) if value is not None and value < 1e-4 else percent(value, 2)
