"""FFL(T, p) and the transduction: what is drawn, labelled, predicted, refused; and the questions' pairs."""

import math

import numpy as np
import pytest

from closeness import assert_close
from interp import train_population
from interp.checking import SLOW, world_checks
from interp.claims.types import kinds_of
from interp.errors import ConfigError, GrammarError, RequestError
from interp.presets import make_recipe
from interp.rng import generator
from interp.training.evaluation import plain_set
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.claims import CLAIMS, LAST_WRITE, StoredBit, gap_at_least
from interp.worlds.flipflop.finite import generative
from probes import Claim, check_audit

W, R, IDLE = range(3)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(run, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, run in world_checks("flipflop")
    ],
)
def test_the_world_passes_every_check(check):
    check()


@pytest.mark.slow
def test_claims_about_it_can_be_audited():
    assert len(check_audit("flipflop")) == 2 * (len(CLAIMS.relations) + 1) - 1  # nothing is read in transduction


# -- the law ------------------------------------------------------------------------------------------------


def test_reads_of_sparse_strings_are_as_many_as_the_thesis_counts():
    """L3153: 353,875 in 10^5 strings of FFL(512; .01, .01, .98), that is 3.54 a string; 1 + 254 p_r by the law."""
    grammar = FlipFlopGrammar(512, ignore=(0.98,))
    count = 2000
    reads = grammar.reads(grammar.draw(generator(0, "test"), count)).sum()
    spread = math.sqrt(count * 254 * 0.01 * 0.99)
    assert abs(reads - count * (1 + 254 * 0.01)) < 4 * spread
    assert abs(reads / count * 1e5 - 353_875) < 4 * spread / count * 1e5


def test_instructions_have_their_probabilities():
    grammar = FlipFlopGrammar(64, ignore=(0.5,), writes=0.8)
    what = grammar.draw(generator(0, "test"), 3000)[:, ::2]
    assert (what[:, 0] == W).all()
    assert (what[:, -1] == R).all()
    for instruction, p in ((W, 0.4), (R, 0.1), (IDLE, 0.5)):
        share, n = (what[:, 1:-1] == instruction).mean(), what[:, 1:-1].size
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("kind", [FlipFlopGrammar, TransductionGrammar])
def test_a_mixture_draws_a_whole_string_from_one_law(kind):
    tokens = kind(200, ignore=(0.95, 0.1)).draw(generator(0, "test"), 400)
    idle = kind().idle(tokens).sum(1) / (tokens.shape[1] / (2 if kind is FlipFlopGrammar else 1))
    assert ((idle > 0.8) | (idle < 0.3)).all()
    assert 0.4 < (idle > 0.8).mean() < 0.6


def test_a_worked_string():
    grammar = FlipFlopGrammar(12)
    (row,) = tokens = grammar.to_tokens("w1 i0 r1 w0 i1 r0")
    assert grammar.format(row) == "w1 i0 r1 w0 i1 r0"
    assert grammar.last_write(row).tolist() == [-1, 1, 1, 1, 1, 1, 1, 7, 7, 7, 7, 7]
    assert grammar.told(row).tolist() == [-1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7, 11]
    assert grammar.state(row).tolist() == [-1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert grammar.labels(tokens)[0].tolist() == [-100] * 4 + [4] + [-100] * 5 + [3, -100]
    asked = {name: np.flatnonzero(mask[0]).tolist() for name, mask in grammar.classes(tokens).items()}
    assert asked == {"read": [4, 10], "far": [], "contested": [10]}


def test_a_worked_transduction():
    grammar = TransductionGrammar(6)
    tokens = grammar.to_tokens("1..0.1")
    assert grammar.labels(tokens).tolist() == [[1, 1, 1, 0, 0, 1]]
    assert grammar.last_write(tokens).tolist() == [[0, 0, 0, 3, 3, 5]]
    assert np.flatnonzero(grammar.classes(tokens)["contested"][0]).tolist() == [4]


def test_the_generative_law_is_the_probability_of_the_string():
    """Chained from token to token it is what `enumerate` says, the first w being certain."""
    grammar = generative()
    tokens, chance = grammar.enumerate()
    law = grammar.law_nll(tokens)
    assert_close(law.sum(1), -np.log(chance), scale=10)
    for pure in (FlipFlopGrammar(8, ignore=(1.0,), mode="generative"), FlipFlopGrammar(8, (0.0,), 1.0, "generative")):
        tokens, chance = pure.enumerate()
        assert_close(pure.law_nll(tokens).sum(1), -np.log(chance), scale=10)


def test_rungs_know_what_they_say():
    grammar = FlipFlopGrammar(12)
    tokens = grammar.to_tokens(["w1 i0 i0 i0 i1 r1", "w1 i0 i0 r1 i1 r1"])
    short = grammar.rungs(tokens)["last 8 tokens"]
    assert short[:, 10].tolist() == [math.log(2), 0.0]  # the read at 6 tells it again
    assert grammar.rungs(grammar.to_tokens("w1 i0 i0 r1"))["last 8 tokens"][0, 6] == 0.0  # w stands 7 tokens before r
    both = plain_set(generative(), 500).rung_losses()
    assert (
        both["law"] < both["last 8 tokens"] + 1e-12 <= both["either bit"] < both["uniform"]
    )  # absolute: no pair is far in 8 tokens


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grammar", "text", "said"),
    [
        (FlipFlopGrammar(), "w0 i1 r1", "string 'w0 i1 r1' position 5: 'r' reads 1, and 0 was written last"),
        (FlipFlopGrammar(), "r0", "string 'r0' position 0: 'r' stands where every string begins with 'w'"),
        (FlipFlopGrammar(), "w0 1", "string 'w0 1' position 2: '1' stands where an instruction has to be"),
        (FlipFlopGrammar(), "wi", "string 'wi' position 1: 'i' stands where a bit has to be"),
        (FlipFlopGrammar(), "w0 x", "position 3: no token fits 'x'"),
        (TransductionGrammar(), "..1", "string '..1' position 0: every string begins with a write"),
    ],
)
def test_what_breaks_the_law_is_refused_in_a_line_that_quotes_it(grammar, text, said):
    with pytest.raises(GrammarError, match=said.replace(".", r"\.")):
        grammar.to_tokens(text)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"length": 31}, "length=31 is odd"),
        ({"length": 2}, "length=2 is not a whole number from 4 to 10000"),
        ({"ignore": 1.5}, "ignore=1.5"),
        ({"ignore": (0.5, -0.1)}, "-0.1 is none"),
        ({"ignore": ()}, r"ignore=\(\)"),
        ({"writes": 2.0}, "writes=2.0 is not a number from 0 to 1"),
        ({"mode": "noisy"}, "mode='noisy' is not one of deterministic, generative"),
    ],
)
def test_parameters_outside_their_range_are_refused(changes, said):
    with pytest.raises(GrammarError, match=said):
        FlipFlopGrammar(**changes)


