"""What an audit measures before it decides: each piece beside a literal loop, or cases small enough to do by hand."""

import importlib
import math
import pkgutil
import sys
from dataclasses import is_dataclass
from functools import partial
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import t as student

import probes.audit
from closeness import assert_close
from interp.claims.types import Condition, Relation
from interp.stats import Estimate
from probes.audit import partners
from probes.audit import thresholds as limits
from probes.audit.exchanges import live_items, output_change, sham_pairs
from probes.audit.inputs import Inputs
from probes.audit.partners import _at_most, _halves, _sets, added, candidates, find_company, find_partners, idle_heads
from probes.audit.pattern import FEW, Head, Laid, fits_when, matched_lift, overlap, top_share
from probes.audit.rivals import _enough as enough_rows
from probes.audit.rivals import rivals_of
from probes.audit.side import Side
from probes.audit.stats import high, low, ratio, reach, sign_flips
from probes.audit.tasks import Items
from probes.audit.use import Measuring, Used
from probes.claims import Claim, offset, position


def test_what_was_found_is_not_changed_afterwards():
    """All that holds findings, rules or evidence is frozen; a side of items keeps what it has run."""
    names = [module.name for module in pkgutil.iter_modules(probes.audit.__path__, "probes.audit.")]
    found = [kind for name in names for kind in vars(importlib.import_module(name)).values() if is_dataclass(kind)]
    mine = {kind for kind in found if isinstance(kind, type) and kind.__module__ in names}
    assert len(mine) > 20
    assert {kind for kind in mine if not kind.__dataclass_params__.frozen} == {Side}


# -- one head's pattern, row by row -------------------------------------------------------------------------

INPUTS, WIDTH = 120, 8
EVEN_TOKENS = Condition("even tokens", "the token is even", "tokens", lambda tokens, grammar, keys: tokens % 2 == 0)
FEW_TOKENS = Condition("few tokens", "the token is 0", "tokens", lambda tokens, grammar, keys: tokens == 0)


def laid_out(several, causal=True):
    """Inputs and one relation: of random sets of keys, some with the first key among them, or of one key each.

    The one key lies two back, in the last inputs three back: there alone it is told from the offset -2.
    """
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 40, (INPUTS, WIDTH))
    visible = np.repeat(np.tri(WIDTH, k=0 if causal else WIDTH, dtype=bool)[None], INPUTS, 0)
    if several:
        chosen = rng.random(visible.shape) < 0.4
        chosen[..., 0] = rng.random((INPUTS, WIDTH)) < 0.2
    else:
        back = np.where(np.arange(INPUTS) < INPUTS - 14, 2, 3)
        places = np.arange(WIDTH)
        chosen = places[None, None, :] == places[None, :, None] - back[:, None, None]
    roles = rng.integers(0, 2, tokens.shape)
    return Laid(Inputs(tokens, visible, roles, None)), visible & chosen


def weights_on(laid, keys):
    """Rows of all kinds: resting on the first key, wholly or nearly; tied at the top; on the relation or beside it."""
    rng = np.random.default_rng(2)
    visible = laid.inputs.visible
    raw = rng.integers(1, 5, visible.shape) * visible * np.where(keys, rng.uniform(0.5, 9, (INPUTS, WIDTH, 1)), 1.0)
    rest = rng.choice([0.0, 0.0, 20.0, 3e3, 1e5], (INPUTS, WIDTH))
    raw[..., 0] += rest
    whole = (rng.random((INPUTS, WIDTH)) < 0.05)[..., None]
    raw = np.where(whole, np.eye(WIDTH)[0], raw)
    norms = (rng.random((INPUTS, WIDTH)) + 0.1) * (np.arange(INPUTS) > 3)[:, None]  # some write nothing at all
    return raw / raw.sum(-1, keepdims=True), norms


def fit(row, keys):
    return sum(min(row[k], 1 / len(keys)) for k in keys)


def literal(laid, keys, weights, norms, kind, when):
    """(number by name of each row, what the row's keys are compared in), of the rows that the claim is about."""
    rows = {}
    for b in range(INPUTS):
        for q in range(WIDTH):
            named = set(np.flatnonzero(keys[b, q]))
            seen = set(np.flatnonzero(laid.inputs.visible[b, q]))
            token = laid.inputs.tokens[b, q]
            about = when is None or (token % 2 == 0 and (token == 0 or when is EVEN_TOKENS))
            if not about or not named or not (len(seen) > 1 if kind == "even" else len(named) < len(seen)):
                continue
            row, chance = weights[b, q], len(named) / len(seen)
            if kind == "even":
                chance = 0 if named == seen else chance
                score = (fit(row, named) - chance) / (1 - chance)
            else:
                score = (sum(row[k] for k in named) - chance) / (1 - chance)
            valued = row * norms[b]
            found = {"score": score, "by_value": sum(valued[k] for k in named) / (valued.sum() or 1)}
            if 0 not in named:
                seen, rest = seen - {0}, 1 - row[0]
                found["sink"] = row[0]
                row = np.where(np.arange(WIDTH) > 0, row, 0.0) / rest if rest > 0.01 else np.zeros(WIDTH)
            if len(seen) > 1 if kind == "even" else len(named) < len(seen):
                mass = sum(row[k] for k in named)
                most = max(row[k] for k in seen)
                top = [k for k in seen if most > 0 and row[k] >= most * (1 - 1e-5)]
                found |= {"without_sink": mass, "share": float(score > 0.5)}
                found |= {"top1": sum(k in named for k in top) / max(len(top), 1)}
            else:
                seen = None
            rows[b, q] = found, row, named, seen
    return rows


def literal_lift(laid, rows, half):
    """{row: weight on the relation less what keys like those get off it}, of the rows of one half with a choice."""
    mine = {place: (row, named, seen) for place, (_, row, named, seen) in rows.items() if seen and place[0] in half}
    off = [
        (laid.inputs.roles[b, k], q - k, row[k]) for (b, q), (row, named, seen) in mine.items() for k in seen - named
    ]
    out = {}
    for (b, q), (row, named, _) in mine.items():
        out[b, q] = 0.0
        for k in named:
            role, distance = laid.inputs.roles[b, k], q - k
            like = [
                [w for r, d, w in off if (r, d) == (role, distance)], [w for _, d, w in off if d == distance],
                [w for r, _, w in off if r == role], [w for _, _, w in off],
            ]  # fmt: skip
            out[b, q] += row[k] - next((np.mean(group) for group in like if len(group) >= 20), 0.0)
    return out


def of_half(rows, half, name):
    values = [found[name] for (b, _), (found, *_) in rows.items() if b in half and name in found]
    return pytest.approx(np.mean(values), rel=1e-9) if values else None


LAYOUTS = [
    (True, "mass", None, True), (True, "mass", EVEN_TOKENS, True), (True, "mass", FEW_TOKENS, True),
    (True, "even", None, True), (False, "mass", None, True), (True, "mass", EVEN_TOKENS, False),
]  # fmt: skip


@pytest.mark.parametrize(("several", "kind", "when", "causal"), LAYOUTS)
def test_every_number_of_a_look_is_what_a_literal_loop_says(several, kind, when, causal):
    laid, keys = laid_out(several, causal)
    weights, norms = weights_on(laid, keys)
    asked = laid.asked(Claim([(0, 0)], Relation("mine", "mine", kind, "tokens", lambda *_: keys), when=when))
    head, half = Head(laid, weights, norms), set(laid.inputs.half_b)
    look, rows = head.look(asked, 0.95), literal(laid, keys, weights, norms, kind, when)
    names = {"score": "score", "share": "share", "sink": "on_sink", "without_sink": "without_sink", "top1": "top1",
             "by_value": "by_value"}  # fmt: skip
    for name, field in names.items():
        found = getattr(look, field)
        if name == ("top1" if kind == "even" else "share"):
            assert found is None
        else:
            assert found.value == of_half(rows, half, name), name
            assert found.n == len({b for (b, _), (row, *_) in rows.items() if b in half and name in row}), name
    of_a = [found["score"] for (b, _), (found, *_) in rows.items() if b not in half]
    assert head.score_on_a(asked) == pytest.approx(np.mean(of_a))
    assert Head(laid, weights).look(asked, 0.95).by_value.value == pytest.approx(
        np.mean([weights[b, q][list(named)].sum() for (b, q), (_, _, named, _) in rows.items() if b in half])
    )
    if kind == "even":
        assert look.matched is None
        assert not look.matched_rows.any()
    else:
        lift = literal_lift(laid, rows, half)
        assert look.matched.value == pytest.approx(np.mean(list(lift.values())))
        each = [sum(value for (b, _), value in lift.items() if b == one) for one in sorted(half)]
        assert look.matched_rows == pytest.approx(each)
    expected = list(literal_rivals(laid, rows, kind))
    found = rivals_of(head, asked, 0.95)
    assert found.same == ()
    assert [rival.name for rival in found.rivals] == [name for name, *_ in expected]
    for rival, (_, different, lead, lead_a, nested, beside) in zip(found.rivals, expected, strict=True):
        assert rival.different == different, rival.name
        assert (rival.lead is None, rival.lead_a is None) == (lead is None, lead_a is None), rival.name
        if lead is not None:
            assert (rival.lead.value, rival.lead_a) == pytest.approx((lead, lead_a)), rival.name
        assert rival.nested == nested, rival.name
        assert (rival.beside and rival.beside.value) == (beside and pytest.approx(beside)), rival.name
    assert len({rival.lead is None for rival in found.rivals}) == 2 - (when is FEW_TOKENS)  # both kinds are met


