"""The page of `lottery-ticket`. Every sentence is made from the numbers."""

from collections.abc import Sequence

import numpy as np

from case_studies.lottery_ticket.figures import (
    accuracy_figure,
    construction_figure,
    curve_figure,
    maps_figure,
    sums_figure,
)
from case_studies.lottery_ticket.measure import (
    BETWEEN,
    DECOY,
    MORE,
    Curve,
    Decoy,
    Everything,
    N,
    Pruned,
    Sums,
    widest_gap,
)
from case_studies.lottery_ticket.theorem import theorem_parts
from case_studies.lottery_ticket.words import factor, fall, missed, share_range, short, span
from case_studies.page import Figure, Page, Section, Table
from case_studies.words import Cell
from interp.numbers import estimate, number, percent, power
from interp.worlds.dyck.recipes import settings_of
from probes.lottery import CONTROL_STRINGS
from probes.shared_matrix import SharedMatrixResult


def report(found: Everything, command: str) -> Page:
    """The report of what was measured."""
    *curves, lead = curve_parts(found.curve)
    assert isinstance(lead, Figure)
    return Page(
        title="A trained Transformer inside a random one",
        asked=(
            "Can a random Transformer be pruned, without changing a weight, into one that does a given thing? And "
            "what does then a single weight matrix say about the function?"
        ),
        said=[
            "Into any Transformer of L layers a wide enough random one of 4L layers can be pruned, within any ε, "
            "whatever the attention of its idle layers looks like (Wen et al. 2023, Theorem 2; an existence proof, "
            "without an experiment).",
            "So a single weight matrix, or a pattern, need not tell what the whole computes.",
        ],
        answer=answers(found),
        sure=(
            f"{len(found.pruned)} targets, each in a random network of its own. Errors are the largest over all "
            f"inputs, accuracies over {found.size.strings} held-out strings with 95 % intervals, factors over "
            f"{found.size.networks} networks. Beside them: other masks, and closing the token before."
        ),
        lead=lead,
        compared=theorem_parts(found),
        sections=[
            Section(
                "Targets and their tickets", [*construction_parts(found), targets_table(found), norms_table(found)]
            ),
            Section("One entry: subset sums", [*sums_parts(found.sums)]),
            Section("Error against n and width", curves),
            Section("Other masks of the same density", [*control_parts(found.pruned)]),
            Section("Arbitrary patterns in a working model", [*decoy_parts(found.decoy)]),
            Section("One matrix, two functions", [*shared_parts(found.shared)]),
            Section("What is not random", [copied_note(found)]),
        ],
        settings=[settings_table(found)],
        command=command,
        digests=list(found.digests.items()),
    )


def answers(found: Everything) -> list[str]:
    """Three sentences with numbers."""
    worst = max(p.result.relative_error_max.value or 0.0 for p in found.pruned)
    level = [p.result.levels[-1].epsilon for p in found.pruned]
    epsilon = {kind: max(e[kind] for e in level) for kind in ("random", "small")}
    gap = max(abs(p.result.accuracy_gap.value or 0.0) for p in found.pruned)
    bound = max(p.result.accuracy_gap.high or 0.0 for p in found.pruned)
    close = "the same closing accuracy, to 4 digits" if gap < 5e-5 else f"a closing accuracy within {number(gap, 4)}"
    controls = [c for p in found.pruned for c in p.result.controls.values()]
    own = [p.result.reference.refitted.value or 0.0 for p in found.pruned if p.result.reference]
    best = max(c.accuracy["argmax"].value or 0.0 for c in controls)
    refit = [max(c.refitted.value or 0.0 for c in p.result.controls.values()) for p in found.pruned]
    floor = np.mean([c.floor or 0.0 for c in controls])
    same = sum(s.identical for s in found.shared)
    apart = [s for s in found.shared if "swapped" in s.names[1]]
    return [
        f"With {N} candidates per weight, {len(found.pruned)} targets are found in random networks with a largest "
        f"relative error of {power(worst)} (asked: < 1e-2; in the theorem's norm ε = {power(epsilon['random'])} on "
        f"random inputs of norm 1, {power(epsilon['small'])} on smaller ones) and {close} (95 % bound "
        f"{number(bound, 4)}; asked: 0.01); end to end the error falls by a factor "
        f"{fall(found.curve.slopes['end to end'])} per candidate.",
        f"Other masks of the same density on the same networks close {number(best, 2)} of brackets at best. "
        f"Unembeddings fitted anew read which closing bracket comes next off the tickets for {number(min(own))} of "
        f"closing brackets or more, off the best other mask of each network for {number(min(refit))} to "
        f"{number(max(refit))}; closing the token before and else guessing scores {number(float(floor), 2)}.",
        f"{same} of {len(found.shared)} pairs of functions share the chosen matrix bit for bit, among them a solver "
        f"that closes {percent(apart[0].accuracy['pruned'][0])} and one that closes "
        f"{percent(apart[0].accuracy['pruned'][1])} of brackets right; an idle layer of a network that attends evenly "
        f"looks like a stack (stack-likeness (closers) {estimate(found.decoy.stack[DECOY], n=True)}; a stack has 1).",
    ]


