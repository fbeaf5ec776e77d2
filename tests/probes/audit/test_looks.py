"""Information in where a head looks; names that are one relation; tails; donors and foils that users give."""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import probes
from closeness import assert_close
from interp import load_checkpoint
from interp.claims import Condition, Relation
from interp.claims.register import claims_of
from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.vocabulary import Vocabulary
from probes.audit.bench.trained import VOCABULARY, Frozen, FrozenModel
from probes.audit.edits import Edges, z_change
from probes.audit.exchanges import whole_rows
from probes.audit.inputs import Inputs
from probes.audit.labels import LabelledInput, lay_out
from probes.audit.pattern import Head, Laid
from probes.audit.rivals import rivals_of
from probes.audit.tails import worst_tail
from probes.claims import Claim, offset, position, position_at_least, suggestions
from toys import GRAMMAR, STACK, TOP, TYPE, Toy, mixed, onto

audit_claim = partial(probes.audit_claim, task_check=False)
OPENER = (1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0)  # a value that says that a bracket opens, and not of which type


# -- where a head looks --------------------------------------------------------------------------------------


def by_type(first, other):
    """Attends to the last unmatched opener, with this much of the weight for the one type and the other; else START."""

    def attends(tokens, read=None):
        top = GRAMMAR.stack_top(tokens)
        kind = np.take_along_axis(tokens, np.maximum(top, 0), 1)
        share = np.where(kind == 0, first, other)[..., None]
        return share * TOP(tokens) + (1 - share) * onto("start")(tokens)

    return attends


def test_a_head_that_tells_by_where_it_looks_is_used():
    """The values at both keys are the same whatever the type is: only the weights tell it."""
    model = Toy([[(by_type(0.9, 0.5), OPENER)]], lambda a: 2.5 * (a[..., 0] - 0.4))
    found = audit_claim(model, STACK)
    assert (found.pattern, found.use, found.verdict) == ("holds", "used", "supported"), found.reason
    assert "by where it looks" in found.reason
    values, look = (next(row["value"] for row in found.evidence if row["name"] == name) for name in ("raw", "look"))
    assert abs(values) < 0.01  # absolute: none of the margin
    assert look == pytest.approx(2, abs=0.1)  # absolute: the whole answer turns over


def test_a_head_that_looks_so_and_is_not_read_is_unused():
    """The same pattern beside a head that does the work."""
    model = Toy([[(by_type(0.9, 0.5), OPENER), (TOP, TYPE)]], lambda a: a[..., 1])
    found = audit_claim(model, STACK.replace("attends to", "uses"))
    assert (found.pattern, found.use, found.verdict) == ("holds", "unused", "misleading"), found.reason
    assert {"look", "both"} <= {row["name"] for row in found.evidence if row["decides"]}


def test_what_a_head_reads_beside_the_claimed_edges_is_no_use_of_them():
    """More than half of its weight rests on START, where nothing is; the rest does the work."""
    model = Toy([[(mixed(0.55, onto("start"), TOP), TYPE)]], lambda a: a[..., 0])
    found = audit_claim(model, "L0H0 uses START")
    assert found.pattern == "holds"
    assert found.use != "used", found.reason


def side_of(pattern, donor, v, donor_v):
    """A side of one layer, made by hand: patterns [item, head, query, key] and values [item, key, head, d]."""
    seen = (pattern > 0).any(1)
    caches = [SimpleNamespace(patterns=[p], v=[x]) for p, x in ((pattern, v), (donor, donor_v))]
    return SimpleNamespace(cache=caches[0], donor_cache=caches[1], sees=lambda layer: seen)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("spare", [False, True])
def test_an_exchange_of_rows_is_what_a_literal_loop_says(values, spare):
    generator = torch.Generator().manual_seed(3)
    draw = partial(torch.rand, dtype=torch.float64, generator=generator)
    pattern, donor = (draw(2, 2, 4, 4).tril() for _ in range(2))
    pattern, donor = (x / x.sum(-1, keepdim=True) for x in (pattern, donor))
    v, donor_v = (draw(2, 4, 2, 3) for _ in range(2))
    keys, spared = draw(2, 4, 4).tril() > 0.6, draw(2, 4, 4).tril() > 0.5
    side = side_of(pattern, donor, v, donor_v)
    (edit,) = whole_rows(side, keys, ((0, 1),), values, spared if spare else None)
    found = z_change(edit, pattern, v)
    for item in range(2):
        for query in range(4):
            own, new = pattern[item, 1, query], donor[item, 1, query].clone()
            kept = spared[item, query] if spare else torch.zeros(4, dtype=torch.bool)
            other, left = new[~kept].sum(), own[~kept].sum()
            weights = own.clone()
            if other > 0:
                weights[~kept] = new[~kept] * left / other
            read = [(donor_v if values and not kept[key] else v)[item, key, 1] for key in range(4)]
            expected = sum(w * x for w, x in zip(weights, read, strict=True))
            change = expected - own @ v[item, :, 1] if keys[item, query].any() else torch.zeros(3)
            assert_close(found[item, query, 0], change, scale=1.0, dtype=torch.float64)