def literal_rivals(laid, rows, kind):
    """(name, rows of half B that differ, leads in B and A, nested, lead there) of each rival that must be named."""
    halves = set(laid.inputs.half_a), set(laid.inputs.half_b)
    free = {place: (row, named, seen) for place, (_, row, named, seen) in rows.items() if seen}

    def score(row, keys, seen):
        if kind == "even":
            return fit(row, keys)
        chance = len(keys) / len(seen)
        return (sum(row[k] for k in keys) - chance) / (1 - chance) if chance < 1 else 0.0

    def mean_of(leads):
        enough = all(len(found) >= 50 and len({b for b, *_ in found}) >= 10 for found in leads)
        return [np.mean([lead for _, lead in found]) if enough else None for found in leads]

    def against(relation, keys_of):
        differ, leads, inside, wider, there = 0, ([], []), ([], []), 0, 0
        for (b, q), (row, named, seen) in free.items():
            rival, which = {k for k in keys_of(b, q) if k in seen}, int(b in halves[1])
            there += which * bool(rival)
            if rival == named:
                continue
            differ += which
            held = rival < named or named < rival
            if rival and (kind == "even" or not held):
                leads[which].append((b, score(row, named, seen) - score(row, rival, seen)))
            elif rival:
                inside[which].append((b, score(row, named, seen) - score(row, rival, seen)))
                wider += which * (1 if named < rival else -1)
        of_a, of_b = mean_of(leads)
        beside = mean_of(inside)[1] if of_b is None else None
        if there < 0.25 * sum(b in halves[1] for b, _ in free):  # too few rows for it to be what the head does
            of_a = of_b = None
        nested = None if beside is None else "wider" if wider >= 0 else "narrower"
        return relation.name, differ, of_b, of_a, nested, beside

    known = {}
    for relation in laid.rivals(Claim([(0, 0)], Relation("mine", "mine", kind, "tokens", None))):
        known[relation] = relation.keys(laid.inputs.tokens, None, laid.inputs.visible)
        yield against(relation, lambda b, q, relation=relation: np.flatnonzero(known[relation][b, q]))
    last = WIDTH - 1
    for family in (
        [(offset(step), lambda b, q, step=step: [q + step]) for step in range(-last, last + 1)],
        [(position(place), lambda b, q, place=place: [place]) for place in range(last + 1)],
    ):
        compared = []
        for relation, keys_of in family:
            if not any(set(keys_of(b, q)) <= seen for (b, q), (_, _, seen) in free.items()):
                continue
            one = against(relation, keys_of)
            if one[1] < 50:
                yield one
            elif one[3] is not None:
                compared.append(one)
        if compared:
            yield min(compared, key=lambda one: one[3])


def test_a_head_without_a_row_scores_less_than_any():
    laid, keys = laid_out(several=True)
    asked = laid.asked(Claim([(0, 0)], Relation("none", "none", "mass", "tokens", lambda *_: keys & False)))
    assert Head(laid, weights_on(laid, keys)[0]).score_on_a(asked) == -1


def halves(count):
    """As many inputs, of 60 tokens that all see each other."""
    return Laid(
        Inputs(
            np.zeros((count, 60), dtype=int),
            np.ones((count, 60, 60), dtype=bool),
            np.zeros((count, 60), dtype=int),
            None,
        )
    )


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(
    ("rows", "inputs", "enough"), [(50, 10, True), (49, 10, False), (50, 9, False), (51, 11, True)]
)
def test_two_relations_are_compared_on_enough_rows_of_either_half(half, rows, inputs, enough):
    laid = halves(40)
    there = np.ones((40, 60), dtype=bool)
    mine = np.arange(half, 40, 2)
    there[mine] = False
    for row in range(rows):
        there[mine[row % inputs], row // inputs] = True
    assert bool(enough_rows(laid, there)) is enough


@pytest.mark.parametrize(("count", "expected"), [(49, 0.0), (50, 0.8)])
def test_a_condition_is_proposed_from_enough_rows_of_half_a(count, expected):
    """Four of five rows have it on top; half B, where none does, does not count; one row sees the first key only."""
    laid = halves(4)
    laid.inputs.visible[0, 59, 1:] = laid._free[0, 59, 1:] = False
    keys = np.zeros((4, 60, 60), dtype=bool)
    keys[..., 1] = True
    keys[0, 59] = False
    asked = laid.asked(Claim([(0, 0)], Relation("second", "second", "mass", "tokens", lambda *_: keys)))
    weights = np.zeros((4, 60, 60))
    weights[0, :, 1], weights[0, :, 2] = 0.51, 0.49
    weights[0, 1::5, 1], weights[0, 1::5, 2] = 0.49, 0.51
    weights[1:, :, 2] = 1.0
    rows = np.zeros((4, 60), dtype=bool)
    rows[0, :count] = True
    rows[1] = True
    share, found = fits_when(Head(laid, weights), asked, rows)
    assert (share, found) == (pytest.approx(expected), count)


@pytest.mark.parametrize("number", [19, 20])
@pytest.mark.parametrize("alike", ["class and distance", "distance", "class"])
def test_keys_are_like_each_other_from_twenty_on(alike, number):
    """Two queries an input, which see two keys each: the second is asked for in the first input alone.

    Off the relation `number` edges are alike in what `alike` says, with weight 0.3; all others have 0.1.
    """
    assert FEW == 20
    count = 100
    keys, weights = np.zeros((count, 5, 5), dtype=bool), np.zeros((count, 5, 5))
    seen = keys.copy()
    free = np.zeros((count, 5), dtype=bool)
    roles = np.zeros((count, 5), dtype=int)
    keys[0, 4, 3] = seen[0, 4, 3] = free[0, 4] = True
    weights[0, 4, 3], roles[0, 3] = 1.0, 1
    for one in range(1, count):
        like = one <= number
        same_class, near = (like and "class" in alike), (like and "distance" in alike)
        key = 3 if near else 2
        seen[one, 4, key] = free[one, 4] = True
        roles[one, key], weights[one, 4, key] = int(same_class), 0.3 if like else 0.1
    asked = SimpleNamespace(free=free, keys=keys, seen=seen)
    found = matched_lift(weights, asked, roles, np.arange(count))
    mean = 0.3 if number == 20 else (0.3 * 19 + 0.1 * 80) / 99
    assert found[0, 4] == pytest.approx(1 - mean)
    assert np.count_nonzero(found) == 1


def test_fewer_inputs_than_tokens_have_keys_alike_too():
    """Each row has 0.3 on one key and 0.7 evenly on 58 others of its class, at distances of either sign."""
    laid = halves(4)
    keys = np.zeros((4, 60, 60), dtype=bool)
    keys[..., 7] = True
    asked = laid.asked(Claim([(0, 0)], Relation("eighth", "eighth", "mass", "tokens", lambda *_: keys)))
    weights = np.where(keys, 0.3, 0.7 / 58)
    found = matched_lift(weights, asked, laid.inputs.roles, np.array([1, 3]))
    assert found[[1, 3]] == pytest.approx(0.3 - 0.7 / 58)
    assert not found[[0, 2]].any()


def test_ties_share_the_top_place_up_to_rounding():
    rows = np.array(
        [[[0.4, 0.4 * (1 - 5e-6), 0.2, 0.0], [0.4, 0.4 * (1 - 2e-5), 0.2, 0.0], [0.0] * 4, [0.1, 0.2, 0.3, 0.4]]]
    )
    asked = SimpleNamespace(seen=np.ones((1, 4, 4), dtype=bool), keys=np.zeros((1, 4, 4), dtype=bool))
    asked.keys[..., 1] = asked.keys[..., 3] = True
    assert top_share(rows, asked).tolist() == [[0.5, 0.0, 0.0, 1.0]]
    asked.seen[..., 3] = False
    assert top_share(rows, asked)[0, 3] == 0


# -- the use, in pieces -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "change"),
    [
        ([[1, 2], [1, 2]], 0.0),
        ([[2, 100], [1, 100]], 0.5),
        ([[1, 100], [-4, 100], [2, 100]], 1.25),  # from the first item, by the largest size
        ([[0, 10, 20], [0.001, 10, 20]], 0.0001),  # by the usual size: of three the second
        ([[0, 10, 20, 30], [0.001, 10, 20, 30]], 0.0001),  # of four the second too
        ([[0, 5], [0, 5]], 0.0),
        ([[0, 0, 5], [0, 0, 4]], 0.2),
        ([[0, 0, 0], [1e-40, 0, 0]], 1.0),  # by its own size where the usual one is 0
        ([[math.inf, 2, 4], [1, 2, 3]], 0.25),  # an output that is not finite somewhere is left out
        ([[-math.inf, math.nan], [1, 2]], math.inf),
        ([[3.0, 4.0]], 0.0),
    ],
)
def test_the_change_of_an_output_is_by_its_own_size_or_the_usual_one(logits, change):
    assert output_change(torch.tensor(logits, dtype=torch.float64)) == pytest.approx(change, rel=1e-9)


