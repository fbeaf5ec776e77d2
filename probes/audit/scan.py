"""What a scan of every head against every relation found."""

import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from interp.numbers import absent, estimate, number, percent, reasons
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.audit.fits import COLUMNS, Fit, LayerShare, ScannedHead
from probes.audit.scan_figure import scan_figure
from probes.audit.thresholds import LEAD, UNUSED, USED
from probes.audit.whole import Matters
from probes.audit.words import SCORED, WIDTH, shortened
from probes.claims import heads_text
from probes.core import Result, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

SIGNS = {"holds": "✓", "fails": "✗", "undecided": "?", None: " "}
SHOWN = 12  # relations of a layer in the summary of several models
NAMED = 3  # relations that are named below them


@dataclass(frozen=True)
class ScanResult(Result):
    """Every head against every relation, corrected together.

    - `fits`: all pairs; `heads`: the best of each head; `layers`: of several models, by layer and relation that the
      best head of any seed has.
    - `task`: in words; `no_task`: why there is none.
    - `level`: of scores, 1 - .05 / (`num_heads` x `num_relations`); `effect_level`: of whole-head interchanges, 1 -
      .05 / (`num_heads` x kinds of minimal pair), None where there is no task; `share_level`: of shares of seeds,
      1 - .05 / (layers x relations), or x 2 where "is used" is told, too, None of one model. A distance or position is
      one of a family, which counts as one relation: its members share that part (`level` of `layers`).
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `drawn`: of a model of no world, what inputs were drawn for it, in words; else "".
    """

    TABLE: ClassVar[str] = "fits"

    fits: tuple[Fit, ...]
    heads: tuple[ScannedHead, ...]
    layers: tuple[LayerShare, ...]
    task: str | None
    no_task: str
    level: float
    effect_level: float | None
    share_level: float | None
    num_heads: int
    num_relations: int
    num_models: int
    num_inputs: int
    seed: int
    task_check: TaskCheck | None = None
    drawn: str = field(default="", metadata={"json": "given"})

    def summary(self) -> str:
        """Of one model a table by head; of several, by layer, in which share of seeds what is there."""
        lines = _of_models(self) if self.num_models > 1 else _of_model(self)
        checked = [] if self.task_check is None else [fold([str(self.task_check)])]
        drawn = _wrapped(f"Inputs drawn: {self.drawn}.", "") if self.drawn else []
        return "\n".join([*lines, *drawn, *checked])

    def figure(self) -> "go.Figure":
        """Scores by head and relation with the words of the rules, each kind by itself; of several models, shares."""
        return scan_figure(self.fits, self.heads, self.layers, self.num_models, over_line(self, self.num_models == 1))


def over_line(scan: ScanResult, p_values: bool = False) -> str:
    """How many models and inputs, what was corrected for, and the level; `p_values`: where these are told, too."""
    models = "one model" if scan.num_models == 1 else f"{scan.num_models} models, each by itself"
    heads = f"{scan.num_heads} head{'s' * (scan.num_heads > 1)}"
    effects = ""
    if scan.effect_level is not None:
        effects = f"; effects of whole heads by themselves: {100 * scan.effect_level:.4g} %"
    return (
        f"{models}, n={scan.num_inputs} inputs, one half chooses and the other decides; {heads} x "
        f"{scan.num_relations} relation{'s' * (scan.num_relations > 1)} corrected together: intervals "
        f"{100 * scan.level:.5g} %{', p-values by Holm' if p_values else ''}{effects}"
    )


# -- inside -------------------------------------------------------------------------------------------------


def _of_model(scan: ScanResult) -> list[str]:
    lines = [
        *_wrapped(f"Every head against every relation: {over_line(scan)}. {SCORED}.", ""),
        *_wrapped(_about_matters(scan), ""),
        f"  {'':<6}{'weight on (mass)':<40}evenly over (even)",
        f"  {'head':<6}{'relation':<13}{'score':<21}{'top-1':<6}{'relation':<10}{'score':<7}matters",
    ]
    for one in scan.heads:
        lines += _lines(one)
    whys = {kind.why for one in scan.heads if one.matters for kind in one.matters.kinds if kind.why}
    lines += [text for why in sorted(whys) for text in _wrapped(f"open: {why}", "  ")]
    shown = [e for one in scan.heads for e in _estimates(one)]
    lines += [text for reason in reasons(shown) for text in _wrapped(reason, "  ")]
    return [*lines, *absent(lines)]


def _lines(one: ScannedHead) -> list[str]:
    """The head's line, and below it the intervals that it has no room for, and the next relation."""
    mass, even, matters = one.mass, one.even, one.matters
    first = f"{_name(mass, 12):<13}{estimate(mass.score, 2) if mass else '':<19}{_sign(mass):<2}"
    first += f"{percent(mass.top1.value) if mass and mass.top1 else '':<6}"
    first += f"{_name(even, 9):<10}{number(even.score.value, 2) if even else '':<5}{_sign(even):<2}"
    last = f"{number(matters.share.value, 2)} {matters.word}" if matters else ""
    told = []
    if one.runner_up is not None and (one.runner_up.score.value or 0.0) >= LEAD:
        told.append(f"then {one.runner_up.relation} {estimate(one.runner_up.score, 2)}")
    if even is not None:
        told.append(f"evenly {estimate(even.score, 2)}")
    if matters is not None:
        told.append(f"moves {_told(matters)}")
    for fit in (mass, even):
        if fit is not None and fit.when:
            told.append(f"{fit.relation} may hold when {fit.when}")
    line = f"  {heads_text([(one.layer, one.head)]):<6}{first}"
    whole = [f"{line}{last}".rstrip()] if len(line) + len(last) <= WIDTH else [line.rstrip(), f"{last:>{WIDTH}}"]
    return [*whole, *_wrapped("; ".join(told), " " * 8)]


