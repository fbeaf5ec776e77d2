"""What the edits of a claim did."""

import math
from dataclasses import dataclass

from interp.stats import CONFIDENCE, Estimate
from probes.audit.edits import Head
from probes.audit.rules import Gather


@dataclass(frozen=True)
class Effects:
    """The evidence on use: what the edits of one claim do; shares of the intact margin, over items of half B.

    Pieces that were not measured, since nothing was asked of them or they would mean nothing, are None.

    - `items`: how many independent items; `margin`: intact, in logits; `level`: of all intervals.
    - `unseen`: the share of all items that may be moved although none of so few was.
    - `dead`: why no edit can be trusted, or None.
    - `output_change`, `answer_change`: the most that any output changes from input to input, by its size, and the
      answer when the token is exchanged, by the larger logit; infinite where not measured.
    - `aimed`: share of items whose claimed edges ever read a token that the donor changes.
    - `paired`: donors are minimal pairs. Else they are other inputs, and `token` exchanges what the claimed edges read.
    - `every`: the interchange in all heads at once, of values, or of patterns and values through the claimed edges,
      whichever moves more; `token`: the donor's token itself.
    - `total`, `sham`, `raw`: net effect of the interchange, that of the sham, and the two added up.
    - `direct`: the net effect with later patterns and norm scales frozen.
    - `turned`: share of the items whose right answer the interchange turns over, less what shams turn.
    - `fill`: the same edges' values replaced by their mean; `direct_fill`: that, frozen, if use may rest on it.
      `fill_lost`: share of the items whose right answer, the largest output, is no longer the largest then: of many
      answers the foils are few, and may all be other than the one that comes next.
    - `pattern_change`: the largest change of a claimed head's weight at the claimed queries, from input to donor.
    - `look`: net effect of the donor's pattern over the own values at the claimed queries; `both`: of the donor's
      pattern and values there; `look_raw`, `both_raw`: with the sham, which is not asked for where that is nothing for
      sure. All less what the same exchange does that leaves
      the claimed edges as they are. `look_beside`, `both_beside`: once `look_partners` are ablated, net, and raw.
      `gone`, `gone_beside`: the effect of the heads' mean output in the place of their own, where these show a use.
    - `whole`: the effect of all that the heads give being what they give on another of the items. Measured where no
      exchange of the claimed edges could move anything; `whole_turned`: share of the answers that it turns over;
      `whole_beside`: once `whole_partners` are ablated; `whole_in_company`: while `whole_company` give what they give
      for the donor. `whole_lost`: as `fill_lost`, with the heads' mean output in the place of their own.
    - `given`: the effect of all that the heads give being what they give on any other input, also one that has none of
      the claimed edges; `given_turned`, of the answers; `given_lost`: as `fill_lost`. `elsewhere`, `elsewhere_turned`,
      `elsewhere_lost`: what of that is not along the claimed edges. Measured where no exchange along them shows
      anything.
    - `where`: the condition of the claim, where answers are read in its rows alone: others may rest on these edges too.
    - `left_out`: share of the items on which the claimed heads have no claimed edge that could matter.
    - `unnatural`: share of items whose last residual norm leaves the natural range.
    - `partners`, `with_partners`: the set found in half A, and the net effect in half B once it is ablated;
      `raw_with_partners`: that without the sham taken off; `held_with_partners`: the net one with later patterns and
      norm scales frozen; `fill_beside`: the mean filled in once they are ablated. `left_beside`, `left_look_beside`:
      the margin that is left once partners are ablated; a head beside which nothing is left cannot be what the model
      falls back on. `untried`: heads not tried as partners.
    - `company`, `in_company`: a set of other heads, found in half A, and the effect in half B while they give what
      they give for the donor. Measured where nothing else shows any use.
    - `idle`: of heads claimed together, those that add nothing to the others, each with its own evidence; `unshown`:
      further ones that are not shown to add anything.
    """

    items: int
    margin: Estimate
    level: float = CONFIDENCE
    dead: str | None = None
    unseen: float = 0.0
    output_change: float = math.inf
    answer_change: float = math.inf
    aimed: float = 0.0
    paired: bool = True
    every: Estimate | None = None
    token: Estimate | None = None
    total: Estimate | None = None
    raw: Estimate | None = None
    sham: Estimate | None = None
    direct: Estimate | None = None
    fill: Estimate | None = None
    fill_lost: Estimate | None = None
    turned: Estimate | None = None
    unnatural: float = 0.0
    left_out: float = 0.0
    where: str = ""
    whole: Estimate | None = None
    whole_turned: Estimate | None = None
    whole_lost: Estimate | None = None
    whole_partners: tuple[Head, ...] = ()
    whole_beside: Estimate | None = None
    whole_company: tuple[Head, ...] = ()
    whole_in_company: Estimate | None = None
    pattern_change: float = 0.0
    look: Estimate | None = None
    look_raw: Estimate | None = None
    both: Estimate | None = None
    both_raw: Estimate | None = None
    gone: Estimate | None = None
    look_partners: tuple[Head, ...] = ()
    look_beside: Estimate | None = None
    both_beside: Estimate | None = None
    look_beside_raw: Estimate | None = None
    both_beside_raw: Estimate | None = None
    gone_beside: Estimate | None = None
    direct_fill: Estimate | None = None
    partners: tuple[Head, ...] = ()
    with_partners: Estimate | None = None
    raw_with_partners: Estimate | None = None
    held_with_partners: Estimate | None = None
    fill_beside: Estimate | None = None
    left_beside: Estimate | None = None
    left_look_beside: Estimate | None = None
    untried: int = 0
    company: tuple[Head, ...] = ()
    in_company: Estimate | None = None
    given: Estimate | None = None
    given_turned: Estimate | None = None
    given_lost: Estimate | None = None
    elsewhere: Estimate | None = None
    elsewhere_turned: Estimate | None = None
    elsewhere_lost: Estimate | None = None
    unshown: tuple[Head, ...] = ()
    idle: "tuple[tuple[Head, Gather[Effects]], ...]" = ()