def a_pair(count, width, **given):
    """Items that differ from their donors in the first token and are read at the last."""
    tokens = np.arange(count * width).reshape(count, width)
    each = np.arange(count)
    how = {"read": np.full(count, width - 1), "flipped": 0 * each, "answer": 0 * each, "foil": 0 * each + 1} | given
    return Items(each, tokens, tokens + (np.arange(width) == 0), **how)


def test_a_sham_comes_from_keys_of_the_same_class_off_the_relation():
    """Class 0: two keys off the relation; class 1: one, so that the claimed ones serve too; class 2: none is read."""
    roles = np.tile([0, 0, 0, 1, 1, 2], (3, 1))
    items = a_pair(3, 6, read=np.full(3, 4))
    keys = np.zeros((3, 6, 6), dtype=bool)
    keys[:, 4, :5] = True
    keys[0, 4, :2] = keys[0, 4, 3] = False  # (0, 0), (0, 1), (0, 3) are off it
    pairs = sham_pairs(items, roles, keys, 0)
    assert len(pairs) == 6
    met = {0: set(), 1: set(), 2: set()}
    for ends in pairs:
        for rows, columns in ends:
            for role, found in met.items():
                place = torch.from_numpy(roles == role)
                found |= set(zip(rows[place].tolist(), columns[place].tolist(), strict=True))
    assert met[0] == {(0, 0), (0, 1)}
    assert met[1] == {(item, key) for item in range(3) for key in (3, 4)}
    assert met[2] == {(0, 0)}  # nothing to draw from: the place itself is never claimed
    assert len({tuple(x.sum().item() for end in ends for x in end) for ends in pairs}) > 1
    assert any(not torch.equal(one[1], other[1]) for one, other in pairs)
    again = sham_pairs(items, roles, keys, 0)
    assert all(torch.equal(a, b) for p, q in zip(pairs, again, strict=True) for x, y in zip(p, q, strict=True)
               for a, b in zip(x, y, strict=True))  # fmt: skip


class Counts:
    """A question whose items are the inputs with a row that the claim is about; it keeps what it was asked."""

    name = words = "counts"

    def __init__(self):
        self.asked = []

    def items(self, tokens, grammar, rows, seed, *keys):
        self.asked.append((rows, keys))
        there = np.flatnonzero(rows.any(1))
        last = rows.shape[1] - 1 - rows[there, ::-1].argmax(1)
        none = np.zeros_like(there)
        return Items(there, tokens[there], tokens[there], last, None, none, none)


def plain_side(monkeypatch):
    """Sides that run no model: the inputs that their items are of, the level, and what was left out."""
    made = lambda model, items, level, left_out, aside: SimpleNamespace(  # noqa: E731
        items=items,
        left_out=left_out,
        aside=aside,
        seen=(items.sequence.tolist(), level),
        by_unit=lambda values: values,
    )
    monkeypatch.setattr("probes.audit.use.Side", made)
    model = SimpleNamespace(cfg=SimpleNamespace(n_layers=2))
    return lambda used, *about: (used.model, used.side(*about, ((0, 0),)).seen)[1], model


class Keyed(Counts):
    items_on = Counts.items


ODD = Condition("odd tokens", "the token is odd", "tokens", lambda tokens, grammar, keys: tokens % 2 == 1)


@pytest.mark.parametrize("question", [Counts, Keyed])
def test_sides_are_those_of_a_half_and_a_condition(question, monkeypatch):
    side_of, model = plain_side(monkeypatch)
    monkeypatch.setattr("probes.audit.thresholds.MIN_SEQUENCES", 2)
    tokens = np.array([[0, 1], [0, 2], [0, 4], [0, 3], [0, 5], [0, 5]])
    laid = Laid(Inputs(tokens, np.repeat(np.tri(2, dtype=bool)[None], 6, 0), tokens * 0, None))
    task = question()
    used = Used(model, laid.inputs, task, 0.9, 3)
    plain, other = (laid.asked(Claim([(0, 0)], name)) for name in ("previous", "current"))
    for _ in range(2):
        assert side_of(used, plain, "a") == ([0, 2, 4], 0.9)
        assert side_of(used, other, "a") == ([0, 2, 4], 0.9)
        assert side_of(used, plain, "b") == ([1, 3, 5], 0.9)
    assert len(task.asked) == 3
    assert used.side(plain, "a", ((0, 0),)) is used.side(other, "a", ((0, 0),))  # the same items: the same runs
    assert side_of(used, laid.asked(Claim([(0, 0)], "previous", when=ODD)), "b") == ([3, 5], 0.9)
    assert (task.asked[3][0] == (tokens % 2 == 1) * (np.arange(6) % 2 == 1)[:, None]).all()
    assert side_of(used, laid.asked(Claim([(0, 0)], "current", when=ODD)), "b") == ([3, 5], 0.9)
    assert len(task.asked) == 5
    assert {len(keys) for _, keys in task.asked} == {int(question is Keyed)}


def test_the_same_items_beside_others_that_were_left_out_are_another_side(monkeypatch):
    _, model = plain_side(monkeypatch)
    used, items = Used(model, halves(2).inputs, Counts(), 0.95, 0), a_pair(6, 3)
    mine = items.first(3)
    plain, one, other = (used._made(mine, aside) for aside in (None, items.only([3]), items.only([4, 5])))
    assert len({id(side) for side in (plain, one, other)}) == 3
    assert [side.left_out for side in (plain, one, other)] == [0.0, 1 / 4, 2 / 5]
    assert [side.aside and side.aside.sequence.tolist() for side in (plain, one, other)] == [None, [3], [4, 5]]
    again = [used._made(items.first(3), aside) for aside in (None, items.only([3]), items.only([4, 5]))]
    assert all(a is b for a, b in zip(again, (plain, one, other), strict=True))


@pytest.mark.parametrize(("count", "there"), [(1, False), (2, True)])
def test_one_item_is_no_side(count, there, monkeypatch):
    _, model = plain_side(monkeypatch)
    laid = halves(2 * count)
    found = Used(model, laid.inputs, Counts(), 0.95, 0).side(laid.asked(Claim([(0, 0)], "previous")), "b", ((0, 0),))
    assert (found is not None) is there


@pytest.mark.parametrize("number", [2, 3])
def test_where_a_condition_leaves_too_few_places_to_read_any_later_one_counts(number, monkeypatch):
    """The claim is about position 1, of which the first `number` inputs of half B are; they are read at 3 or at 1."""
    _, model = plain_side(monkeypatch)
    monkeypatch.setattr("probes.audit.thresholds.MIN_SEQUENCES", 3)
    tokens = np.zeros((12, 4), dtype=int)
    tokens[[1, 3, 5][:number], 1] = 1
    laid = Laid(Inputs(tokens, np.repeat(np.tri(4, dtype=bool)[None], 12, 0), tokens * 0, None))
    asked = laid.asked(Claim([(0, 0)], "previous", when=ODD))
    side = Used(model, laid.inputs, Counts(), 0.95, 0).side(asked, "b", ((0, 0),))
    assert side.items.sequence.tolist() == [1, 3, 5][:number]  # elsewhere no claimed edge can matter
    assert set(side.items.read.tolist()) == ({1} if number == 3 else {3})
    assert side.left_out == pytest.approx(0 if number == 3 else 1 - 2 / 6)
    assert (side.aside and side.aside.sequence.tolist()) == (None if number == 3 else [5, 7, 9, 11])


