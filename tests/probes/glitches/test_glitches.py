"""Errors a read: counts by a loop, intervals that know of strings, models whose errors are known."""

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import Population, SandboxTransformer, TransformerConfig, load_checkpoint
from interp.errors import AnalysisError, RequestError
from interp.presets import make_recipe
from interp.stats import SHARE
from interp.worlds.flipflop import FlipFlopGrammar
from interp.worlds.flipflop.constructed import memory, reader
from probes import analyze_drift, analyze_glitches
from probes.core import clopper_pearson, errors_over_seeds, mean_over_seeds
from probes.glitches import glitch_strings, share_of_reads

QUICK = {"reads": 300}


def mute(model):
    """It says "0", whatever it reads."""
    with torch.no_grad():
        model.unembed.W_U.zero_()
        model.unembed.b_U.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]))
    return model


def test_who_reads_right_makes_no_error_and_is_not_said_to_make_none():
    for model in (reader(), memory()):
        result = analyze_glitches(model, **QUICK)
        assert set(result.errors) == {"0.8", "0.98", "0.1"}
        for law, e in result.errors.items():
            assert (e.value, e.low) == (0, 0)
            assert e.high >= clopper_pearson(0, result.strings[law]).high > 0  # each string that reads counts once
            assert e.null["untrained"] is None
            assert result.reads[law] >= 300
            assert (e.low, e.high) == clopper_pearson(0, e.n).ends[1:]  # n is that of the interval, in its unit
            assert f"(n={e.n} trials)" in result.summary()
            assert result.spread[law].faulty.value == 0


def test_who_always_says_0_is_wrong_where_1_is_stored():
    result = analyze_glitches(mute(reader()), laws=[0.8], reads=2000)
    (e,) = result.errors.values()
    assert e.low < 0.5 < e.high
    assert e.high - e.low < 0.1
    assert result.spread["0.8"].faulty.value == 1


def test_a_reader_that_forgets_is_as_wrong_as_its_null():
    """Who guesses wherever no pair of the last 8 tokens tells the bit errs as often as the null says."""
    result = analyze_glitches(mute(reader()), laws=(0.98, 0.1), reads=2000)
    sparse, dense = (result.errors[law].null["last 8 tokens"] for law in ("0.98", "0.1"))
    assert 0.4 < sparse < 0.5
    assert dense < 0.001  # two of three ignored in a row three times
    grammar = FlipFlopGrammar(ignore=(0.98,))
    tokens = grammar.draw(np.random.default_rng(0), 500)
    far = 0
    for row in tokens:
        names = [grammar.vocab[token] for token in row]
        for at in (at for at, name in enumerate(names) if name == "r"):
            far += not any(names[q] in "wr" for q in range(max(0, at - 7), at) if q % 2 == 0)
    assert abs(far / 2 / grammar.reads(tokens).sum() - sparse) < 0.05  # absolute: sampling of 500 strings


def test_a_population_has_an_interval_over_seeds_and_one_a_seed():
    recipe = make_recipe("flipflop-1l1h")
    models = Population.init(recipe.config, range(5), recipe.grammar)
    result = analyze_glitches(models, laws=(0.5,), task_check=False, **QUICK)
    (e,), (each,) = result.errors.values(), result.each.values()
    assert (e.n, e.over, len(each)) == (5, "seeds", 5)
    assert_close(e.value, np.mean([one.value for one in each]), scale=1)
    assert e.null["untrained"] == e.value  # they are the untrained ones
    spread = result.spread["0.5"]
    assert spread.least == min(one.value for one in each) <= spread.median <= spread.most
    assert "5 of 5" in result.summary()


def test_counts_are_those_of_a_loop():
    recipe = make_recipe("flipflop-1l1h")
    model = Population.init(recipe.config, [3], recipe.grammar)[0]
    result = analyze_glitches(model, laws=(0.7,), reads=100, length=6, seed=4, task_check=False)
    tokens = glitch_strings(recipe.grammar, 0.7, 6, 100, 4)
    wrong = asked = 0
    for row in tokens:
        logits = model(torch.from_numpy(row)[None])[0]
        state = None
        for at, token in enumerate(row):
            state = int(token) - 1 if token else state
            if token == 0:
                asked += 1
                wrong += int(logits[at].argmax()) != state
    assert result.reads["0.7"] == asked
    assert_close(result.errors["0.7"].value, wrong / asked, scale=1)


# -- intervals ----------------------------------------------------------------------------------------------


def test_one_read_a_string_is_clopper_and_pearson():
    wrong = np.array([1] * 7 + [0] * 93)
    found, plain = share_of_reads(wrong, np.ones(100)), clopper_pearson(7, 100)
    assert found.ends == plain.ends


def test_errors_that_come_together_count_for_less():
    asked = np.full(50, 10)
    apart, together = np.zeros(50), np.zeros(50)
    apart[:20] = 1
    together[:2] = 10
    one, other = share_of_reads(apart, asked), share_of_reads(together, asked)
    assert one.value == other.value == 0.04
    assert other.high - other.low > 2 * (one.high - one.low)
    plain = clopper_pearson(2, 50)
    assert (
        abs(other.high - plain.high) < 0.06
    )  # absolute: as if each string were one trial, up to the rounding of counts


def test_strings_without_a_read_say_nothing():
    assert share_of_reads([0, 1], [0, 4]).value == 0.25
    assert share_of_reads([0], [0]).value is None
    whole = share_of_reads([4, 4], [4, 4])
    assert (whole.value, whole.high, whole.low) == (1, 1, clopper_pearson(2, 2).low)