def test_what_is_added_to_z_is_added_to_its_heads_alone():
    add = torch.arange(24.0).reshape(1, 2, 4, 3)
    edit = Edges(0, (1, 3), torch.zeros(1, 2, 2, dtype=torch.bool), add=add)
    assert z_change(edit, torch.zeros(1, 4, 2, 2), torch.zeros(1, 2, 4, 3)).equal(add[:, :, [1, 3]])


# -- names that are one relation -----------------------------------------------------------------------------


def laid_out(tokens):
    visible = np.repeat(np.tri(tokens.shape[1], dtype=bool)[None], len(tokens), 0)
    return Laid(Inputs(tokens, visible, np.zeros_like(tokens), None))


def on(laid, key_of):
    """All weight on one key of each query."""
    keys = np.maximum(key_of(np.arange(laid.inputs.tokens.shape[1])), 0)
    return np.repeat(np.eye(laid.inputs.tokens.shape[1])[keys][None], len(laid.inputs.tokens), 0)


AT_THREE = Claim([(0, 0)], position(1), when=probes.claims.position_is(3))


def test_from_one_place_a_position_and_an_offset_are_one_relation():
    laid = laid_out(np.random.default_rng(0).integers(0, 9, (120, 6)))
    asked = laid.asked(AT_THREE)
    found = rivals_of(Head(laid, on(laid, lambda q: np.full_like(q, 1))), asked, 0.95)
    assert found.same == ("the token 2 positions before",)
    assert all(rival.different >= 50 for rival in found.rivals)


def test_at_one_place_of_inputs_of_one_length_a_place_is_a_distance():
    """The query is named by its token, which stands at the end of each input and nowhere else."""
    tokens = np.random.default_rng(0).integers(0, 5, (120, 6))
    tokens[:, 5] = 9
    laid = laid_out(tokens)
    nine = Condition("nine", "the token is 9", "tokens", lambda t, grammar, keys: t == 9)
    asked = laid.asked(Claim([(0, 0)], position(2), when=nine))
    assert laid.must_agree(asked, offset(-3))
    assert not laid.must_agree(asked, offset(-2))


def test_what_agrees_on_these_inputs_only_is_not_the_same():
    """The token at 1 is a 5 in every input, and 5 stands nowhere else: other sequences tell the two apart."""
    tokens = np.random.default_rng(0).integers(0, 5, (120, 6))
    tokens[:, 1] = 5
    laid = laid_out(tokens)
    fives = Relation("fives", "every 5", "mass", "tokens", lambda t, g, visible: visible & (t == 5)[:, None, :])
    assert not laid.must_agree(laid.asked(Claim([(0, 0)], position(1))), fives)
    assert laid.must_agree(laid.asked(Claim([(0, 0)], position(1))), position(1))
    rivals = rivals_of(Head(laid, on(laid, lambda q: np.full_like(q, 1))), laid.asked(Claim([(0, 0)], fives)), 0.95)
    assert [rival.name for rival in rivals.rivals if rival.different < 50] == ["position-1"]


def of_token(tokens, grammar, relation):
    """What the relations that name one token are to a claim: (same keys, rivals that too few rows tell from it)."""
    visible = np.repeat(np.tri(tokens.shape[1], dtype=bool)[None], len(tokens), 0)
    laid = Laid(Inputs(tokens, visible, np.zeros_like(tokens), grammar))
    found = rivals_of(Head(laid, on(laid, lambda q: np.full_like(q, 1))), laid.asked(Claim([(0, 0)], relation)), 0.95)
    alike = [rival.words for rival in found.rivals if rival.different < 50]
    return tuple([one for one in words if one.startswith("the token ")] for words in (found.same, alike))


NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "[CLS]", "[SEP]")
WITH_SPECIALS = Vocabulary.of(NAMES)


def letters(place, token, rows=120):
    """Random letters, one token always at one place and nowhere else."""
    tokens = np.random.default_rng(0).integers(0, 5, (rows, 6))
    tokens[:, place] = token
    return tokens


