"""The paper's numbers under three ways to train: which interval holds them, on both sides; tables and sentences."""

from dataclasses import replace

import pytest

from case_studies.dyck_attention import families as known
from case_studies.dyck_attention.arms import (
    CLOSERS,
    DROPPED,
    OURS,
    RELEASED,
    Arm,
    arm_parts,
    arms_of,
    covering,
    to_dict,
    told,
)
from case_studies.dyck_attention.origins import measure_origins, origin_parts
from case_studies.dyck_attention.origins import to_dict as origins_to_dict
from case_studies.page import Table
from case_studies.populations import Family
from case_studies.study import Obtained
from interp import train_population
from interp.presets import make_recipe
from interp.stats import Estimate
from interp.worlds.dyck.task import data_source
from probes.variation import PAPER_SENTENCE, OriginsResult

NAME = known.MAIN[0].name
PAPER = known.PAPER_VARIATION[NAME]
TINY = 1e-9


def estimate(low, high):
    return Estimate((low + high) / 2, low, high, 40, "seeds")


def arm(low, high, dropped=(8.0, 9.0), prefixes=None):
    rest = None if prefixes is None else estimate(*prefixes)
    return Arm(Family("a", "dyck-standard"), "d", estimate(low, high), estimate(*dropped), rest, 0.98)


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [
        (PAPER, PAPER + 1, True),
        (PAPER - 1, PAPER, True),
        (PAPER + TINY, PAPER + 1, False),
        (PAPER - 1, PAPER - TINY, False),
    ],
)
def test_a_number_lies_in_an_interval_up_to_its_ends(low, high, inside):
    found = covering(NAME, {OURS: arm(low, high)})
    assert found == ([f"{OURS} (sentence)"] if inside else [])
    assert covering(NAME, {CLOSERS: arm(8, 9, dropped=(low, high))}) == (
        [f"{CLOSERS} (last bracket dropped)"] if inside else []
    )
    assert covering(NAME, {RELEASED: arm(8, 9, prefixes=(low, high))}) == ([f"{RELEASED} (prefixes)"] if inside else [])
    unknown = replace(arm(low, high), sentence=Estimate(PAPER, None, None, 2, "seeds"))
    assert covering(NAME, {OURS: unknown}) == []


def test_the_sentence_says_where_each_number_lies():
    other = known.MAIN[1].name
    inside, outside = {OURS: arm(8, 9), RELEASED: arm(PAPER - 1, PAPER + 1)}, {OURS: arm(8, 9)}
    both = told({NAME: inside, other: outside})
    assert f"within our interval of 2.27 ({NAME}): {RELEASED} (sentence)." in both
    assert f"Within none of them lie 2.20 ({other})." in both
    assert "Within none" not in told({NAME: inside})
    assert told({other: outside}).startswith("Within none of them")


def test_tables_hold_every_way_and_nothing_is_shown_without_another():
    assert arm_parts({NAME: {OURS: arm(1, 2)}}) == []
    prefixes = known.PREFIXES[0].name
    arms = {
        NAME: {OURS: arm(1, 2), CLOSERS: arm(2, 3)},
        prefixes: {OURS: arm(1, 2, prefixes=(5, 6)), RELEASED: arm(3, 4, prefixes=(14, 15))},
    }
    tables = [part for part in arm_parts(arms) if isinstance(part, Table)]
    assert [len(table.rows) for table in tables] == [2, 2, 1, 2]
    assert tables[0].head == ["family", "paper", OURS, CLOSERS, RELEASED]
    found = to_dict(arms)
    assert found[prefixes]["paper"] == 14.51
    assert found[prefixes][RELEASED]["prefixes"]["value"] == 14.5
    assert "prefixes" not in found[NAME][OURS]


def test_families_stand_in_one_order_in_all_three_ways():
    """A row of the table is one family of the paper: positions, embedding and data are those of its name."""
    ours = [*known.MAIN, *known.PREFIXES]
    for other in ([*known.CLOSERS, *known.CLOSERS_PREFIXES], [*known.RELEASED, *known.RELEASED_PREFIXES]):
        for one, two in zip(ours, other, strict=True):
            a, b = one.recipe, two.recipe
            assert b.settings.targets == "closers"
            assert (a.settings.data, a.config.positions == "none") == (b.settings.data, b.config.positions == "none")
            assert (a.config.oracle is None) == (b.config.oracle is None)
            assert ("eq. 15" in one.name) == ("eq. 15" in two.name)
    assert arms_of([], [], []) == {}
    assert DROPPED + ")" == PAPER_SENTENCE


RELEASED_FAMILIES = [*known.RELEASED, *known.RELEASED_PREFIXES, *(cell.released for cell in known.TABLE)]


@pytest.mark.parametrize("family", RELEASED_FAMILIES, ids=lambda family: family.name)
def test_epochs_of_the_released_code_are_whole(family):
    """Forty epochs (twenty of one layer) of 100,000 tokens in batches of 100; the rate moves once an epoch."""
    recipe = family.recipe
    epoch = data_source(recipe).epoch
    assert recipe.settings.hold == epoch
    assert recipe.settings.steps == (20 if recipe.config.n_layers == 1 else 40) * epoch
    assert (recipe.settings.batch, recipe.settings.corpus, recipe.settings.schedule) == (100, 100_000, "cosine")
    assert recipe.config.norm_added == ("released code" in family.name and "k=" in family.name)


def test_crossed_families_read_what_the_main_ones_do():
    for one, crossed in zip(known.MAIN, known.crossed(8), strict=True):
        own = replace(crossed.recipe.settings, crossed=0)
        assert own == one.recipe.settings
        assert crossed.recipe.config == one.recipe.config
        assert crossed.recipe.settings.origins(63) == (7, 7)


def test_the_released_preset_is_what_its_name_says():
    config = make_recipe("dyck-authors").config
    assert (config.block, config.embedding, config.init_std, config.unembed_bias) == ("authors", "onehot", 0.02, False)


# -- first weights or data -----------------------------------------------------------------------------------


def shares(weights, data, both):
    whole = Estimate(2.0, 1.0, 3.0, 8, "seeds", {"untrained": 1.0})
    each = [(Estimate(mid, mid - half, mid + half, 8, "seeds"),) for mid, half in (weights, data, both)]
    return OriginsResult((whole,), *each, ({},), 8, (1,), 1, 17)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (((0.6, 0.1), (0.2, 0.1), (0.2, 0.1)), "is that of first weights: more than either of the others."),
        (((0.2, 0.1), (0.6, 0.1), (0.2, 0.1)), "is that of the order of data: more than either of the others."),
        (((0.3, 0.1), (0.2, 0.1), (0.5, 0.1)), "is that of which weights meet which data: not separated"),
    ],
)
def test_the_largest_share_is_named_and_how_sure_that_is(given, told):
    family = known.crossed(8)[0]
    table, sentence = origin_parts([(family, "d", shares(*given))])[1:]
    assert told in sentence
    assert len(table.rows) == 1
    found = origins_to_dict([(family, "d", shares(*given))])[family.name]
    assert found["shares"][0]["data"]["value"] == given[1][0]


def test_crossed_models_are_split_where_all_are_there(tmp_path):
    """Three first weights by three data; two seeds, which a run may ask for, are no grid."""
    family = replace(known.crossed(3)[2], steps=2, batch=4)
    whole, part = (Obtained(family, train_population(family.recipe, n, workers=1), "d") for n in (9, 2))
    ((named, digest, result),) = measure_origins([whole, part])
    assert (named, digest, result.levels) == (family, "d", 3)
    assert origin_parts([]) == []
    assert measure_origins([part]) == []