@pytest.mark.parametrize(("last", "live"), [(True, [1]), (False, [0, 1])])
def test_items_without_a_claimed_edge_that_could_matter_are_left_out(last, live):
    """The first has an edge before the place that is read, the second there, the third after it."""
    keys = np.zeros((3, 4, 4), dtype=bool)
    keys[0, 1, 0] = keys[1, 2, 0] = keys[2, 3, 0] = True
    none = np.zeros(3, dtype=int)
    items = Items(np.arange(3), np.zeros((3, 4), dtype=int), np.zeros((3, 4), dtype=int), none + 2, None, none, none)
    found, aside = live_items(items, keys, last)
    assert found.sequence.tolist() == live
    assert aside.sequence.tolist() == [item for item in range(3) if item not in live]
    all_of_them = items.only(np.array(live))
    assert live_items(all_of_them, keys, last) == (all_of_them, None)
    nothing = items.first(0)
    assert live_items(nothing, keys, last) == (nothing, None)
    found, aside = live_items(items, keys & False, last)
    assert (len(found), aside.sequence.tolist()) == (0, [0, 1, 2])


def measured_on(side, heads=((0, 0), (1, 1)), keys=None, **known):
    """A measuring of a side that is made by hand; `known`: pieces that are not asked for again."""
    made = object.__new__(Measuring)
    made.used, made.side, made.heads, made.asked = SimpleNamespace(inputs=None, seed=0), side, heads, None
    made.__dict__.update(known, keys=keys)
    return made


def values(seed, *scales):
    """[item, pos, head, d_head] of two items of three tokens, each head of a size of its own."""
    drawn = torch.randn(2, 3, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return drawn * torch.tensor(scales)[:, None]


def test_shams_are_as_large_as_the_exchange_along_the_first_difference_that_is_one(monkeypatch):
    """Heads of a thousandth and a hundred times the size: what is no difference is so by the size of each."""
    v, donor = [values(0, 1e-3, 100.0), values(1, 5.0, 0.1)], [values(2, 1e-3, 100.0), values(3, 5.0, 0.1)]
    v[0][1, 0] = v[0][0, 0]  # the first pair of the first key differs in nothing
    v[1][1, 0] = v[1][0, 0] * (1 + 1e-6)  # and in layer 1 in next to nothing

    def place(*items):
        rows, columns = zip(*items, strict=True)
        return torch.tensor([rows[:3], rows[3:]]), torch.tensor([columns[:3], columns[3:]])

    pairs = [
        (place(*[(0, 0)] * 6), place((1, 0), *[(0, 1)] * 5)),
        (place(*[(0, 2)] * 6), place(*[(1, 2)] * 6)),
        (place(*[(1, 1)] * 6), place(*[(0, 1)] * 6)),
    ]
    monkeypatch.setattr("probes.audit.exchanges.sham_pairs", lambda *given: pairs)
    keys = torch.rand(2, 3, 3) < 0.5
    side = SimpleNamespace(pairs=a_pair(2, 3), cache=SimpleNamespace(v=v), donor_cache=SimpleNamespace(v=donor))
    made = measured_on(side, keys=keys)
    made.used.inputs = SimpleNamespace(roles=np.zeros((2, 3), dtype=int))
    up, down = made.shams
    assert [(one.layer, one.heads) for one in up] == [(one.layer, one.heads) for one in down] == [(0, (0,)), (1, (1,))]
    for layer, (one, other) in enumerate(zip(up, down, strict=True)):
        assert one.keys is other.keys is keys
        assert one.values is other.values is None
        assert torch.equal(one.shift, -other.shift)
        for item in range(2):
            for key in range(3):
                for head in range(2):
                    first = v[layer][0, 0, head] - v[layer][0, 1, head]
                    if (item, key) == (0, 0):
                        first = v[layer][0, 2, head] - v[layer][1, 2, head]
                    size = (donor[layer][item, key, head] - v[layer][item, key, head]).norm()
                    expected = size * first / first.norm()
                    assert one.shift[item, key, head].tolist() == pytest.approx(expected.tolist(), rel=1e-9)


def test_what_is_no_difference_beside_the_largest_value_of_a_head_gives_no_sham(monkeypatch):
    """Values of one size in one item and a million times as large, along one direction, in the other."""
    v, donor = [values(0, 1.0, 1.0)], [values(1, 1.0, 1.0)]
    v[0][1] = torch.tensor([1e6, 0.0, 0.0])
    ends = [(torch.zeros(2, 3, dtype=torch.long), torch.full((2, 3), key)) for key in (0, 1)]
    monkeypatch.setattr("probes.audit.exchanges.sham_pairs", lambda *given: [tuple(ends)])
    side = SimpleNamespace(pairs=a_pair(2, 3), cache=SimpleNamespace(v=v), donor_cache=SimpleNamespace(v=donor))
    made = measured_on(side, heads=((0, 0), (0, 1)), keys=torch.ones(2, 3, 3, dtype=torch.bool))
    made.used.inputs = SimpleNamespace(roles=np.zeros((2, 3), dtype=int))
    assert not any(one.shift.any() for sign in made.shams for one in sign)
    v[0][1] = torch.tensor([1e3, 0.0, 0.0])
    assert all(
        one.shift.any(-1).all()
        for sign in measured_on(side, made.heads, made.keys, used=made.used).shams
        for one in sign
    )


# Claimed edges (item, query, key); the first item is read at 1, the second at 2.
OF_BOTH = [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 2), (1, 2, 0), (1, 2, 2)]


@pytest.mark.parametrize(
    ("edges", "counted"),
    [
        # An edge of a query after the one that is read has no part, and in the last layer one before it neither.
        ([*OF_BOTH, (0, 2, 2)], (OF_BOTH, [(0, 1, 0), (0, 1, 1), (1, 2, 0), (1, 2, 2)])),
        # None at the queries that are read, so that the last layer's mean is over all of them.
        ([(0, 0, 0), (1, 1, 2), (0, 2, 1)], ([(0, 0, 0), (1, 1, 2)], [(0, 0, 0), (1, 1, 2), (0, 2, 1)])),
        # None up to them.
        ([(0, 2, 1), (0, 2, 2)], ([(0, 2, 1), (0, 2, 2)], [(0, 2, 1), (0, 2, 2)])),
    ],
)
def test_the_mean_that_is_filled_in_is_over_the_claimed_edges_that_can_matter(edges, counted):
    v, donor = ([values(seed, 1.0, 2.0), values(seed + 1, 1.0, 2.0)] for seed in (0, 2))
    keys = torch.zeros(2, 3, 3, dtype=torch.bool)
    keys[tuple(torch.tensor(edges).T)] = True
    side = SimpleNamespace(
        pairs=a_pair(2, 3, read=np.array([1, 2])), read=torch.tensor([1, 2]), cache=SimpleNamespace(v=v),
        donor_cache=SimpleNamespace(v=donor), model=SimpleNamespace(cfg=SimpleNamespace(n_layers=2)),
        lives=lambda last: Side.lives(side, last), rows=torch.arange(2), tokens=torch.zeros(2, 3),
    )  # fmt: skip
    fills = measured_on(side, keys=keys).fills
    assert [(one.layer, one.heads) for one in fills] == [(0, (0,)), (1, (1,))]
    for layer, (one, mine) in enumerate(zip(fills, counted, strict=True)):
        read = [of[layer][item, key] for of in (v, donor) for item, _, key in mine]
        assert one.keys is keys
        assert one.values.shape == v[layer].shape
        for value in one.values.flatten(0, 1):
            assert_close(value, torch.stack(read).mean(0))


@pytest.mark.parametrize(
    ("token", "loud", "change"),
    [([1.0, -3.0], [2.0, 2.0], 1.5), ([0.0, 0.0], [0.0, 0.0], 0.0),
     ([0.0, 0.0], [0.0, 1.0], 0.0), ([0.0, 1e-9], [1.0, 0.0], math.inf),
     ([0.0, 1.0], [0.0, 4.0], 0.25), ([0.5, 0.0], [0.25, 1e-9], 2.0)],
)  # fmt: skip
def test_an_answer_that_moves_from_nothing_has_moved_beyond_all_bounds(token, loud, change):
    side = SimpleNamespace(
        items=a_pair(2, 3), loudness=lambda: np.array(loud),
        base=SimpleNamespace(logits=torch.tensor([[1.0, 2.0], [1e6 + 1, 1e6 + 4]])),
        donor=SimpleNamespace(logits=torch.tensor([[-7.0, -6.0], [1.0, 2.0]])),
    )  # fmt: skip
    attended = np.array([[True, False, False], [False, True, True]])
    found = measured_on(side, token_change=np.array(token), attended=attended).answer()
    assert found == {"output_change": pytest.approx(2 / 3), "answer_change": change, "aimed": 0.5, "paired": True}