@pytest.mark.parametrize(
    ("tokens", "grammar", "place", "same", "alike"),
    [
        (letters(2, 8), WITH_SPECIALS, 2, [], ["the token i"]),
        (letters(2, 8), None, 2, [], ["the token of id 8"]),
        # Where the grammar puts it, there is nothing to tell apart.
        (letters(0, 9), WITH_SPECIALS, 0, ["the token [CLS]"], []),
        (letters(0, 9), replace(WITH_SPECIALS, prepend_start=False), 0, [], ["the token [CLS]"]),
        (letters(0, 9), None, 0, ["the token of id 9"], []),
        (letters(0, 8), WITH_SPECIALS, 0, [], ["the token i"]),
        (letters(5, 10), WITH_SPECIALS, 5, ["the token [SEP]"], []),
        (letters(3, 10), WITH_SPECIALS, 3, [], ["the token [SEP]"]),
        # It stands elsewhere, too, or another one there: the inputs tell.
        (np.where(np.arange(6) == 2, 8, letters(4, 8)), WITH_SPECIALS, 2, [], []),
        (np.where(np.arange(120)[:, None] % 2, letters(2, 8), letters(2, 7)), WITH_SPECIALS, 2, [], []),
    ],
)
def test_a_place_that_always_holds_one_token_is_told_from_the_token(tokens, grammar, place, same, alike):
    assert of_token(tokens, grammar, position(place)) == (same, alike)


def test_a_token_that_the_grammar_puts_first_is_the_first_token():
    tokens = letters(0, 9)
    found = of_token(tokens, WITH_SPECIALS, probes.claims.token("[CLS]"))
    assert found == ([], [])  # no rival token; the place has another name
    laid = Laid(Inputs(tokens, np.ones((120, 6, 6), dtype=bool), np.zeros_like(tokens), WITH_SPECIALS))
    assert laid.must_agree(laid.asked(Claim([(0, 0)], probes.claims.token("[CLS]"))), position(0))
    assert not laid.must_agree(laid.asked(Claim([(0, 0)], position(0))), probes.claims.token("a"))


@pytest.mark.parametrize("claim", ["L0H0 attends to position 3", "L0H0 attends to the token w0"])
def test_a_head_that_looks_for_a_token_is_not_said_to_look_at_its_place(claim):
    """It would follow the token, which stands at 3 in every input."""
    config = TransformerConfig(len(VOCABULARY.names), n_layers=1, n_heads=1, d_model=8, d_head=2, mlp_depth=0)
    model = FrozenModel(config, VOCABULARY, {(0, 0): Frozen(probes.claims.token("w0"), 0.9)})
    tokens = np.random.default_rng(1).integers(1, 12, (300, 9))
    tokens[:, 0], tokens[:, 3] = VOCABULARY.start, 0
    found = audit_claim(model, claim, tokens, untrained=False)
    assert found.verdict == "undecided"
    assert "cannot be told from" in found.reason
    assert "w0" in found.reason
    assert "position 3" in found.reason


# -- tails ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "fails"), [(4, True), (99, False)])
def test_a_claim_that_fails_late_says_so(late, fails):
    """All weight on the previous token up to position 3, and on the first from 4 on."""
    laid = laid_out(np.random.default_rng(0).integers(0, 9, (120, 16)))
    weights = on(laid, lambda q: np.where(q < late, q - 1, 1))
    head, asked = Head(laid, weights), laid.asked(Claim([(0, 0)], "previous"))
    tail = worst_tail(head, asked, {}, 0.25, 0.95)
    assert (tail is not None) is fails
    if tail is not None:
        assert (
            tail.words == f"where {position_at_least(12).words}" or tail.words == f"where {position_at_least(8).words}"
        )
        assert tail.seen.value < 0.1


def test_a_claim_that_fails_far_from_its_target_says_so():
    """The token after an earlier copy, the last of them, found up to seven positions back only."""
    laid = laid_out(np.random.default_rng(0).integers(0, 9, (400, 16)))
    asked = laid.asked(Claim([(0, 0)], "induction"))
    place = np.arange(16)
    last = np.where(asked.keys, place, -1).max(-1)
    weights = np.eye(16)[np.where(place - last < 8, np.maximum(last, 0), 0)]
    tail = worst_tail(Head(laid, weights), asked, {}, 0.25, 0.95)
    assert tail.words == "where the gap is at least 8"
    assert tail.seen.value < 0.05
    assert worst_tail(Head(laid, np.eye(16)[np.maximum(last, 0)]), asked, {}, 0.25, 0.95) is None