# -- targets ----------------------------------------------------------------------------------------------


def families(pruned: Sequence[Pruned]) -> dict[str, list[Pruned]]:
    """Targets by family, in order."""
    out: dict[str, list[Pruned]] = {}
    for p in pruned:
        out.setdefault(p.family, []).append(p)
    return out


def construction_parts(found: Everything) -> list[str | Figure]:
    """What the words mean."""
    layers = len(found.pruned[0].result.working)
    return [
        "A ticket is a random network under masks: each weight is kept as it was drawn or set to 0, and the whole then "
        f"computes what its target does. A weight of the target becomes a sum over some of n = {N} candidates, "
        "products of two random weights on the way from its input to its output; which of them, the masks say. For "
        "each layer of the target the random network has a link, which prepares its values, a working layer, which "
        "does what it does, and two idle layers, which pass everything on whatever their attention looks like.",
        Figure(
            construction_figure(layers),
            "Idle layers may stand anywhere, as long as each working layer has its link before it.",
        ),
    ]


def targets_table(found: Everything) -> Table:
    """A row a family."""
    rows, more = [], iter(found.more)  # in the order of the targets, families one after the other
    for name, members in families(found.pruned).items():
        r = [p.result for p in members]
        level = [x.levels[-1] for x in r]
        wider = [next(more) for _ in members]
        rows.append(
            [
                f"{name} ({len(members)})",
                number(min(x.accuracy["target"]["argmax"] or 0 for x in r), 4),
                number(min(x.accuracy["pruned"]["argmax"] or 0 for x in r), 4),
                Cell(widest_gap(members), 4),
                power(max(x.relative_error_max.value or 0 for x in r)),
                power(max(x.epsilon["random"] for x in level)),
                power(max(x.epsilon["small"] for x in level)),
                power(max(x.epsilon["strings"] for x in level)),
                power(max(max(x.epsilon.values()) for x in wider)),
                power(max(x.entry_max for x in level)),
                f"{r[0].d_model} / {r[0].d_mlp}",
            ]
        )
    return Table(
        [
            "target (models)",
            "accuracy",
            "pruned",
            "gap",
            "relative error",
            "ε, random",
            "ε, small",
            "ε, strings",
            f"ε, all, n = {MORE}",
            "largest entry (absolute)",
            "width / MLP",
        ],
        rows,
        f"Argmax closing accuracy on {found.size.strings} held-out strings, the worst model of a family; errors are "
        "the largest of all models and inputs. Relative error: |T'(X) - T(X)| over |T(X)|; ε: over |X|, as in the "
        "theorem; both in the norm that takes the largest column. Random inputs have norm 1, small ones from 1e-3 "
        "to 1: there |X| is next to nothing and C small, and ε large though the relative error is not. Gap: "
        "interval over strings, the widest of all models. By the strictest of three rules (argmax, among closing "
        f"brackets, mass) the worst target closes {number(strictest(found), 4)}, the worst pruned network "
        f"{number(strictest(found, 'pruned'), 4)}.",
    )


def strictest(found: Everything, whose: str = "target") -> float:
    """The least closing accuracy over models and rules."""
    rules = ("argmax", "argmax_closers", "mass")
    return min(p.result.accuracy[whose][rule] or 0.0 for p in found.pruned for rule in rules)


def norms_table(found: Everything) -> Table:
    """Spectral norms, of which the theorem asks at most 1."""
    rows = []
    for name, members in families(found.pruned).items():
        norms = [p.result.norms for p in members]
        keys = ("attn.W_V", "scores", "mlp.W_in", "mlp.W_out")
        rows.append([name, *(number(max(n.get(k, 0.0) for n in norms), 2) for k in keys)])
    return Table(
        ["target", "W_V", "W_K W_Qᵀ", "first MLP map", "second MLP map"],
        rows,
        "Largest spectral norms. The theorem assumes at most 1 for each matrix; the construction does not need that: "
        "it brings large entries down by coarse sums first.",
    )


# -- sums, curve --------------------------------------------------------------------------------------------


