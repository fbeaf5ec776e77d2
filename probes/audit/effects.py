"""What the edits of a claim did."""

from dataclasses import dataclass

from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Head
from probes.audit.stats import low


@dataclass(frozen=True)
class Effects:
    """What the edits of one claim do; shares of the intact margin, over items of half B.

    - `margin`: intact, in logits. The rest is None where the margin is not positive or an edit is dead.
    - `total`, `sham`, `raw`: net effect of the interchange, that of the sham, and the two added up.
    - `direct`: the net effect with later patterns and norm scales frozen.
    - `fill`: the same edges' values replaced by their mean; `direct_fill`: that, frozen, if use may rest on it.
    - `every`: the interchange in all heads at once; `token`: the donor's token itself.
    - `aimed`: share of items whose claimed edges ever read a token that the donor changes.
    - `paired`: donors are minimal pairs. Else they are other inputs, and `token` exchanges what the claimed edges read.
    - `partners`, `with_partners`: the set found in half A, and the net effect in half B once it is ablated;
      `raw_with_partners`: that without the sham taken off; `held_with_partners`: the net one with later patterns and
      norm scales frozen.
    - `company`, `in_company`: a set of other heads, found in half A, and the effect in half B while they give what
      they give for the donor. Measured where nothing else shows any use.
    - `idle`: of heads claimed together, those that add nothing to the others, each with its own effects.
    - `nothing`: which of these (by field) are equivalent to no effect.
    - `unnatural`: share of items whose last residual norm leaves the natural range.
    - `still`: the output is exactly the same whatever is read; `silent`: the answer does not move at all, not in the
      last bit, when the token itself is exchanged.
    - `output_change`, `answer_change`: the most that any output changes from input to input, by its size, and the
      answer when the token is exchanged, by the larger logit: what `still` and `silent` rest on.
    - `dead`: why no edit can be trusted, or None.
    """

    items: int
    margin: Estimate
    total: Estimate | None = None
    raw: Estimate | None = None
    sham: Estimate | None = None
    direct: Estimate | None = None
    fill: Estimate | None = None
    direct_fill: Estimate | None = None
    every: Estimate | None = None
    token: Estimate | None = None
    aimed: float = 0.0
    paired: bool = True
    partners: tuple[Head, ...] = ()
    with_partners: Estimate | None = None
    raw_with_partners: Estimate | None = None
    held_with_partners: Estimate | None = None
    company: tuple[Head, ...] = ()
    in_company: Estimate | None = None
    idle: tuple[tuple[Head, "Effects"], ...] = ()
    nothing: frozenset[str] = frozenset()
    unnatural: float = 0.0
    still: bool = False
    silent: bool = False
    output_change: float = 0.0
    answer_change: float = 0.0
    dead: str | None = None

    @property
    def aims(self) -> bool:
        """Whether the claimed edges read the token that the donor changes, in most items."""
        return self.aimed >= t.AIMED

    @property
    def used_whole(self) -> bool:
        """Whether the total effect alone shows use: of the exchange, net and as it is, and the same way of the mean."""
        if self.total is None or self.raw is None or self.fill is None:
            return False
        return low(self.total) >= t.USED and low(self.raw) >= t.USED and (self.fill.value or 0.0) > 0

    @property
    def powerful(self) -> bool:
        """Whether an edit that moves nothing means something."""
        every, token = ((x.value or 0.0) if x else 0.0 for x in (self.every, self.token))
        return every >= t.POWER or (self.aims and token >= t.POWER)