def test_hints_and_tails_of_any_world_ask_early_late_and_far_rows():
    words = [one.words for one in suggestions(None, 16)]
    assert words == [
        "the current token is not itself the target",
        "the position is at most 8",
        "the position is at least 8",
        "the position is at least 12",
        "the gap is at least 4",
        "the gap is at least 8",
    ]
    for name in ("recall", "markov", "flipflop", "facts", "dyck-minimal"):
        own = [one.words for one in suggestions(load_checkpoint(name).grammar, 16)]
        assert own[-len(words) :] == words or set(words) <= set(own)
        assert len(set(own)) == len(own)


def test_chains_have_other_kernels_as_tails():
    grammar = load_checkpoint("markov").grammar
    betas = {words: law.beta / grammar.beta for words, law in claims_of(grammar).tails(grammar).items()}
    assert betas == {"strings whose kernels are nearly even": 5, "strings whose kernels are nearly fixed": 0.2}
    narrow = replace(grammar, beta=0.1), replace(grammar, beta=900)
    laws = [list(claims_of(one).tails(one).values()) for one in narrow]
    assert (laws[0][1].beta, laws[1][0].beta) == (0.05, 1e3)


def test_other_laws_are_looked_at_where_inputs_are_drawn():
    """A head that finds the last write on the law's strings and looks at the first key where writes are rare."""
    model = load_checkpoint("flipflop-1l1h")[0]
    laws = probes.audit.tails.Tails(model, model.grammar, 26, 0)
    assert set(laws.laid) == {"strings with a write in fifty steps", "strings with few no-ops"}
    assert not probes.audit.tails.Tails(model, model.grammar, 26, 0, drawn=False).laid
    laid = laid_out(np.random.default_rng(0).integers(0, 9, (120, 16)))
    good, bad = (Head(laid, on(laid, where)) for where in (lambda q: q - 1, lambda q: np.zeros_like(q)))
    asked = laid.asked(Claim([(0, 0)], "previous"))
    tail = worst_tail(good, asked, {"rare strings": (bad, asked)}, 0.25, 0.95)
    assert tail.words == "on rare strings"
    assert worst_tail(good, asked, {"rare strings": (good, asked)}, 0.25, 0.95) is None


# -- donors and foils ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("recall")[0]


def entries(*more):
    return [LabelledInput(["a", "b", "a"], "b", **one) for one in more]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"donor": ["a", "c", "a"]}, "entry 1 has a donor and no foil"),
        ({"donor": ["a", "c"], "foil": "c"}, "of 2 tokens, and the text of 3"),
        ({"donor": ["a", "b", "a"], "foil": "c"}, "is the text itself"),
        ({"foil": "b"}, "entry 1: foil 'b' is the label itself"),
        ({"foil": "nothing"}, "entry 1"),
        ({"foil": "c", "label": None}, "has a donor or a foil and no label"),
    ],
)
def test_donors_and_foils_that_are_none_are_refused(model, given, said):
    with pytest.raises(RequestError, match=re.escape(said)):
        lay_out([LabelledInput(["a", "b", "a"], **({"label": "b"} | given))], model, model.grammar)


def test_given_donors_are_exchanged_and_given_foils_chosen(model):
    from probes.audit.labels import Labels

    given = [
        LabelledInput(["a", "b", "a"], "b", donor=["a", "d", "a"], foil="d"),
        LabelledInput(["c", "e", "c"], "e", foil="b"),
        LabelledInput(["f", "b", "f"], "b"),
        LabelledInput(["g", "h", "g"], "h"),
    ]
    laid = lay_out(given, model, model.grammar)
    task = Labels(laid, np.ones(laid.tokens.shape, dtype=bool))
    items = task.items(laid.tokens, model.grammar, np.ones(laid.tokens.shape, dtype=bool), 0)
    named = model.grammar.vocab
    donors = {named[t[0]]: [named[i] for i in d] for t, d in zip(items.tokens, items.donors, strict=True)}
    foils = {named[t[0]]: named[f] for t, f in zip(items.tokens, items.foil, strict=True)}
    assert (donors["a"], foils["a"]) == (["a", "d", "a"], "d")
    assert (donors["c"], foils["c"]) == (["f", "b", "f"], "b")
    assert foils["f"] in ("e", "h")
    assert items.unit[0] not in items.unit[1:]  # a donor of its own is shared with no other