def test_of_other_inputs_all_that_is_read_is_exchanged():
    side = SimpleNamespace(
        items=a_pair(2, 3), donor="donor", mixed=lambda places: places.tolist(), margin=np.array([5.0, 6.0]),
        margin_of=lambda run: np.array([1.0, 2.0]) if run == "donor" else np.array([[3.0, 4.0], [0.0, 0.0]][run[0][0]]),
    )  # fmt: skip
    attended = np.array([[True, False, False], [False, True, True]])
    assert measured_on(side, attended=attended).token_change.tolist() == [4.0, 4.0]
    side.items = a_pair(2, 3, flipped=None)
    assert measured_on(side, attended=attended).token_change.tolist() == [5.0, 6.0]


def test_edges_that_are_read_are_those_up_to_the_place():
    keys = np.zeros((2, 3, 3), dtype=bool)
    keys[0, 2, 1] = keys[0, 0, 0] = keys[1, 2, 2] = keys[1, 1, 0] = True
    side = SimpleNamespace(items=a_pair(2, 3, read=np.array([1, 2])))
    made = measured_on(side)
    made.asked = SimpleNamespace(keys=keys)
    found = made.attended
    # Of the first item the query at 2 comes after the place that is read.
    assert found.tolist() == [[True, False, False], [True, False, True]]


def test_beside_partners_the_exchange_is_measured_free_and_held(monkeypatch):
    """Free: from margins with the partners ablated; held: norms are those of the intact run on both sides."""
    partners = ((1, 0),)
    side = SimpleNamespace(
        cache="intact", share=lambda change: change, fill=lambda heads: ("means", heads),
        without=lambda heads, held=False: ("held" if held else "free", heads),
        model=SimpleNamespace(cfg=SimpleNamespace(n_layers=2, n_heads=3)),
    )  # fmt: skip
    made = measured_on(side, search="search", others=["others"])
    untried = 5 - len(made.heads)
    made.net = lambda rest, **how: ((rest, how), "whole")
    made.change = lambda rest, edges, **how: (rest, edges, how)
    made.fills = "filled"
    made.found = SimpleNamespace(partners=partners)
    monkeypatch.setattr("probes.audit.use.find_partners", lambda search, swap, others, seed: partners)
    how = {"ablated": ("means", partners)}
    assert made.partners() == {
        "partners": partners, "with_partners": (("free", partners), how), "raw_with_partners": "whole",
        "left_beside": ("free", partners), "untried": untried,
    }  # fmt: skip
    assert made.held() == {
        "held_with_partners": (("held", partners), how | {"frozen": "intact"}),
        "fill_beside": (("free", partners), "filled", how),
    }
    monkeypatch.setattr("probes.audit.use.find_partners", lambda *_: ())
    assert made.partners() == {"untried": untried}
    assert measured_on(side, search=None).partners() == measured_on(side, search=None).company() == {}


def test_without_items_there_is_no_effect():
    used = Used(SimpleNamespace(cfg=SimpleNamespace(n_layers=2)), halves(2).inputs, Counts(), 0.9, 0)
    found = used.evidence(halves(2).asked(Claim([(0, 0)], "previous")), ((0, 0),))(frozenset({"total"}))
    assert (found.items, found.margin.value, found.margin.n, found.level, found.total) == (0, None, 0, 0.9, None)


# -- statistics ---------------------------------------------------------------------------------------------


def test_the_jackknife_of_a_ratio():
    rng = np.random.default_rng(0)
    top, bottom = rng.normal(1, 1, 30), rng.integers(1, 5, 30).astype(float)
    found = ratio(top, bottom, 0.99)
    without = np.array([np.delete(top, i).sum() / np.delete(bottom, i).sum() for i in range(30)])
    error = math.sqrt(29 / 30 * ((without - without.mean()) ** 2).sum())
    assert found.value == pytest.approx(top.sum() / bottom.sum())
    assert found.high - found.value == pytest.approx(student.ppf(0.995, 29) * error)
    mean = ratio(top, np.ones(30), 0.95)
    assert mean.high - mean.value == pytest.approx(student.ppf(0.975, 29) * top.std(ddof=1) / math.sqrt(30))
    assert ratio(top, np.zeros(30), 0.95).value is None
    assert ratio(top[:1], bottom[:1], 0.95).low is None


def test_sign_flips_can_pass_the_correction_and_do_not_pass_noise():
    rng = np.random.default_rng(0)
    clear, noise, nothing = rng.normal(1, 1, 60), rng.normal(0, 1, 60), np.zeros(60)
    p = sign_flips(np.stack([clear, noise, nothing, -clear], 1), 9999, 0)
    assert p[0] == pytest.approx(1e-4)
    assert p[1] > 0.01
    assert p[2] == 1
    assert p[3] > 0.99


def test_overlap_is_one_less_total_variation():
    keys = np.array([[[True, True, False, False], [False, False, False, True]]])
    weights = np.array([[[0.7, 0.1, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]]])
    assert_close(overlap(weights, keys), [[0.6, 0.4]])


def test_the_reach_of_a_number_is_its_farther_bound_or_what_so_few_units_hide():
    wide = Estimate(0.1, -0.4, 0.6, 10_000, "inputs")
    assert reach(wide, 0.95) == 0.6
    assert reach(Estimate(-0.1, -0.7, 0.6, 10_000, "inputs"), 0.95) == 0.7
    for n, hidden in ((0, 0.95), (1, 0.95), (2, 1 - math.sqrt(0.05))):
        assert reach(Estimate(0.0, 0.0, 0.0, n, "inputs"), 0.95) == pytest.approx(hidden)
    bare = Estimate(0.0, None, None, 500, "inputs")
    assert (low(bare), high(bare), reach(bare, 0.95)) == (-math.inf, math.inf, math.inf)


def test_a_ratio_needs_two_inputs_that_count_for_an_interval():
    one, none = np.array([3.0, 0.0]), np.array([2.0, 0.0])
    assert ratio(one, none, 0.95) == Estimate(
        1.5, None, None, 1, "inputs", reason="one of the inputs gives no interval"
    )
    for bottom, n in ((np.zeros(2), 0), (np.array([1.0, -1.0]), 2)):
        found = ratio(one, bottom, 0.95)
        assert (found.value, found.n, found.over) == (None, n, "inputs")
    # Without the first of them nothing is left to divide by.
    assert ratio(np.ones(3), np.array([2.0, 1.0, -1.0]), 0.95).low is None
    assert ratio(np.ones(2), np.ones(2), 0.95) == Estimate(1.0, 1.0, 1.0, 2, "inputs")


def test_sign_flips_count_every_draw_and_the_data_once():
    """Of three equal inputs one draw of eight turns none of them."""
    same = np.ones((3, 1))
    for draws in (1999, 4999):
        (p,) = sign_flips(same, draws, 0)
        assert p * (draws + 1) == pytest.approx(round(p * (draws + 1)))
        assert p == pytest.approx(1 / 8, abs=5 * math.sqrt(7 / 64 / draws))  # five standard errors
    for draws in (1, 2, 2000, 2001):
        assert sign_flips(0 * same, draws, 0)[0] == 1
    assert sign_flips(same, 0, 0)[0] == 1


@pytest.mark.parametrize(("large", "small", "p"), [(1.0, 1e-12, 0.5), (1e6, 1e-6, 0.5), (1e-6, 1e-9, 0.25)])
def test_a_tie_but_for_rounding_counts_against_the_claim(large, small, p):
    found = sign_flips(np.array([[large], [small]]), 999, 0)
    assert found[0] == pytest.approx(p, abs=0.08)  # absolute: five standard errors


# -- partners and company, of heads whose effects are given -------------------------------------------------

H = [(0, head) for head in range(16)]
MEAN, LOSS, SLACK = object(), -0.3, 1e-9


class Given:
    """A side of two items whose margins follow from which heads are out, and which edges are exchanged.

    `effect(group)`: what the interchange takes off while `group` is out; `rise(group)`: what the margin gains by that,
    norms held; `donated(group, edges)`: what is taken off while they give the donor's. All in tenths of the margin.
    """

    def __init__(self, effect=None, rise=None, donated=None, heads=16, intact=10.0, few=None):
        self.effect, self.rise, self.donated = effect, rise or (lambda group: 0.0), donated
        self.margin, self.few, self.level = np.array([intact - 1, intact + 1]), few, 0.95
        self.model = SimpleNamespace(cfg=SimpleNamespace(n_layers=1, n_heads=heads))
        self.donor_cache = SimpleNamespace(z=[np.zeros((2, 3, heads, 1))])
        self.tried = []

    def without(self, group, held=False):
        loss = LOSS * len(group) * abs(self.margin.mean()) / 10
        return self.margin + (self.rise(frozenset(group)) if held else loss)

    def fill(self, group):
        return dict.fromkeys(group, MEAN)

    def edited(self, edges, ablated):
        return tuple(edges), ablated

    def margin_of(self, done):
        edges, ablated = done
        group = frozenset(ablated)
        if edges:
            self.tried.append(tuple(ablated))
        if self.donated is not None:
            assert all(given is not MEAN for given in ablated.values())
            return self.margin - self.donated(group, edges)
        return self.without(group) - (self.effect(group) if edges else 0)

    def part(self, count):
        assert count == (limits.FEW_ITEMS if self.model.cfg.n_heads > limits.RANKED else limits.SEARCH_ITEMS)
        return self if self.few is None else self.few


