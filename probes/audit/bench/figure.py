"""Words and pictures of the claim bench."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from interp.numbers import ABSENT, absent, estimate, interval, number
from interp.text import fold
from probes.audit.bench.digest import of_which
from probes.audit.bench.family_result import WORDS, FamilyResult, mark
from probes.core import clopper_pearson

if TYPE_CHECKING:
    import plotly.graph_objects as go

HAS_WORD = ("true", "false")  # kinds of claims that a score of a pattern can be right about
_SHORT = {"supported": "sup", "misleading": "mis", "refuted": "ref", "undecided": "und"}


def bench_summary(families: Sequence[FamilyResult], per_family: int, seed: int, threshold: float) -> str:
    """A row a family, at most 80 columns."""
    lines = [
        f"Claim bench: n={per_family} claims a family, seed {seed}",
        "What was said of claims whose truth is known; errors with 95 % intervals, and",
        "undecided is one unless it is the truth. * the audit was mended on this family,",
        "† the family itself was corrected, both on other seeds",
        f"  {'family':<26}{'truth':<11}" + "".join(f"{_SHORT[w]:>4}" for w in WORDS) + "  errors         detector",
    ]
    for family in families:
        rate = family.error_rate
        name = f"{family.name}{family.mark}"
        lines.append(
            f"  {name:<26}{family.expected:<11}"
            + "".join(f"{family.verdicts[word]:>4}" for word in WORDS)
            + f"  {estimate(rate, 2):<18}{_detector(family)}"
        )
    return fold([*lines, *absent(lines), *(f"  {line}" for line in totals(families, threshold))])


def totals(families: Sequence[FamilyResult], threshold: float) -> list[str]:
    """What the bench says as a whole, a line each; `threshold`: the detector's."""
    lines = []
    untrue = [f for f in families if f.kind != "true"]
    if untrue:
        worst = max(untrue, key=lambda f: f.verdicts["supported"])
        lines.append(
            f"falsely supported: {sum(f.verdicts['supported'] for f in untrue)} of {sum(f.n for f in untrue)} claims "
            f"that are not true; at most {worst.verdicts['supported']} of {worst.n} in a family"
        )
    decidable = [f for f in families if f.kind != "undecidable"]
    if decidable:
        count, n = sum(f.undecided for f in decidable), sum(f.n for f in decidable)
        lines.append(f"undecided: {count} of {n} that can be decided")
    asked = [f for f in families if f.detector_n and f.kind in HAS_WORD]
    if asked:
        errors, n = sum(f.detector_errors for f in asked), sum(f.detector_n for f in asked)
        lines.append(
            f"detector at its best threshold, {number(threshold)}: {errors} of {n} true and false "
            "claims wrong; it has no word for the others, and takes no bidirectional models"
        )
    return lines


def error_count(data: Mapping[str, Any]) -> str:
    """How many errors there are in what a result's JSON file holds, over claims and over families, as sentences."""
    families = data["families"]
    wrong, claims = (sum(f[of] for f in families) for of in ("errors", "n"))
    where = [f["name"] for f in families if f["errors"]]
    shares = clopper_pearson(wrong, claims), clopper_pearson(len(where), len(families))
    over_claims, over_families = (interval(s.low, s.high, digits) for s, digits in zip(shares, (3, 2), strict=True))
    named = f" ({', '.join(where)})" if where else ""
    return (
        f"{wrong} of {claims} claims came out with an error {over_claims}; each claim is about a model of its own, so "
        f"that this interval is over claims of these families. An error in one claim at least was found "
        f"in {len(where)} of {len(families)} families {over_families}{named}. Intervals are 95 % Clopper-Pearson ones. "
        f"These are results {of_which(data)} (seed {data['seed']})."
    )


def error_table(data: Mapping[str, Any]) -> str:
    """What a result's JSON file holds, family by family, for pages."""
    lines = [
        f"| claims whose truth is known ({data['per_family']} per family) | right | {' | '.join(WORDS)} | errors "
        "| `head_detector` errs |",
        "|---" * (len(WORDS) + 4) + "|",
    ]
    for family in data["families"]:
        counts = " | ".join(str(family["verdicts"][word] or "") for word in WORDS)
        other = family["detector"]
        missed = f"{other['errors']} of {other['n']}" if family["kind"] in HAS_WORD and other["n"] else ABSENT
        lines.append(
            f"| {family['kind']}: {family['name']}{mark(family['developed'], family['corrected'])} "
            f"| {family['expected']} | {counts} "
            f"| {family['errors']} {interval(family['low'], family['high'], 2)} | {missed} |"
        )
    return "\n".join(lines)


def bench_figure(families: Sequence[FamilyResult], per_family: int) -> "go.Figure":
    """Share of verdicts by family; the right one is framed."""
    import plotly.graph_objects as go

    from interp.plots.style import OVERLAY, colorscale, colour_bar, escape, finish

    shares = np.array([[f.verdicts[word] / f.n for word in WORDS] for f in families])
    text = [[str(f.verdicts[word]) if f.verdicts[word] else "" for word in WORDS] for f in families]
    rows = [f"{escape(f.name)}{f.mark} <i>{f.kind}</i>" for f in families]
    heat = go.Heatmap(
        z=shares, x=list(WORDS), y=rows, text=text, texttemplate="%{text}", zmin=0, zmax=1, colorscale=colorscale(),
        colorbar=colour_bar("share of the family"), xgap=3, ygap=3,
        hovertemplate="%{y}: %{text} %{x}<extra></extra>",
    )  # fmt: skip
    fig = go.Figure(heat)
    for i, family in enumerate(families):
        j = WORDS.index(family.expected)
        fig.add_shape(
            type="rect", x0=j - 0.48, x1=j + 0.48, y0=i - 0.46, y1=i + 0.46, line={"color": OVERLAY, "width": 2}
        )
    right, total = sum(f.n - f.errors for f in families), sum(f.n for f in families)
    return finish(
        fig,
        f"Claims whose truth is known: {right} of {total} verdicts are right",
        f"{per_family} claims a family; the right verdict is framed; * the audit was mended on this family, "
        "† the family was corrected",
        width=860,
        height=95 + 25 * len(families),
        margin={"l": 260, "b": 30},
        yaxis={"autorange": "reversed", "showgrid": False},
        xaxis={"side": "bottom", "showgrid": False},
    )


def _detector(family: FamilyResult) -> str:
    return f"{family.detector_errors}/{family.detector_n}" if family.detector_n and family.kind in HAS_WORD else ABSENT