def sums_parts(sums: Sequence[Sums]) -> list[str | Table | Figure]:
    """One entry."""
    rows = [
        [
            str(s.n),
            power(s.theory),
            power(s.median),
            power(s.p99),
            power(s.largest),
            Cell(s.missed, 4),
            power(s.paired_median),
            power(s.paired_largest),
        ]
        for s in sums
    ]
    return [
        "An entry is a subset of n products of two random weights. The median error says little: some groups cannot "
        f"reach their target at all (n = {N}: {missed(sums)} by more than 1e-3), and a network has thousands of "
        "entries. Each entry therefore has two groups to choose from, and what lies beyond 1/2 is first brought "
        "down by a coarse sum. In a network, moreover, the first weight of each product is chosen large; here it is "
        "not, and now and then both groups fail.",
        Table(
            ["n", "theory", "median", "99 %", "largest", "beyond 1e-3", "two groups, median", "two groups, largest"],
            rows,
            f"{sums[0].missed.n} targets from U(-1/2, 1/2). Theory: log(2) / 2 over the density of the 2^n sums at "
            "1/4.",
        ),
        Figure(sums_figure(sums), "Exact best subsets. What no subset reaches sets the largest errors."),
    ]


def curve_parts(c: Curve) -> list[str | Table | Figure]:
    """Whole networks."""
    rows = []
    for i, level in enumerate(c.levels[0]):
        column = [row[i] for row in c.levels]
        rows.append(
            [
                str(level.candidates),
                f"{level.d_model}",
                f"{level.d_mlp}",
                span([x.entry_median for x in column]),
                span([x.entry_max for x in column]),
                span([x.epsilon["random"] for x in column]),
                span([x.epsilon["small"] for x in column]),
                span([x.epsilon["strings"] for x in column]),
                span([x.worst for x in column]),
                span([max(x.relative_float32.values()) for x in column]),
            ]
        )
    theory = number(10**-c.expected, 2)
    slopes = [[name, Cell(e, 3), Cell(factor(e)), theory] for name, e in c.slopes.items()]
    return [
        Table(
            [
                "n",
                "width",
                "MLP",
                "entry, median (absolute)",
                "entry, largest (absolute)",
                "ε, random",
                "ε, small",
                "ε, strings",
                "relative",
                "relative, float32",
            ],
            rows,
            f"{c.target}, seed 0; least and greatest of {len(c.levels)} random networks. Widths grow linearly with "
            "n. Weights are float32; the pruned network is run in float64, and in float32 where rounding is the "
            "floor.",
        ),
        Table(
            ["error", "slope of log10 a candidate", "factor", "theory"],
            slopes,
            f"Least squares up to n = {N}; mean over random networks. Theory: of the expected error of one subset "
            "sum at these n; its limit is 2, and it is less since a sum of more products spreads wider.",
        ),
        Figure(curve_figure(c), "Geometric means over random networks."),
    ]


# -- controls -----------------------------------------------------------------------------------------------


def control_parts(pruned: Sequence[Pruned]) -> list[str | Table | Figure]:
    """What other masks reach."""
    rows, rules = [], ("argmax", "argmax_closers", "mass", "argmax_nontrivial")
    every = [c for p in pruned for c in p.result.controls.values()]
    widest = max(((e.high or 0.0) - (e.low or 0.0)) / 2 for c in every for e in (c.accuracy["argmax"], c.refitted))
    for name, members in families(pruned).items():
        for control in ("", *members[0].result.controls):
            said = control or "the ticket's own"
            c = [x for p in members if (x := p.result.controls.get(control, p.result.reference)) is not None]
            rows.append(
                [
                    name,
                    said,
                    *(share_range([x.accuracy[rule].value for x in c]) for rule in rules),
                    share_range([x.refitted.value for x in c]),
                    share_range([x.floor for x in c]),
                ]
            )
    return [
        "The same random networks with as many entries kept: the largest of each matrix, the largest of the whole "
        "network, random ones, and the ticket's own units and counts with each subset drawn anew. The unembedding is "
        "the target's, and it reads coordinates that only the ticket writes; so it is also fitted anew: which "
        "closing bracket comes next, by logistic regression at the closing brackets of other strings. What the fit "
        "makes of the ticket itself says how far it can be trusted; a better one might read more off any of them.",
        Table(
            [
                "target",
                "masks",
                "argmax",
                "among closing brackets",
                "mass",
                "non-trivial",
                "refitted, among closing brackets",
                "floor",
            ],
            rows,
            f"Closing accuracy, least and greatest over models, on {CONTROL_STRINGS} held-out strings each; 95 % "
            f"intervals over strings (in results.json) are at most ±{number(widest)} for argmax and refitted. "
            "reaches the last stream, which is 0. Floor: closing the token before and else guessing, same strings.",
            text=(1,),
        ),
        Figure(accuracy_figure(pruned), "Each point is one target with its own random network."),
    ]


# -- decoys, shared matrices ----------------------------------------------------------------------------------