CLAIMED = H[15]


def swap(side, head=CLAIMED):
    return [SimpleNamespace(layer=head[0], heads=(head[1],))]


def at_least(table):
    """The effect of the largest set of the table that is out, in a margin of 10."""
    sets = {frozenset(H[h] for h in heads): size for heads, size in table.items()}
    return lambda group: 10 * max((size for heads, size in sets.items() if heads <= group), default=0.0)


# Effects of sets as shares of the margin, what losses add to the margin of 10, and the set that the search must find.
PARTNERS = {
    "none gains": ({}, {}, ()),
    "as much by itself": ({(): 0.3, (2,): 0.31 - SLACK}, {}, ()),
    "more than by itself": ({(): 0.3, (2,): 0.31 + SLACK}, {}, (2,)),
    "one": ({(2,): 0.3}, {}, (2,)),
    "the largest": ({(1,): 0.4, (2,): 0.3}, {}, (1,)),
    "a second that gains enough": ({(1,): 0.3, (1, 2): 0.31 + SLACK}, {}, (1, 2)),
    "a second that gains too little": ({(1,): 0.3, (1, 2): 0.31 - SLACK}, {}, (1,)),
    "three and no fourth": ({(0,): 0.2, (0, 1): 0.3, (0, 1, 2): 0.4, (0, 1, 2, 3): 0.9}, {}, (0, 1, 2)),
    "not one whose loss makes the answer surer": ({(1,): 0.3, (2,): 0.4}, {2: 0.5 + SLACK}, (1,)),
    "one whose loss hardly does": ({(1,): 0.3, (2,): 0.4}, {2: 0.5 - SLACK}, (2,)),
    "each loss is counted beside those before": (
        {(1,): 0.3, (1, 2): 0.4, (1, 2, 3): 0.5}, {1: 0.4, 2: 0.4, 3: 0.4}, (1, 2, 3),
    ),
    "two at once": ({(2, 3): 0.06 + SLACK}, {}, (2, 3)),
    "two at once that move too little": ({(2, 3): 0.06 - SLACK}, {}, ()),
    "two at once, more than one alone": ({(1,): 0.08, (3, 4): 0.09 + SLACK}, {}, (3, 4)),
    "two at once, hardly more than one alone": ({(1,): 0.08, (3, 4): 0.09 - SLACK}, {}, (1,)),
    "one alone is enough": ({(1,): 0.1, (3, 4): 0.9}, {}, (1,)),
    "one alone is not quite enough": ({(1,): 0.1 - SLACK, (3, 4): 0.9}, {}, (3, 4)),
    "no set with one that works against them": ({(1,): 0.08, (3, 4): 0.9}, {3: 0.5 + SLACK}, (1,)),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTNERS)
def test_partners_are_those_that_the_search_must_find(case):
    table, rises, expected = PARTNERS[case]
    side = Given(at_least(table), lambda group: sum(rises.get(h, 0.0) for _, h in group))
    assert find_partners(side, swap, H[:5], 0) == tuple(H[h] for h in expected)


@pytest.mark.parametrize(
    ("table", "rises", "expected"),
    [
        ({(1,): 0.25, (1, 2): 0.5}, {}, (1, 2)),  # gains just enough
        ({(1,): 0.25, (2,): 0.5}, {2: 2.0}, (2,)),  # makes the answer surer by as much as it may
        ({(1,): 1.0, (2, 3): 8.0}, {}, (1,)),  # is just enough alone
        ({(2, 3): 0.5}, {}, (2, 3)),  # is just enough as a set
        ({(1,): 0.5, (2, 3): 0.75}, {}, (2, 3)),
    ],
)
def test_partners_are_found_at_the_very_bounds(table, rises, expected, monkeypatch):
    """With bounds that binary numbers hold exactly, and a margin of 8."""
    for name, value in {"GAIN": 0.25, "UNUSED": 0.25, "USED": 1.0}.items():
        monkeypatch.setattr(limits, name, value)
    effect = at_least(table)
    side = Given(lambda group: 0.8 * effect(group), lambda group: sum(rises.get(h, 0.0) for _, h in group), intact=8.0)
    assert find_partners(side, swap, H[:5], 0) == tuple(H[h] for h in expected)


def test_partners_are_looked_for_where_there_is_a_margin_to_lose():
    gains = at_least({(1,): 0.08, (2, 3): 0.9})
    for intact in (0.0, -1.0):
        assert find_partners(Given(gains, intact=intact), swap, H[:5], 0) == ()
        few = Given(gains, intact=intact)
        assert find_partners(Given(gains, few=few), swap, H[:5], 0) == ()
        assert find_company(few, swap, H[:5], 0) == ()
    little = Given(lambda group: 0.02 * gains(group), intact=0.2)
    assert find_partners(little, swap, H[:5], 0) == find_partners(Given(gains), swap, H[:5], 0) == (H[2], H[3])
    assert find_partners(Given(gains, few=little), swap, H[:5], 0) == (H[2], H[3])
    assert find_company(Given(donated=lambda group, edges: 0.0, intact=0.2), swap, H[:5], 0) == tuple(H[:5])
    assert find_partners(Given(gains), swap, [], 0) == ()
    assert find_partners(Given(gains), swap, H[1:2], 0) == (H[1],)


def only(group, size):
    return lambda out: 10 * size * (out == frozenset(group))


def test_of_three_heads_pairs_are_tried_too_and_of_more_a_number_of_sets():
    assert find_partners(Given(only(H[:2], 0.2)), swap, H[:3], 0) == tuple(H[:2])
    assert find_partners(Given(only(H[:2], 0.2)), swap, H[:4], 0) == ()
    # Of two, each adds more to the margin than it may beside the other.
    side = Given(only(H[:2], 0.2), lambda group: (0.0, 0.4, 1.0)[len(group - {CLAIMED})])
    assert find_partners(side, swap, H[:2], 0) == ()
    for count, expected in ((4, 4), (6, 20), (7, 32), (9, 32)):
        side = Given(lambda group: 0.0)
        find_partners(side, swap, H[:count][::-1], 3)
        drawn = [group for group in side.tried if len(group) == 3]
        assert len(set(drawn)) == len(drawn) == expected
        assert drawn == sorted(drawn)
        assert all(list(group) == sorted(group) for group in drawn)
    assert {h for group in drawn for h in group} == set(H[:9])


MANY = limits.RANKED + 1  # heads
TWELVE = H[: limits.CANDIDATES]


def halves_of(seed=0, heads=TWELVE):
    return _halves(Given(heads=MANY), heads, seed)


@pytest.mark.parametrize("seed", range(12))
def test_of_very_many_heads_halves_of_the_candidates_are_tried(seed):
    """Two that must go together are found where some half has both, and nobody with them."""
    both = {H[2], H[7]}
    side = Given(at_least({(2, 7): 0.3}), heads=MANY)
    there = any(both <= set(half) for half in halves_of(seed))
    assert find_partners(side, swap, TWELVE, seed) == (tuple(sorted(both)) if there else ())


def test_of_two_heads_one_of_eight_halves_has_both_in_87_of_100_draws():
    draws = [any({H[2], H[7]} <= set(half) for half in halves_of(seed)) for seed in range(2000)]
    expected = 1 - (1 - 5 / 22) ** 8
    assert abs(np.mean(draws) - expected) < 5 * (expected * (1 - expected) / len(draws)) ** 0.5
    assert round(expected, 2) == 0.87
    assert len(halves_of()) == limits.FEW_SETS
    assert {len(half) for half in halves_of()} == {6}
    assert all(list(half) == sorted(set(half)) for half in halves_of())
    assert halves_of() == halves_of() != halves_of(1)


@pytest.mark.parametrize(("count", "half"), [(2, None), (6, None), (7, 3), (8, 4)])
def test_of_few_candidates_no_halves_are_drawn(count, half):
    """Their sets are all of them, or next to all."""
    assert {len(group) for group in halves_of(heads=H[:count])} == ({half} if half else set())
    together = at_least({(0, 1): 0.3})  # sets of two or three heads hold it, and all sets of up to six are tried
    assert count > 6 or find_partners(Given(together, heads=MANY), swap, H[:count], 0) == (H[0], H[1])