def _told(matters: Matters) -> str:
    """The effects with intervals, of each kind of pair."""
    return ", ".join(f"{estimate(one.share, 2)}{f' ({one.kind})' if one.kind else ''}" for one in matters.kinds)


def _about_matters(scan: ScanResult) -> str:
    signs = f"Pattern of the best: {SIGNS['holds']} holds, {SIGNS['fails']} fails, {SIGNS['undecided']} undecided. "
    if scan.task is None:
        return signs + scan.no_task
    return signs + (
        f"matters: share of the margin ({scan.task}) that is lost when all that the head gives is the donor's: used "
        f"(at least {USED:g}, to either side), not moved (less than {UNUSED:g}; another head may stand in), open."
    )


def _of_models(scan: ScanResult) -> list[str]:
    lines = [
        *_wrapped(f"Every head against every relation: {over_line(scan)}.", ""),
        *_wrapped(
            "Shares of seeds in which the best head of the layer has the relation (its pattern holds), and of those "
            f"in which that head is used, too; exact intervals of {100 * (scan.share_level or 0.0):.5g} %, corrected "
            f"for {_corrected(scan)}{_of_members(scan)}; n={scan.num_models} seeds. The numbering of heads means "
            f"nothing across seeds. {scan.no_task}".rstrip(),
            "",
        ),
    ]
    for layer in sorted({one.layer for one in scan.heads}):
        lines.append(f"Layer {layer}")
        rows = [one for one in scan.layers if one.layer == layer]
        for kind, title in zip(COLUMNS, ("weight on", "evenly over"), strict=True):
            mine = [one for one in rows if one.kind == kind]
            if mine:
                lines.append(f"  {title:<34}{'has it':<22}{'and is used'}".rstrip())
            for one in mine[:SHOWN]:
                used = "" if one.used is None else estimate(one.used, 2)
                lines.append(f"  {shortened(one.words, 32):<34}{estimate(one.share, 2):<22}{used}".rstrip())
            if len(mine) > SHOWN:
                lines.append(f"  ({SHOWN} of {len(mine)} relations)")
        if not rows:
            lines.append("  no seed's best head is shown to have any of them")
        lines += _of_layer(scan, layer)
    return lines


def _corrected(scan: ScanResult) -> str:
    """What the shares of seeds are corrected for: "2 layers x 13 relations x 2 columns"."""
    layers = len({one.layer for one in scan.heads})
    columns = "" if scan.effect_level is None else " x 2 columns"
    return f"{counted(layers, 'layer')} x {counted(scan.num_relations, 'relation')}{columns}"


def _of_members(scan: ScanResult) -> str:
    """Of shares that are corrected for more, since they are of one distance or position among many."""
    others = sorted({one.level for one in scan.layers} - {scan.share_level})
    return f" ({' or '.join(f'{100 * level:.5g} %' for level in others)} of one distance or position)" if others else ""


def _of_layer(scan: ScanResult, layer: int) -> list[str]:
    """What else is seen over seeds: how many heads are used, and what is undecided or holds under a condition."""
    lines, of = [], f"of {counted(scan.num_models, 'seed')}"
    mine = [one for one in scan.heads if one.layer == layer and one.matters is not None]
    if mine:
        seeds = sorted({one.seed for one in mine})
        used = [sum(one.matters.word == "used" for one in mine if one.seed == seed and one.matters) for seed in seeds]
        heads, some = len(mine) // len(seeds), sum(count > 0 for count in used)
        told = f"; in the median seed {sorted(used)[(len(used) - 1) // 2]} of {heads} are" if some and heads > 1 else ""
        lines += _wrapped(f"some head is used in {some} {of}{told}", "  ")
    best = [fit for fit in scan.fits if fit.layer == layer and fit.best_of_layer]
    left = [fit for fit in best if fit.pattern == "undecided"]
    if left:
        named = Counter(fit.words for fit in left).most_common(NAMED)
        told = ", ".join(f"{words} ({count})" for words, count in named)
        seeds_left = len({fit.seed for fit in left})
        lines += _wrapped(f"{seeds_left} {of} leave some relation undecided: {told}", "  ")
    hints = Counter((fit.words, fit.when) for fit in best if fit.when)
    for (words, when), count in hints.most_common(NAMED):
        lines += _wrapped(f"{words}, when {when}: may hold in {count} {of}, which an audit tells", "  ")
    return lines


def _name(fit: Fit | None, width: int) -> str:
    return "" if fit is None else shortened(fit.relation, width)


def _sign(fit: Fit | None) -> str:
    return "" if fit is None else SIGNS[fit.pattern]


def _estimates(one: ScannedHead) -> list[Estimate]:
    fits = (one.mass, one.runner_up, one.even)
    moved = one.matters.kinds if one.matters is not None else ()
    return [*(fit.score for fit in fits if fit is not None), *(kind.share for kind in moved)]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