def decoy_parts(d: Decoy) -> list[str | Table | Figure]:
    """Patterns that mean nothing."""
    said = {**dict.fromkeys(BETWEEN, "works"), **{at - 1: "prepares the next" for at in BETWEEN}}
    said |= {DECOY: "idle, decoy: scores made stack-like", DECOY + 1: "idle, queries and keys masked"}
    rows = [[f"layer {i}", said.get(i, "idle, queries and keys whole"), Cell(e, 3)] for i, e in enumerate(d.stack)]
    rows += [[f"target, layer {i}", "works", Cell(e, 3)] for i, e in enumerate(d.target_stack)]
    same = "the same logits to the last bit" if d.same_output else "OTHER logits"
    return [
        "Idle layers have their values masked, so their queries and keys do nothing. The solver that attends evenly "
        f"is pruned with a stack's scores in layer {DECOY}. Whether idle queries and keys are whole, wholly masked "
        f"or made to look like a stack gives {same}.",
        Table(
            ["layer", "what it does", "stack-likeness (closers)"],
            rows,
            f"Of the saved checkpoint {d.path}, loaded again: 1 for a head on the last unmatched open bracket, 0 "
            f"for a uniform one. Of its {d.entries:,} block entries {d.foreign} are neither 0 nor the "
            f"random network's. It closes {number(d.accuracy, 4)} of brackets on {d.strings} strings.",
            text=(1,),
        ),
        Figure(
            maps_figure(d),
            "Boxes: the last unmatched open bracket. The network works as the two panels on the left do.",
        ),
    ]


def shared_parts(shared: Sequence[SharedMatrixResult]) -> list[str | Table | Figure]:
    """Corollary 2."""
    rows = []
    for s in shared:
        strings, others = s.difference["strings"], s.difference["any brackets"]
        assert isinstance(strings.null, dict)
        rows.append(
            [
                s.matrix.removeprefix("blocks."),
                f"{short(s.names[0])}, {short(s.names[1])}",
                "yes" if s.identical else "NO",
                percent(s.kept / s.size, 2),
                f"{sum(s.agreement.values())} of {len(s.agreement)}",
                power(max(max(r.values()) for r in s.relative)),
                " / ".join(number(a) for a in s.accuracy["pruned"]),
                Cell(strings, 3),
                number(strings.null["targets"]),
                Cell(others, 3),
            ]
        )
    last = shared[-1]
    return [
        "Corollary 2: pick a matrix; its layer is made idle in both prunings. All solvers here share embedding, "
        "positions and unembedding too, so that what tells the functions apart is the masks of other matrices.",
        Table(
            [
                "matrix",
                "functions",
                "identical",
                "kept",
                "agree in all",
                "relative error",
                "accuracy",
                "differ on Dyck strings",
                "their targets",
                "differ on any brackets",
            ],
            rows,
            "Differ: total variation of next-token distributions of the two pruned networks, mean over strings, "
            "beside that of their targets. Kept: share of the matrix's entries. Values of an idle layer are "
            "wholly masked: sharing W_V is then trivial.",
            text=(1,),
        ),
        Figure(
            last.figure(),
            "Which matrices of the two pruned networks agree bit for bit. They close "
            f"{percent(last.accuracy['pruned'][0])} and {percent(last.accuracy['pruned'][1])} of brackets right.",
        ),
    ]


def copied_note(found: Everything) -> str:
    """What is the target's own."""
    names = sorted({name for p in found.pruned for name in p.result.copied})
    return (
        f"Copied from the target and padded with zeros: {', '.join(names)}. Everything else, all matrices of all "
        "blocks, is drawn once from U(-1, 1), and a pruned matrix is the random one times a mask. The norm's C is "
        "the target's times one factor, which undoes the scale of the values; the b switch of the extended norm "
        "stays 1 in every layer."
    )


def settings_table(found: Everything) -> Table:
    """What was trained and drawn."""
    size = found.size
    rows = []
    for one in found.trained:
        family, count = one.family, len(one.population)
        settings, config = settings_of(family.recipe), family.recipe.config
        rows.append(
            [
                family.name,
                f"preset {family.preset}, {count} seeds, {settings.steps} steps of {settings.batch} strings, "
                f"lr {settings.lr:g}, {settings.optimizer}; width {config.d_model}, MLP {config.d_mlp}, "
                f"C = {config.norm_eps:g}; at most {settings.max_length} brackets",
            ]
        )
    depths = " and ".join(f"D = {depth}" for depth in size.solver_depths)
    return Table(
        ["what", "how"],
        [
            *rows,
            ["constructed targets", f"the uniform and the stack solver, k = 2, {depths}"],
            ["random networks", "weights from U(-1, 1); masks only keep or drop them"],
            ["candidates", f"n = {N}; on the curve {', '.join(map(str, size.curve))}, {size.networks} networks each"],
            ["accuracy", f"{size.strings} held-out strings a target, {CONTROL_STRINGS} for other masks"],
            ["subset sums", f"{size.sums} targets for each n"],
        ],
        text=(1,),
    )