def test_labels_refuse_what_the_law_has_not():
    grammar = FlipFlopGrammar()
    with pytest.raises(GrammarError, match="reads 1, and 0 was written last"):
        grammar.labels(np.array([[W, 3, R, 4]]))
    with pytest.raises(GrammarError, match="strings of 10 tokens have no law: length=8"):
        generative().law_nll(FlipFlopGrammar(10).draw(generator(0, "test"), 1))


def test_an_option_of_another_grammar_is_refused():
    with pytest.raises(RequestError, match="option 'mode' is not one of 'flipflop-1l1h', which takes"):
        make_recipe("flipflop-1l1h", {"mode": "generative"})


def test_strings_beyond_learned_positions_are_refused():
    recipe = make_recipe("flipflop", {"length": 64})
    assert recipe.config.n_ctx == 64
    with pytest.raises(ConfigError, match="strings fill 64 positions, more than n_ctx=32"):
        make_recipe("flipflop", {"length": 64, "n_ctx": 32})


# -- pairs --------------------------------------------------------------------------------------------------


def test_pairs_change_what_is_stored_or_which_write_is_last():
    grammar = FlipFlopGrammar(12)
    tokens = grammar.to_tokens(["w1 i0 w0 r0 i1 r0", "w1 i0 i1 i0 i1 r1"])
    rows = np.zeros(tokens.shape, bool)
    rows[:, 10] = True
    question = StoredBit()
    assert kinds_of(question) == ("content", "address")
    content = question.items(tokens, grammar, rows, 0, kind="content")
    assert [grammar.format(row) for row in content.donors] == ["w1 i0 w1 r1 i1 r1", "w0 i0 i1 i0 i1 r0"]
    address = question.items(tokens, grammar, rows, 0, kind="address")
    assert address.sequence.tolist() == [0]  # the other has one write only: it cannot be asked
    assert grammar.format(address.donors[0]) == "w1 i0 i0 r1 i1 r1"
    assert (address.flipped[0], address.answer[0], address.foil[0]) == (4, 3, 4)


def test_pairs_of_the_transduction():
    grammar = TransductionGrammar(6)
    tokens = grammar.to_tokens(["1..0..", "1....."])
    rows = np.zeros(tokens.shape, bool)
    rows[:, 5] = True
    of = {kind: StoredBit().items(tokens, grammar, rows, 0, kind=kind) for kind in StoredBit.kinds}
    assert [grammar.format(row) for row in of["content"].donors] == ["1..1..", "0....."]
    assert [grammar.format(row) for row in of["address"].donors] == ["1....."]
    with pytest.raises(RequestError, match="kind='other' is none of content, address"):
        StoredBit().items(tokens, grammar, rows, 0, kind="other")


def test_no_other_token_may_stand_at_a_read():
    grammar = FlipFlopGrammar(8)
    tokens = grammar.to_tokens("w1 i0 w0 r0")
    for place in (0, 6, 7):
        with pytest.raises(GrammarError, match=f"string 'w1 i0 w0 r0' position {place}: nothing else may stand"):
            grammar.counterfactual(tokens, [place])
    assert grammar.format(grammar.counterfactual(tokens, [2])[0]) == "w1 w0 w0 r0"


def test_a_claim_may_name_the_tail():
    claim = Claim.parse("L1H0 attends to the last write when the last write is at least 12 tokens back")
    assert claim.relation == LAST_WRITE
    assert claim.conditions == (gap_at_least(12),) if hasattr(claim, "conditions") else True
    grammar = FlipFlopGrammar(16)
    tokens = grammar.to_tokens("w1 i0 i0 i0 i0 i0 i0 r1")
    rows = gap_at_least(12).rows(tokens, grammar, np.zeros((1, 16, 16), bool))
    assert np.flatnonzero(rows[0]).tolist() == [13, 14, 15]


# -- training -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_small_preset_learns():
    population = train_population("flipflop-1l1h", [100, 101], steps=200, workers=1)
    for row in population.final_metrics():
        assert row["accuracy_read"] > 0.97 > 1 - row["loss"] / row["rung/uniform"] - 0.1
        assert row["loss"] < row["rung/last 8 tokens"] < row["rung/uniform"]