@pytest.mark.slow
def test_the_interval_covers_where_errors_come_in_clumps():
    """8 reads a string, which is lost with probability .05 and then wrong at each with .6, else with .005."""
    rng = np.random.default_rng(0)
    truth = 0.05 * 0.6 + 0.95 * 0.005
    covered = plain = 0
    for _ in range(400):
        rate = np.where(rng.random(300) < 0.05, 0.6, 0.005)
        wrong = rng.binomial(8, rate)
        e, naive = share_of_reads(wrong, np.full(300, 8)), clopper_pearson(int(wrong.sum()), 2400)
        covered += e.low <= truth <= e.high
        plain += naive.low <= truth <= naive.high
    assert covered >= 0.93 * 400
    assert plain < 0.85 * 400


def test_n_is_of_the_trials_that_the_interval_counts():
    asked, together = np.full(50, 10), np.zeros(50)
    together[:2] = 10
    clumped = share_of_reads(together, asked)
    assert clumped.n < 60  # of 500 reads
    assert share_of_reads(np.zeros(50), asked).ends == clopper_pearson(0, 50).ends
    assert share_of_reads(np.zeros(50), asked).n == 50


@pytest.mark.parametrize(("bad", "size"), [(1, 8), (2, 8), (3, 8), (1, 39)])
def test_a_mean_that_few_seeds_carry_has_no_interval(bad, size):
    """Of eight seeds that fail once in ten times an interval over seeds covers in 56 of 100 (docs/intervals.md)."""
    shares = np.r_[np.linspace(0.01, 0.03, bad), np.zeros(size - bad)]
    found = errors_over_seeds(shares)
    assert (found.low, found.high) == (None, None)
    assert_close(found.value, shares.mean(), scale=1)
    share = clopper_pearson(bad, size, over="seeds")
    assert f"{bad} of {size} seeds err (share of all seeds [{share.low:.2f}, {share.high:.2f}])" in found.reason


@pytest.mark.parametrize(("bad", "size"), [(4, 8), (8, 8), (4, 40)])
def test_a_mean_that_many_seeds_carry_has_that_over_seeds(bad, size):
    shares = np.r_[np.linspace(0.01, 0.03, bad), np.zeros(size - bad)]
    assert errors_over_seeds(shares) == mean_over_seeds(shares, support=SHARE)
    assert errors_over_seeds(shares).low is not None


def test_where_one_seed_errs_the_summary_says_so():
    result = analyze_glitches([mute(reader()), *(reader() for _ in range(4))], laws=(0.8,), untrained=False, **QUICK)
    assert result.errors["0.8"].low is None
    assert "no interval: 1 of 5 seeds err" in result.summary()


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"laws": (0.8, 1.2)}, RequestError, r"laws=\(0.8, 1.2\) are no probabilities"),
        ({"laws": ()}, RequestError, "distinct numbers"),
        ({"laws": (0.8, 0.8)}, RequestError, "distinct numbers"),
        ({"reads": 0}, RequestError, "reads=0 is not a whole number of at least 1"),
        ({"length": 7}, AnalysisError, "glitches: length=7 is odd"),
    ],
)
def test_what_cannot_be_asked_is_refused(how, error, said):
    with pytest.raises(error, match=said):
        analyze_glitches(reader(), **how)


@pytest.mark.parametrize("laws", [(0.98, 0.9800000001), (0.1234567, 0.12345674), (1 / 3, 0.333333), (1.0, 1 - 1e-16)])
def test_laws_that_six_digits_do_not_tell_apart_are_two(laws):
    assert f"{laws[0]:g}" == f"{laws[1]:g}"
    result = analyze_glitches(reader(), laws=laws, reads=50, untrained=False)
    assert [float(name) for name in result.errors] == list(laws)
    assert len(result.reads) == len(result.strings) == len(result.spread) == 2
    near = analyze_glitches(reader(), laws=(0.8000000001,), reads=50, untrained=False)
    assert near.trained_on == ("0.8",)
    assert [*near.errors] == ["0.8000000001"]  # not the law of training


@pytest.mark.parametrize("outputs", [4, 6])
def test_other_outputs_than_labels_are_refused_with_both_numbers(outputs):
    grammar = FlipFlopGrammar(length=8)
    config = TransformerConfig(5, d_model=4, d_head=4, d_mlp=4, n_ctx=8, d_vocab_out=outputs)
    for analyze in (analyze_glitches, analyze_drift):
        with pytest.raises(RequestError, match=f"gives {outputs} logits per token, and the grammar needs 5") as caught:
            analyze(SandboxTransformer(config), grammar=grammar, untrained=False)
        assert "\n" not in str(caught.value)


def test_models_of_another_world_and_strings_beyond_learned_positions_are_refused():
    with pytest.raises(AnalysisError, match="is not a grammar of flip-flops: pass models of the world 'flipflop'"):
        analyze_glitches(load_checkpoint("constructed/stack"))
    recipe = make_recipe("flipflop")
    with pytest.raises(AnalysisError, match="inputs of 64 tokens are more than the model's n_ctx=32"):
        analyze_glitches(Population.init(recipe.config, [0], recipe.grammar), length=64)
    idle = FlipFlopGrammar(4)
    assert analyze_glitches(reader(idle), laws=(1.0,), reads=3).reads["1"] >= 3  # the last instruction is a read
