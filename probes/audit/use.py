"""Whether a model uses what a head reads along the claimed edges.

The primary edit is a value interchange: at every claimed edge the pattern stays, and the value is that of the minimal
pair's donor. e is the change of the margin, less what a sham of the same size does, as a share of the intact margin.
Where that shows nothing, the head may still tell by *where* it looks: at the claimed queries it is then given the
donor's pattern over its own values, and both. Of these only what goes through the claimed edges counts: the same
exchange that leaves the claimed edges as they are is taken off.
"""

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.claims.asking import rows_of
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Edges, Head, centred, is_pattern_times_values, reaches_output, z_change
from probes.audit.effects import Effects
from probes.audit.exchanges import (
    donor_keys,
    interchange,
    live_items,
    mean_filled,
    output_change,
    pattern_change,
    resampled,
    seen_items,
    sham_edges,
    whole_rows,
)
from probes.audit.inputs import Inputs
from probes.audit.others import Others
from probes.audit.partners import (
    added,
    candidates,
    company_change,
    find_company,
    find_partners,
    idle_heads,
    other_heads,
)
from probes.audit.pattern import Asked
from probes.audit.rules import Gather, known
from probes.audit.side import Side
from probes.audit.stages import STAGES
from probes.audit.stats import Floats, low, ratio, unseen
from probes.audit.tasks import Items, Task


class Used:
    """One model's use of its heads for one task."""

    def __init__(self, model: Any, inputs: Inputs, task: Task, level: float, seed: int):
        self.model, self.inputs, self.task, self.level, self.seed = model, inputs, task, level, seed
        self._sides: dict[Any, Side | None] = {}
        self._made_of: dict[Any, Side] = {}
        self._dead: dict[int, str | None] = {}
        self._every: dict[Any, Estimate] = {}

    def side(self, asked: Asked, half: str, heads: tuple[Head, ...]) -> Side | None:
        """Items of half "a" or "b" on which the claimed edges of these heads can matter; None: fewer than two.

        They are read in the rows that the claim is about; where a condition leaves too few of those, anywhere after.
        """
        when = asked.claim.when
        side = self._side(asked, half, heads, within=True)
        if when is None or (side is not None and len(side.by_unit(np.ones(len(side.items)))) >= t.MIN_SEQUENCES):
            return side
        anywhere = self._side(asked, half, heads, within=False)
        return side if anywhere is None else anywhere

    def _side(self, asked: Asked, half: str, heads: tuple[Head, ...], within: bool) -> Side | None:
        when = asked.claim.when if within else None
        last = all(layer == self.model.cfg.n_layers - 1 for layer, _ in heads)
        key = (half, when, within, asked.claim.relation, asked.claim.when, last)
        if key not in self._sides:
            rows = np.zeros(self.inputs.tokens.shape, dtype=bool)
            rows[self.inputs.half_a if half == "a" else self.inputs.half_b] = True
            if when is not None:
                rows &= rows_of(when, self.inputs.tokens, self.inputs.grammar, asked.keys)
            about = self.inputs.tokens, self.inputs.grammar, rows, self.seed
            # Donors that are other inputs are chosen to have the claimed keys where the input itself has them.
            on_keys = getattr(self.task, "items_on", None)
            items = self.task.items(*about) if on_keys is None else on_keys(*about, asked.keys)
            items = seen_items(items, self.model, self.inputs.visible)
            self._sides[key] = self._made(*live_items(items, asked.keys, last))
        return self._sides[key]

    def _made(self, items: Items, aside: Items | None) -> Side | None:
        """One side for all claims that have the same items."""
        if len(items) < 2:
            return None
        parts = (items,) if aside is None else (items, aside)
        key = tuple(x.tobytes() for part in parts for x in (part.sequence, part.read, part.donors, part.tokens))
        if key not in self._made_of:
            left_out = 0.0 if aside is None else len(aside) / (len(items) + len(aside))
            self._made_of[key] = Side(self.model, items, self.level, left_out, aside)
        return self._made_of[key]

    def dead(self, side: Side, layer: int) -> str | None:
        """Why an edit of this layer proves nothing, or None."""
        if layer not in self._dead:
            reason = None
            if not is_pattern_times_values(side.cache, layer):
                reason = f"hook_z of layer {layer} is not pattern times values"
            elif not reaches_output(self.model, side.tokens, layer):
                reason = f"what is written to hook_z of layer {layer} does not reach the output"
            self._dead[layer] = reason
        return self._dead[layer]

    def every_head(self, asked: Asked, side: Side, keys: Tensor) -> Estimate:
        """The exchange in all heads at once, of values, or of patterns and values through the claimed edges.

        The larger of both, which is the same for all claims of one relation and condition on one side.
        """
        key = (asked.claim.relation, asked.claim.when, id(side))
        if key not in self._every:
            cfg = self.model.cfg
            every = tuple((layer, head) for layer in range(cfg.n_layers) for head in range(cfg.n_heads))
            values = side.margin - side.margin_of(side.edited(interchange(side.donor_cache, keys, every)))
            spared = keys | donor_keys(asked, side, self.inputs)
            whole, rest = (whole_rows(side, keys, every, True, kept) for kept in (None, spared))
            through = side.margin_of(side.edited(rest)) - side.margin_of(side.edited(whole))
            found = [side.share(values), side.share(through)]
            self._every[key] = max(found, key=lambda estimate: estimate.value or 0.0)
        return self._every[key]

    def evidence(self, asked: Asked, heads: tuple[Head, ...]) -> Gather[Effects]:
        """What the edits of one claim do, measured when it is asked for."""
        side = self.side(asked, "b", heads)
        if side is None:
            return known(Effects(0, Estimate.undefined("there are no items", 0, "inputs"), self.level))
        return Measuring(self, asked, side, heads)