def test_where_halves_cost_the_whole_margin_sets_of_three_are_tried(monkeypatch):
    """Each loss takes 17 %: six leave nothing, two leave two thirds."""
    monkeypatch.setattr(sys.modules[__name__], "LOSS", -1.7)
    assert halves_of() == []
    found = [find_partners(Given(at_least({(2, 7): 0.3}), heads=MANY), swap, TWELVE, seed) for seed in range(10)]
    sets = [_sets(TWELVE, seed) for seed in range(10)]
    there = [any({H[2], H[7]} <= set(group) for group in of_seed) for of_seed in sets]
    assert found == [(H[2], H[7]) if one else () for one in there]
    assert sum(there) > 5


def test_of_very_many_heads_one_that_gains_nothing_is_not_built_upon():
    """Head by head it goes on only while the loss of one adds to what the exchange does by itself."""
    for gain, goes_on in ((limits.GAIN - SLACK, False), (limits.GAIN + SLACK, True)):
        side = Given(at_least({(): 0.02, (1,): 0.02 + gain}), heads=MANY)
        find_partners(side, swap, TWELVE, 0)
        assert (sum(len(group) == 2 for group in side.tried) == 11) == goes_on


def test_of_a_half_whose_members_each_add_something_three_are_kept():
    """Those that matter most, if they are enough by themselves."""
    sizes = (0.011, 0.012, 0.06, 0.013, 0.014, 0.05, 0.015, 0.04, 0.016, 0.017, 0.018, 0.019)
    worth = dict(zip(TWELVE, sizes, strict=True))
    side = Given(lambda group: 10 * sum(worth.get(h, 0.0) for h in group), heads=MANY)
    best = max(halves_of(), key=lambda half: sum(worth[h] for h in half))
    kept = _at_most(partners._Effect(side, swap(None)), best, 3)
    assert kept == tuple(sorted(sorted(best, key=lambda h: -worth[h])[:3]))


def only_together(group, alone=None):
    """What more than three heads of a half are worth together, and one head outside of it alone."""
    return 10 * max(0.08 * (alone in group), 0.5 * (len(set(group) & set(halves_of()[0])) > 3))


def test_what_is_worth_nothing_once_cut_to_three_is_no_partner():
    assert find_partners(Given(only_together, heads=MANY), swap, TWELVE, 0) == ()
    alone = next(h for h in TWELVE if h not in halves_of()[0])
    assert find_partners(Given(partial(only_together, alone=alone), heads=MANY), swap, TWELVE, 0) == (alone,)


def test_what_is_left_of_a_half_has_none_that_works_against_the_rest():
    half = halves_of()[0]

    def rise(group):  # the loss of the first helps, unless the fourth is gone too
        return 2.0 * (half[0] in group and half[3] not in group)

    def effect(group):
        among = set(group) & set(half)
        return 0.0 if len(among) < 3 else 3.0 + 0.2 * len(among) + 0.1 * len(among & set(half[:3]))

    side = Given(effect, rise, heads=MANY)
    found = find_partners(side, swap, TWELVE, 0)
    assert len(found) == 3
    assert partners._none_against(partners._Effect(side, swap(None)), found)


def test_of_a_half_those_that_work_against_the_answer_are_left_out():
    half = next(half for half in halves_of() if {H[2], H[7]} <= set(half))
    against = next(h for h in half if h not in (H[2], H[7]))
    side = Given(at_least({(2, 7): 0.3}), lambda group: 2.0 if against in group else 0.0, heads=MANY)
    assert find_partners(side, swap, TWELVE, 0) == (H[2], H[7])


@pytest.mark.parametrize(("heads", "expected"), [(limits.RANKED, limits.SEARCH_SETS), (MANY, limits.FEW_SETS)])
def test_of_very_many_heads_fewer_sets_are_tried_as_company(heads, expected):
    groups = []
    donated = lambda group, edges: groups.append(tuple(group)) or 0.0  # noqa: E731
    find_company(Given(lambda group: 0.0, donated=donated, heads=heads), swap, H[:8], 0)
    assert len(groups) == 2 * (1 + expected)


def test_no_sham_is_asked_for_where_a_pattern_moves_nothing_for_sure():
    """At the bound it is, since a use might be shown."""
    asked = []
    for most, shams in ((limits.UNUSED - SLACK, 0), (limits.UNUSED, 2)):
        side = SimpleNamespace(nothing=lambda share, most=most: share < limits.UNUSED, share=lambda change: change)
        made = measured_on(side, heads=(), shams=[[], []])
        made.rows_of = lambda part, values, spared=False: []
        changes = iter([most + 1.0, 1.0, 0.25, 0.75])
        made.change = lambda rest, edges, changes=changes: asked.append(edges) or next(changes)
        net, raw = made.whole(None, True)
        assert raw == pytest.approx(most)
        assert net == pytest.approx(most - (0.5 if shams else 0.0))
        assert len(asked) == 2 + shams
        asked.clear()


def test_candidates_are_those_beside_whose_loss_the_interchange_matters_most():
    """One that stands in for the claimed head moves nothing by its own loss."""
    side = Given(lambda group: sum(h % 8 + h / 100 for _, h in group))
    ranked = sorted(H[1:], key=lambda head: -(head[1] % 8 + head[1] / 100))
    assert candidates(side, swap, H[:1]) == ranked[:12]
    assert candidates(Given(heads=13), swap, H[:1]) == H[1:13]
    assert candidates(Given(heads=13), swap, [H[2], H[4]]) == [h for h in H[:13] if h not in (H[2], H[4])]
    assert candidates(Given(intact=-1.0), swap, H[:1]) == H[1:13]


def test_of_very_many_heads_slopes_say_which_are_candidates(monkeypatch):
    """Up to `RANKED` heads each is tried."""
    gains = {(0, head): head % 8 + head / 100 for head in range(limits.RANKED + 1)}
    monkeypatch.setattr(partners, "screened", lambda side, edges, others: {head: gains[head] for head in others})
    ranked = sorted(list(gains)[1:], key=lambda head: -gains[head])[: limits.CANDIDATES]
    tried = Given(lambda group: 0.0, heads=limits.RANKED + 1)
    assert candidates(tried, swap, H[:1]) == ranked
    assert not tried.tried
    tried = Given(lambda group: 0.0, heads=limits.RANKED)
    candidates(tried, swap, H[:1])
    assert len(tried.tried) == limits.RANKED - 1


def test_a_partner_leaves_something_and_takes_nothing_away():
    """Beside each other: a third head decides alone, and of two that cancel each other either loss shows nothing."""

    def margin(out):
        """Of H0 (1, claimed) and H1 (-1), which cancel, and H2 (4), cut to 1 either way; in tenths."""
        left = {H[0]: 1.0, H[1]: -1.0, H[2]: 4.0}
        return 10 * float(np.clip(sum(size for head, size in left.items() if head not in out), -1, 1))

    class Cancelled(Given):
        def without(self, group, held=False):
            return np.array([margin(group)] * 2)

        def margin_of(self, done):
            edges, ablated = done
            return np.array([margin(ablated) - (20.0 if edges and H[2] in ablated else 0.0)] * 2)

    side = Cancelled(heads=3)
    assert [margin(out) for out in ((), (H[1],), (H[2],), (H[1], H[2]))] == [10, 10, 0, 10]
    assert H[2] not in find_partners(side, partial(swap, head=H[0]), H[1:3], 0)


def backed_up(lost, one=H[2], rest=(), rise=0.6):
    """What losses add to the margin of 10: that of `one` beside `rest` `rise`, and `-lost` once H15 is gone too."""
    return lambda group: 0.3 * (CLAIMED in group) + (group >= {*rest, one}) * (-lost if CLAIMED in group else rise)


@pytest.mark.parametrize(
    ("lost", "rise", "carries", "partner"),
    [
        (1.0 + SLACK, 0.6, True, True),  # the claimed head stands in for it with a louder voice
        (1.0 - SLACK, 0.6, False, False),
        (-3.0, 0.6, False, False),
        (1.0 - SLACK, 0.5 - SLACK, False, True),  # its loss does not raise the margin, so that it need not carry it
    ],
)
def test_a_head_whose_loss_raises_the_margin_is_a_partner_if_it_carries_it_where_the_claimed_ones_are_gone(
    lost, rise, carries, partner
):
    for rest, one, gains in (((), H[2], {(1,): 0.3, (2,): 0.4}), ((H[3],), H[4], {(1,): 0.08, (3, 4): 0.9})):
        side = Given(at_least(gains), backed_up(lost, one, rest, rise))
        effect, group = partners._Effect(side, swap(side)), (*rest, one)
        assert effect.claimed == (CLAIMED,)
        assert effect.carries(one, rest) is carries
        assert partners._none_against(effect, group) is partner
        assert find_partners(side, swap, H[:5], 0) == (group if partner else (H[1],))


