"""What a lottery ticket is, beside its target."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interp.model import SandboxTransformer
from interp.numbers import ABSENT, absent, estimate, number, power, reasons, size
from interp.stats import Estimate
from interp.text import fold
from probes.core import Result
from probes.lottery.figure import DIFFERENT, lottery_figure, poor
from probes.lottery.measures import Control, Level
from probes.lottery.ticket import Ticket

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = {"random": "random, |X| = 1", "small": "random, smaller", "strings": "Dyck strings"}


@dataclass(frozen=True)
class LotteryResult(Result):
    """A pruned random network beside its target.

    - `relative_error_max`: largest |T'(X) - T(X)| / |T(X)| in the paper's 1,2-norm (largest position) over random
      inputs and Dyck strings. A maximum over a sample has no interval; `reason` says what it does tell. Null: each
      control's, over its strings.
    - `accuracy_gap`: argmax closing accuracy of the target minus that of the pruned network on held-out strings.
      Null: the same difference for each control, both accuracies on the strings of the controls.
    - `epsilon`: largest error over |X|, the theorem's, by kind of input.
    - `levels`: the same for other numbers of candidates, ascending; `decay`: slope of log10 of the largest relative
      error against candidates, by least squares (theory: -0.301, a factor 2 per candidate, before constants).
    - `accuracy`: closing accuracy by rule of target, pruned network and floor (close the token before, else guess).
    - `controls`: by name; see `probes.lottery.controls`. `reference`: the pruned network on their strings, refitted
      too: what the readout of `Control.refitted` makes of a network that works.
    - `law`: of the strings, the target's own, no longer than its n_ctx admits; None without brackets.
    - `norms`: spectral norms of the target's matrices, of which the theorem asks at most 1.
    - `pattern_error`: largest l1 difference between a row of the target's attention and of the working layer's.
    - `density`: kept share by kind of matrix. Idle and link layers keep W_Q and W_K whole unless told otherwise.
    - `copied`: what is not drawn at random but the target's own.
    """

    relative_error_max: Estimate
    accuracy_gap: Estimate
    epsilon: dict[str, Estimate]
    candidates: int
    seed: int
    d_model: int
    d_mlp: int
    working: tuple[int, ...]
    idle: tuple[int, ...]
    levels: tuple[Level, ...]
    decay: float | None
    accuracy: dict[str, dict[str, float | None]]
    controls: dict[str, Control]
    reference: Control | None
    law: dict[str, Any] | None
    norms: dict[str, float]
    pattern_error: float
    density: dict[str, float]
    copied: tuple[str, ...]
    ticket: Ticket = field(repr=False, metadata={"json": False})

    @property
    def model(self) -> SandboxTransformer:
        """The pruned network: give it to `save_checkpoint` or to any probe."""
        return self.ticket.model()

    def summary(self) -> str:
        """A few lines for a terminal."""
        layers = len(self.working)
        relative = next(level.relative for level in self.levels if level.candidates == self.candidates)
        lines = [
            f"Lottery ticket: {layers} layers inside {4 * layers} random ones of width {self.d_model}, "
            f"MLPs {self.d_mlp}",
            f"n = {self.candidates} an entry, seed {self.seed}; copied: {', '.join(self.copied)}",
            f"largest relative error   {power(self.relative_error_max.value)}   ({size(self.relative_error_max)})",
        ]
        lines += [
            f"  {KINDS[kind]:<16} epsilon = |T'-T| / |X|  {power(e.value)}   relative {power(relative[kind])}"
            for kind, e in self.epsilon.items()
        ]
        if poor(self.relative_error_max):
            lines.append(DIFFERENT)
        if self.law:
            law = self.law
            length = f"{law['length']}" if law["data"] == "prefix" else f"{law['min_length']} to {law['max_length']}"
            lines.append(f"Dyck strings: {law['data']}, {length} brackets")
        if self.accuracy:
            heads = "".join(f"{head:>10}" for head in ("argmax", "closers", "mass", "non-triv.", "refit"))
            lines.append(f"{'closing accuracy':<26}{heads}")
            refits = ({"pruned network": self.reference} if self.reference else {}) | self.controls
            read = {name: number(c.refitted.value) for name, c in refits.items()}
            rows: dict[str, Mapping[str, float | None]] = {
                "target": self.accuracy["target"],
                "pruned network": self.accuracy["pruned"],
                **{name: {rule: e.value for rule, e in c.accuracy.items()} for name, c in self.controls.items()},
                "floor": self.accuracy["floor"],
            }
            if self.reference:
                read["floor"] = number(self.reference.floor)
            for name, rates in rows.items():
                told = [number(rates.get(rule)) for rule in ("argmax", "argmax_closers", "mass", "argmax_nontrivial")]
                lines.append(f"  {name:<24}" + "".join(f"{cell:>10}" for cell in (*told, read.get(name, ABSENT))))
            if self.reference:
                few = self.reference.refitted.n
                lines.append(f"masks below the pruned network, and refit (which bracket closes): n={few} strings")
            lines += [*reasons(c.refitted for c in refits.values()), *absent(lines)]
            lines.append(f"accuracy gap {estimate(self.accuracy_gap, 4, n=True)}, target minus pruned, argmax")
        else:
            lines.append(f"accuracy gap {self.accuracy_gap}")
        lines.append(
            f"{'n':>4}{'width':>7}{'MLP':>6}{'entry, median':>15}{'theory':>10}{'largest':>10}{'end to end':>12}"
        )
        lines += [
            f"{x.candidates:>4}{x.d_model:>7}{x.d_mlp:>6}{power(x.entry_median):>15}{power(x.theory):>10}"
            f"{power(x.entry_max):>10}{power(x.worst):>12}"
            for x in self.levels
        ]
        if self.decay is not None:
            lines.append(f"end to end the error falls by a factor {number(10**-self.decay, 2)} a candidate (theory 2)")
        return fold(lines)

    def figure(self) -> "go.Figure":
        """Errors against candidates, and accuracy beside the controls."""
        return lottery_figure(
            self.levels,
            decay=self.decay,
            accuracy=self.accuracy,
            reference=self.reference,
            controls=self.controls,
            working=self.working,
            relative_error_max=self.relative_error_max,
            accuracy_gap=self.accuracy_gap,
            d_model=self.d_model,
            d_mlp=self.d_mlp,
        )