class Measuring:
    """The evidence on one claim's use. Called with the names that a rule needs, it measures these and no others.

    A piece of `STAGES` is measured where its condition holds, after the pieces that the condition speaks of.
    """

    def __init__(self, used: Used, asked: Asked, side: Side, heads: tuple[Head, ...]):
        self.used, self.asked, self.side, self.heads = used, asked, side, heads
        self._done: set[int] = set()
        units = side.by_unit(np.ones(len(side.items)))
        reasons = (used.dead(side, layer) for layer in sorted({layer for layer, _ in heads}))
        dead = next((reason for reason in reasons if reason), None)
        if not np.isfinite(side.margin).all():
            dead = "the logit of an answer or a foil is not finite"
        margin = ratio(side.by_unit(side.margin), units, used.level)
        when = asked.claim.when
        alone = when is not None and side is used._side(asked, "b", heads, within=True)
        where = when.words if when is not None and alone else ""
        rare = unseen(len(units), used.level)
        self.found = Effects(len(units), margin, used.level, dead, rare, left_out=side.left_out, where=where)

    def __call__(self, needs: frozenset[str]) -> Effects:
        """Evidence in which the fields of these names have been measured, where they mean something."""
        for at, stage in enumerate(STAGES):
            if stage.gives & needs and at not in self._done:
                self._done.add(at)
                self(stage.when.needs)
                if stage.when(self.found):
                    self.found = replace(self.found, **getattr(self, stage.measure)())
        return self.found

    # -- what several pieces are made of ----------------------------------------------------------------

    @cached_property
    def keys(self) -> Tensor:
        """The claimed edges of each pair [pair, query, key]."""
        return self._keys_of(self.side)

    @cached_property
    def attended(self) -> NDArray[np.bool_]:
        """Keys that some claimed edge reads [item, key]."""
        items = self.side.items
        return np.asarray((self.asked.keys[items.sequence] & items.upto[..., None]).any(1))

    @cached_property
    def token_change(self) -> Floats:
        """What the margin loses when the donor's token stands there [item]; of other inputs, all that is read."""
        side = self.side
        moved = side.donor if side.items.flipped is not None else side.mixed(self.attended)
        return side.margin - side.margin_of(moved)

    @cached_property
    def swap(self) -> list[Edges]:
        """The interchange of the claimed edges."""
        return interchange(self.side.donor_cache, self.keys, self.heads)

    @cached_property
    def shams(self) -> list[list[Edges]]:
        """Edits as large as the interchange on the same edges, in directions off the relation, and their opposites."""
        return sham_edges(self.side, self.keys, self.heads, self.used.inputs.roles, self.used.seed)

    @cached_property
    def fills(self) -> list[Edges]:
        """The mean filled in at the claimed edges."""
        return mean_filled(self.side, self.keys, self.heads)

    @cached_property
    def search(self) -> Side | None:
        """The half in which partners and company are looked for."""
        return self.used.side(self.asked, "a", self.heads)

    @cached_property
    def others(self) -> list[Head]:
        """The heads among which they are looked for."""
        return [] if self.search is None else candidates(self.search, self.swap_in, self.heads)

    def swap_in(self, part: Side) -> list[Edges]:
        """The interchange on other items."""
        return interchange(part.donor_cache, self._keys_of(part), self.heads)

    def rows_of(self, part: Side, values: bool, spared: bool = False) -> list[Edges]:
        """The donor's pattern at the claimed queries, over its values or the own; `spared`: off the claimed edges."""
        keys = self._keys_of(part)
        kept = keys | donor_keys(self.asked, part, self.used.inputs) if spared else None
        return whole_rows(part, keys, self.heads, values, kept)

    def whole(self, rest: Floats, values: bool, **how: Any) -> tuple[Floats, Floats]:
        """What an exchange of whole rows takes off `rest` by the claimed edges; net of shams of that size, and raw."""
        side = self.side
        full, spared = self.rows_of(side, values), self.rows_of(side, values, spared=True)
        raw = self.change(rest, full, **how) - self.change(rest, spared, **how)
        if self.side.nothing(self.side.share(raw)):
            return raw, raw  # nothing to be shown a use by, and what a sham does cannot hide any
        shams: list[list[Edges]] = [[], []]
        for one, other, sham in zip(full, spared, self.shams[0], strict=True):
            pattern, v = side.cache.patterns[one.layer], side.cache.v[one.layer]
            heads = list(one.heads)
            size = (z_change(one, pattern, v) - z_change(other, pattern, v)).norm(dim=-1, keepdim=True)
            assert sham.shift is not None
            first = self.keys.to(torch.int8).argmax(-1)  # of each query, the first claimed key
            direction = sham.shift.gather(1, first[..., None, None].expand(-1, -1, *sham.shift.shape[2:]))[:, :, heads]
            direction = direction / direction.norm(dim=-1, keepdim=True).clamp(min=1e-12)
            for edits, sign in zip(shams, (1.0, -1.0), strict=True):
                add = torch.zeros_like(v)
                add[:, :, heads] = sign * size * direction
                edits.append(Edges(one.layer, one.heads, one.keys, add=add))
        sham_change = np.mean([self.change(rest, edits, **how) for edits in shams], axis=0)
        return raw - sham_change, raw

    def change(self, rest: Floats, edges: list[Edges], **how: Any) -> Floats:
        """What an edit takes off the margins `rest` [item]."""
        return rest - self.side.margin_of(self.side.edited(edges, **how))

    def turned(self, change: Floats) -> Floats:
        """1 where a change turns the right answer over, else 0 [item]."""
        return np.asarray((self.side.margin > 0) & (self.side.margin - change <= 0), dtype=np.float64)

    def net(self, rest: Floats, **how: Any) -> tuple[Floats, Floats]:
        """What the interchange takes off the margins `rest`, less what its shams do on average; and the whole of it."""
        whole = self.change(rest, self.swap, **how)
        return whole - self.sham(rest, **how), whole

    def sham(self, rest: Floats, **how: Any) -> Floats:
        """What the shams do on average [item]."""
        return np.asarray(np.mean([self.change(rest, edges, **how) for edges in self.shams], axis=0))

    def _keys_of(self, part: Side) -> Tensor:
        return torch.from_numpy(self.asked.keys[part.pairs.sequence]).to(part.tokens.device)

    # -- the stages -------------------------------------------------------------------------------------

    def answer(self) -> dict[str, Any]:
        """Whether the output moves at all, and with the token that decides; whether the edges read that token."""
        side, token = self.side, np.abs(self.token_change)
        if side.items.flipped is None and any(layer > 0 for layer, _ in self.heads):
            # What stands there is not all that is read there: a layer before may have brought it from elsewhere.
            token = np.maximum(token, np.abs(self.change(side.margin, self.swap)))
        loudness = side.loudness()
        # An answer that moves from nothing has moved beyond all bounds.
        share = np.divide(token, loudness, out=np.where(token != 0, np.inf, 0.0), where=loudness > 0)
        return {
            "output_change": output_change(centred(torch.cat([side.base.logits, side.donor.logits]))),
            "answer_change": float(share.max()),
            "aimed": float((self.attended & side.items.decisive).any(1).mean()),
            "paired": side.items.flipped is not None,
        }

    def token(self) -> dict[str, Any]:
        """What could have moved: the token itself exchanged."""
        return {"token": self.side.share(self.token_change)}

    def every(self) -> dict[str, Any]:
        """The same of these edges in all heads."""
        return {"every": self.used.every_head(self.asked, self.side, self.keys)}

    def exchange(self) -> dict[str, Any]:
        """The interchange, its sham, both with all that comes later frozen, and the mean filled in."""
        side = self.side
        done = side.edited(self.swap)
        raw, sham = side.margin - side.margin_of(done), self.sham(side.margin)
        shams = [self.turned(self.change(side.margin, edges)) for edges in self.shams]
        direct, _ = self.net(side.margin, frozen=side.cache)
        filled = side.edited(self.fills)
        intact, norm = side.base.norm.cpu().numpy(), done.norm.cpu().numpy()
        lowest, highest = np.quantile(intact, t.NATURAL)
        slack = t.EXACT * float(np.abs(intact).max())  # norms that are all the same are so up to rounding
        return {
            "total": side.share(raw - sham),
            "raw": side.share(raw),
            "sham": side.share(sham),
            "direct": side.share(direct),
            "fill": side.share(side.margin - side.margin_of(filled)),
            "fill_lost": side.share_of_items(side.lost(filled)),
            "turned": side.share_of_items(self.turned(raw) - np.mean(shams, axis=0)),
            "unnatural": float(((norm < lowest - slack) | (norm > highest + slack)).mean()),
        }

    def direct_fill(self) -> dict[str, Any]:
        """The mean filled in, frozen: later parts may make up for its loss as they do for an exchange."""
        change = self.change(self.side.margin, self.fills, frozen=self.side.cache)
        return {"direct_fill": self.side.share(change)}

    def where_it_looks(self) -> dict[str, Any]:
        """The donor's pattern over the own values, and over the donor's."""
        side, found = self.side, dict[str, Any]()
        found["pattern_change"] = pattern_change(side, self.keys, self.heads)
        if found["pattern_change"] <= t.SAME_PATTERN:  # the donor's pattern is the own one: values are all there is
            none = side.share(np.zeros(len(side.items)))
            return found | {"look": none, "look_raw": none, "both": self.found.total, "both_raw": self.found.raw}
        for name, values in (("look", False), ("both", True)):
            net, raw = self.whole(side.margin, values)
            found |= {name: side.share(net), f"{name}_raw": side.share(raw)}
        return found

    def gone(self) -> dict[str, Any]:
        """The heads' mean output in the place of all that they give."""
        side = self.side
        return {"gone": side.share(side.margin - side.without(self.heads))}

    def gone_beside(self) -> dict[str, Any]:
        """The same with the partners ablated beside which their look matters."""
        side, partners = self.side, self.found.look_partners
        lost = side.without(partners) - side.without((*partners, *self.heads))
        return {"gone_beside": side.share(lost)}

    def looks_beside(self) -> dict[str, Any]:
        """The same with partners ablated: those that were found for values, or else that are found for both."""
        side, partners = self.side, self.found.partners
        if not partners and self.search is not None:
            swap = partial(self.rows_of, values=True)
            partners = find_partners(self.search, swap, self.others, self.used.seed)
        if not partners:
            return {}
        rest, how = side.without(partners), {"ablated": side.fill(partners)}
        found: dict[str, Any] = {"look_partners": partners, "left_look_beside": side.share(rest)}
        for name, values in (("look", False), ("both", True)):
            net, raw = self.whole(rest, values, **how)
            found |= {f"{name}_beside": side.share(net), f"{name}_beside_raw": side.share(raw)}
        return found

    def whole_output(self) -> dict[str, Any]:
        """All that the heads give, exchanged for what they give on another item: alone, beside partners, in company."""
        side, seed = self.side, self.used.seed
        swap = partial(resampled, heads=self.heads, seed=seed)
        edges = swap(side)
        moved = self.change(side.margin, edges)
        found: dict[str, Any] = {
            "whole": side.share(moved),
            "whole_turned": side.share_of_items(self.turned(moved)),
            "whole_lost": side.share_of_items(side.lost(side.edited([], ablated=side.fill(self.heads)))),
        }
        if self.search is None:
            return found
        if partners := find_partners(self.search, swap, self.others, seed):
            change = self.change(side.without(partners), edges, ablated=side.fill(partners))
            found |= {"whole_partners": partners, "whole_beside": side.share(change)}
        if company := find_company(self.search, swap, other_heads(side, self.heads), seed):
            change = company_change(side, edges, company)
            found |= {"whole_company": company, "whole_in_company": side.share(change)}
        return found

    def given(self) -> dict[str, Any]:
        """All that the heads give, and what of it is not along the claimed edges, exchanged for any other input's."""
        side, asked = self.side, self.asked
        aside = None if side.aside is None else torch.from_numpy(asked.keys[side.aside.sequence]).to(self.keys.device)
        donors = donor_keys(asked, side, self.used.inputs)
        others = Others(side, self.heads, self.keys, donors, aside, self.used.seed)
        found: dict[str, Any] = {}
        for name, edges in (("given", others.output()), ("elsewhere", others.unclaimed())):
            done = side.edited(edges)
            moved = side.margin - side.margin_of(done)
            found |= {name: side.share(moved), f"{name}_turned": side.share_of_items(self.turned(moved))}
            found[f"{name}_lost"] = side.share_of_items(side.lost(done))
        return found

    def partners(self) -> dict[str, Any]:
        """The interchange with partners ablated."""
        side = self.side
        if self.search is None:
            return {}
        found: dict[str, Any] = {"untried": len(other_heads(side, self.heads)) - len(self.others)}
        if not (partners := find_partners(self.search, self.swap_in, self.others, self.used.seed)):
            return found
        rest = side.without(partners)
        net, whole = self.net(rest, ablated=side.fill(partners))
        found |= {"with_partners": side.share(net), "raw_with_partners": side.share(whole)}
        return found | {"partners": partners, "left_beside": side.share(rest)}

    def held(self) -> dict[str, Any]:
        """The same with later patterns and norm scales frozen; and the mean filled in beside the partners."""
        side, partners = self.side, self.found.partners
        net, _ = self.net(side.without(partners, held=True), ablated=side.fill(partners), frozen=side.cache)
        filled = self.change(side.without(partners), self.fills, ablated=side.fill(partners))
        return {"held_with_partners": side.share(net), "fill_beside": side.share(filled)}

    def company(self) -> dict[str, Any]:
        """The interchange while others give what they give for the donor."""
        if self.search is None:
            return {}
        company = find_company(self.search, self.swap_in, other_heads(self.side, self.heads), self.used.seed)
        if not company:
            return {}
        return {"company": company, "in_company": self.side.share(company_change(self.side, self.swap, company))}

    def idle(self) -> dict[str, Any]:
        """Of several heads, those that add nothing to the others; and the others that are not shown to add anything."""
        if len(self.heads) < 2:
            return {}
        side, keys = self.side, self.keys

        def swap_of(group: tuple[Head, ...]) -> list[Edges]:
            return interchange(side.donor_cache, keys, group)

        found, adds = idle_heads(side, swap_of, self.heads), added(side, swap_of, self.heads)
        unshown = tuple(head for head in self.heads if head not in found and low(adds[head]) < t.UNUSED)
        return {"idle": tuple((head, self.used.evidence(self.asked, (head,))) for head in found), "unshown": unshown}