def test_what_a_head_carries_is_a_share_of_the_margin_at_the_very_bound(monkeypatch):
    """With bounds that binary numbers hold exactly, and a margin of 8."""
    monkeypatch.setattr(limits, "USED", 0.25)
    for lost, carries in ((2.0, True), (1.75, False)):
        side = Given(rise=lambda group, lost=lost: -lost * (group == {H[2], CLAIMED}), intact=8.0)
        assert partners._Effect(side, swap(side)).carries(H[2], ()) is carries


def test_the_claimed_heads_of_an_exchange_are_those_of_all_its_edges():
    edges = [SimpleNamespace(layer=0, heads=(1, 2)), SimpleNamespace(layer=1, heads=(0,))]
    assert partners._Effect(Given(), edges).claimed == ((0, 1), (0, 2), (1, 0))


def test_company_is_the_set_in_which_the_interchange_moves_most():
    def donated(group, edges):
        taken = {frozenset(H[:6]): 2.0, frozenset(H[:5]): 7.0}.get(group, 0.1 * len(group))
        return taken * (1 if edges else -1)

    for sign in (1, -1):
        found = []
        for seed in range(12):
            side = Given(donated=lambda group, edges: sign * donated(group, edges))  # noqa: B023
            found.append(find_company(side, swap, H[:6], seed))
            assert len(side.tried) == 33
            assert side.tried[0] == tuple(H[:6])
            assert found[-1] == max(side.tried, key=lambda group: abs(donated(frozenset(group), True)))
        assert {len(group) for group in found} == {5, 6}
    sets = Given(donated=lambda group, edges: 0.0)
    sets.donor_cache = SimpleNamespace(z=[np.zeros((2, 3, 400, 1))])
    everyone = [(0, head) for head in range(400)]
    assert find_company(sets, swap, everyone, 0) == tuple(everyone)
    for place, share in enumerate((0.25, 0.5, 0.75)):
        for group in sets.tried[1 + place :: 3]:
            assert len(group) / 400 == pytest.approx(share, abs=0.125)  # absolute: five standard errors


@pytest.mark.parametrize(("rise", "there"), [(0.5 - SLACK, True), (0.5 + SLACK, False), (-3.0, True)])
def test_no_company_works_against_the_claimed_heads(rise, there):
    side = Given(donated=lambda group, edges: 0.0, rise=lambda group: rise if H[1] in group else 0.0)
    assert find_company(side, swap, H[:3], 0) == tuple(h for h in H[:3] if there or h != H[1])
    alone = find_company(Given(donated=lambda group, edges: 0.0, rise=lambda group: rise), swap, H[:3], 0)
    assert alone == (tuple(H[:3]) if there else ())


@pytest.mark.parametrize(("lost", "there"), [(1.0 + SLACK, True), (1.0 - SLACK, False)])
def test_one_that_the_claimed_head_stands_in_for_with_a_louder_voice_is_company(lost, there):
    side = Given(donated=lambda group, edges: 0.0, rise=backed_up(lost, H[1]))
    assert find_company(side, swap, H[:3], 0) == tuple(h for h in H[:3] if there or h != H[1])


# -- heads that are claimed together ------------------------------------------------------------------------


class Exchanged:
    """A side whose margins follow from the heads on whose edges values are exchanged."""

    def __init__(self, effect):
        self.effect, self.margin, self.asked = effect, 10.0, []

    def edited(self, group):
        return group

    def margin_of(self, group):
        self.asked.append(group)
        return 10.0 - self.effect(frozenset(h for _, h in group))

    def share(self, change):
        return change / 10

    def nothing(self, share):
        return abs(share) < limits.UNUSED


@pytest.mark.parametrize(
    ("effect", "idle"),
    [
        (lambda group: 3 * (0 in group) + 2 * (1 in group), [2]),
        (lambda group: 3 * (0 in group or 1 in group), [2]),  # either alone does it, so neither adds nothing
        (lambda group: 3 * (group >= {0, 1, 2}), []),  # only together
        (lambda group: 0.0, [0, 1, 2]),
        (lambda group: 3 * (0 in group) + 0.4 * (1 in group) - 0.6 * (2 in group), [1]),
    ],
)
def test_idle_heads_add_nothing_to_any_of_the_others(effect, idle):
    side = Exchanged(effect)
    assert idle_heads(side, tuple, H[:3]) == [H[h] for h in idle]
    assert len(side.asked) == len(set(side.asked))
    many = idle_heads(Exchanged(effect), tuple, [*H[:3], H[8], H[9]])
    assert many == [*[H[h] for h in idle], H[8], H[9]]


def test_a_head_that_does_it_alone_is_not_idle_beside_others_that_do_too():
    for count in (2, 4, 5, 6):
        assert idle_heads(Exchanged(lambda group: 3.0 * bool(group)), tuple, H[:count]) == []
        assert idle_heads(Exchanged(lambda group: 3.0 * (len(group) == count)), tuple, H[:count]) == []  # noqa: B023


class Spread(Exchanged):
    """The same with intervals: `below` and `above` the share, by the change."""

    def __init__(self, effect, below=None, above=0.0):
        super().__init__(effect)
        self.below, self.above = below or {}, above

    def share(self, change):
        share = change / 10
        return Estimate(share, share - self.below.get(round(change, 6), 0.0), share + self.above, 100, "inputs")

    def nothing(self, share):
        return max(abs(share.low), abs(share.high)) < limits.UNUSED


@pytest.mark.parametrize(
    ("table", "below", "expected"),
    [
        # What each moves alone, or adds to both others.
        ({"0": 3, "1": 1, "2": 0, "01": 4, "02": 3, "12": 1, "012": 4}, {}, (3, 1, 0)),
        ({"0": 3, "1": 3, "2": 3, "01": 3, "02": 3, "12": 3, "012": 3}, {}, (3, 3, 3)),
        ({"0": 0, "1": 0, "2": 0, "01": 0, "02": 0, "12": 0, "012": 4}, {}, (4, 4, 4)),
        # Not what it adds to one other: H2 to H0.
        ({"0": 1, "1": 1, "2": 0, "01": 3, "02": 3, "12": 2, "012": 3}, {}, (1, 1, 0)),
        # One that works against the others.
        ({"0": 3, "1": 3, "2": -2, "01": 6, "02": 1, "12": 2, "012": 4}, {}, (3, 3, -2)),
        # Of what is more and what is surer, the one with the higher lower bound: 3 - 2 alone, 2.5 to the others.
        ({"0": 3, "1": 1, "2": 0, "01": 4, "02": 3.5, "12": 1, "012": 3.5}, {3: 0.2}, (2.5, 1, 0)),
    ],
)
def test_what_a_head_adds_is_what_it_moves_alone_or_beside_all_others(table, below, expected):
    side = Spread(lambda group: table["".join(map(str, sorted(group)))], below)
    found = added(side, tuple, [H[1], H[0], H[2]])
    assert list(found) == [H[1], H[0], H[2]]
    assert [found[head].value for head in H[:3]] == pytest.approx([size / 10 for size in expected])
    assert len(side.asked) == len(set(side.asked)) == 7


@pytest.mark.parametrize(
    ("adds", "unshown", "idle"),
    [
        (0.5, False, False),
        (0.5 - SLACK, True, False),
        (0.3, False, True),  # nothing for sure, which is told of it alone
        (-2.0, True, False),
    ],
)
def test_a_head_is_shown_to_add_something_from_a_bound_on(adds, unshown, idle, monkeypatch):
    """H0 moves half of the margin, H1 what is given; what it comes to is known up to 0.01 above."""
    monkeypatch.setattr("probes.audit.use.interchange", lambda donor, keys, group: group)
    side = Spread(lambda group: 5 * (0 in group) + adds * (1 in group), above=0.01)
    side.donor_cache = None
    made = measured_on(side, heads=(H[0], H[1]))
    made.used.evidence = lambda asked, heads: heads
    found = made.idle()
    assert found == {"idle": ((H[1], (H[1],)),) if idle else (), "unshown": (H[1],) if unshown else ()}
    assert measured_on(side, heads=(H[0],)).idle() == {}


@pytest.mark.parametrize(("count", "sizes"), [(2, {1, 2}), (4, {1, 2, 3, 4}), (5, {1, 2, 4, 5})])
def test_of_many_heads_not_every_set_is_tried(count, sizes):
    side = Exchanged(lambda group: 0.0)
    idle_heads(side, lambda group: group, H[:count])
    assert {len(group) for group in side.asked} == sizes
    assert set(side.asked) == {group for size in sizes for group in combinations(H[:count], size)}
