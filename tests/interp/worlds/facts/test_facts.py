"""Facts: law, table and truth by hand, pairs of both kinds, the model written by hand, linear attention's theorem."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import get_world, load_checkpoint, train_population
from interp.errors import ConfigError, GrammarError, RequestError
from interp.functional import stacked_logits
from interp.grammars import grammar_from_dict
from interp.patterns import attention_patterns
from interp.population import Population
from interp.presets import make_recipe
from interp.recipe import Recipe
from interp.rng import generator
from interp.worlds.facts import FactsGrammar
from interp.worlds.facts.claims import BOTH, SUBJECT_FIRST, SUBJECT_LATER, THE_NOISE, THE_RELATION, THE_SUBJECT, Fact
from interp.worlds.facts.constructed import construct, lookup
from interp.worlds.facts.task import KEYS, VALUES

GRAMMAR = FactsGrammar(subjects=3, relations=2, answers=2, noise=2, length=5)
S0, S1, S2, R0, R1, N0, N1, END = range(8)


# -- the table ----------------------------------------------------------------------------------------------


def test_every_fact_lies_in_its_block():
    grammar = FactsGrammar()
    assert grammar.table.shape == (16, 4)
    assert (grammar.table // 8 == np.arange(4)).all()
    assert grammar.blocks.sum() == 32
    assert grammar.blocks[2].nonzero()[0].tolist() == list(range(16, 24))


def test_tables_are_those_of_their_seeds():
    assert (FactsGrammar(table_seed=3).table == FactsGrammar(table_seed=3).table).all()
    assert (FactsGrammar(table_seed=3).table != FactsGrammar(table_seed=4).table).any()
    with pytest.raises(ValueError, match="read-only"):
        GRAMMAR.table[0, 0] = 1


def test_the_table_is_written_into_files_and_another_one_is_refused():
    data = json.loads(json.dumps(GRAMMAR.to_dict()))
    assert data["table"] == GRAMMAR.table.tolist()
    assert grammar_from_dict(data) == GRAMMAR
    data["table"][0][0] = 1 - data["table"][0][0]
    with pytest.raises(GrammarError, match=r"table=\[\[.*table_seed=0 draws"):
        FactsGrammar.from_dict(data)


def test_chances_count_subjects():
    for r in range(2):
        for a in range(4):
            assert GRAMMAR.chances[r, a] == sum(GRAMMAR.table[s, r] == a for s in range(3)) / 3


def test_facts_are_told_by_name():
    grammar = FactsGrammar()
    assert grammar.answer("s5", "r2") == grammar.label_names[grammar.table[5, 2]]
    assert grammar.answer("s5", "r2").startswith("a2.")


@pytest.mark.parametrize("fact", [("s16", "r0"), ("s0", "r4"), ("r0", "s0"), ("n0", "r0"), ("s0", None)])
def test_what_is_no_fact_of_the_table_is_quoted(fact):
    with pytest.raises(
        GrammarError, match=f"{fact[0]!r}, {fact[1]!r}.* is not a fact of the table: it has subjects s0"
    ):
        FactsGrammar().answer(*fact)


# -- law and truth ------------------------------------------------------------------------------------------


def test_labels_by_hand():
    rows = np.array([[N0, S1, N1, R0, END], [R1, N0, N0, S2, END]])
    assert GRAMMAR.labels(rows).tolist() == [[-100] * 4 + [GRAMMAR.table[1, 0]], [-100] * 4 + [GRAMMAR.table[2, 1]]]


def test_texts_are_read_as_they_are_written():
    text = "n0 s1 n1 r0 END"
    assert GRAMMAR.to_tokens(text).tolist() == [[N0, S1, N1, R0, END]]
    assert GRAMMAR.format([N0, S1, N1, R0, END]) == text
    assert FactsGrammar().to_tokens("s10 r1 END").tolist() == [[10, 17, 40]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s0 s1 n0 r0 END", "2 subjects"),
        ("s0 n1 n0 n0 END", "0 relations"),
        ("s0 r1 r0 n0 END", "2 relations"),
        ("s0 n1 n0 r0 n0", "END stands last"),
        ("s0 END n0 r0 END", "END stands last and nowhere else"),
        ("", "0 subjects"),
    ],
)
def test_strings_that_violate_the_law_are_quoted(text, said):
    with pytest.raises(GrammarError, match=f"{text!r} is not a string of this law.*{said}") as caught:
        GRAMMAR.to_tokens([text])
    assert "\n" not in str(caught.value)
    if text:
        ids = [GRAMMAR.vocab.index(name) for name in text.split()]
        for method in (GRAMMAR.labels, GRAMMAR.law_nll, GRAMMAR.check_inputs):
            with pytest.raises(GrammarError, match=rf"\[{ids[0]}, {ids[1]}.*{said}"):
                method(np.array([[N0, S1, N1, R0, END], ids]))


def test_a_subject_that_the_table_has_not_is_quoted():
    with pytest.raises(GrammarError, match="'s3 r0 END' position 0: no token fits 's3"):
        GRAMMAR.to_tokens("s3 r0 END")


def test_draws_have_one_of_each_at_even_places():
    tokens = FactsGrammar().draw(np.random.default_rng(0), 20_000)
    kinds = FactsGrammar().kinds(tokens)
    assert ((kinds == 0).sum(1) == 1).all()
    assert ((kinds == 1).sum(1) == 1).all()
    assert (kinds[:, -1] == 3).all()
    for kind in (0, 1):
        share = (kinds[:, :-1] == kind).mean(0)
        assert np.abs(share - 1 / 31).max() < 6 * np.sqrt(1 / 31 / 20_000)
    first = (kinds == 0).argmax(1) < (kinds == 1).argmax(1)
    assert abs(first.mean() - 0.5) < 6 * 0.5 / np.sqrt(20_000)


def test_what_is_listed_is_everything():
    tokens, chances = GRAMMAR.enumerate()
    assert len(np.unique(tokens, axis=0)) == len(tokens) == 4 * 3 * 3 * 2 * 2**2
    assert_close(chances.sum(), 1.0)
    drawn = {tuple(row) for row in GRAMMAR.draw(np.random.default_rng(0), 5000).tolist()}
    assert drawn == {tuple(row) for row in tokens.tolist()}
    with pytest.raises(GrammarError, match="too many"):
        FactsGrammar().enumerate()


def test_rungs_by_hand():
    row = np.array([[N0, S1, N1, R0, END]])
    told = GRAMMAR.predictions(row)
    answer = GRAMMAR.table[1, 0]
    nats = {name: float(found[0, -1]) for name, found in GRAMMAR.rungs(row).items()}
    assert_close(nats["uniform"], np.log(4))
    assert_close(nats["subject"], np.log(2))  # one of two relations; blocks share no answer
    assert_close(nats["relation"], -np.log(np.mean([GRAMMAR.table[s, 0] == answer for s in range(3)])))
    assert told["fact"][0].tolist() == [float(a == answer) for a in range(4)]
    for one in told.values():
        assert_close(one.sum(), 1.0)


def test_relations_read_what_stands_before():
    row = np.array([[S0, N0, R1, N1, END]])
    visible = np.tri(5, dtype=bool)[None]

    def keys(relation):
        return [np.flatnonzero(query).tolist() for query in relation.keys(row, GRAMMAR, visible)[0]]

    assert keys(THE_SUBJECT) == [[0]] * 5
    assert keys(THE_RELATION) == [[], [], [2], [2], [2]]
    assert keys(BOTH) == [[0], [0], [0, 2], [0, 2], [0, 2]]
    assert keys(THE_NOISE) == [[], [1], [1], [1, 3], [1, 3]]
    empty = np.zeros((1, 5, 5), bool)
    assert SUBJECT_FIRST.rows(row, GRAMMAR, empty).tolist() == [[False, False, True, True, True]]
    assert not SUBJECT_LATER.rows(row, GRAMMAR, empty).any()


def test_relations_of_another_world_are_refused():
    with pytest.raises(RequestError, match="is not a grammar of facts"):
        THE_SUBJECT.keys(np.zeros((1, 2), int), None, np.ones((1, 2, 2), bool))


@pytest.mark.parametrize("bad", [{"subjects": 1}, {"relations": 1.5}, {"answers": 1}, {"noise": 0}, {"length": 2}])
def test_parameters_outside_their_range_are_quoted(bad):
    (name, value), *_ = bad.items()
    with pytest.raises(GrammarError, match=f"{name}={value}"):
        FactsGrammar(**bad)


def test_too_many_answers_are_refused():
    with pytest.raises(GrammarError, match="relations=200, answers=100 have 20000 answers together"):
        FactsGrammar(relations=200, answers=100)


# -- pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Fact.kinds)
def test_pairs_move_the_label_from_answer_to_foil(kind):
    grammar = FactsGrammar()
    tokens = grammar.draw(np.random.default_rng(0), 400)
    items = Fact().items(tokens, grammar, np.ones(tokens.shape, bool), 0, kind=kind)
    assert len(items) == 400
    assert (grammar.labels(items.tokens)[:, -1] == items.answer).all()
    assert (grammar.labels(items.donors)[:, -1] == items.foil).all()
    assert ((items.tokens != items.donors).sum(1) == 1).all()
    one, other = grammar.facts(items.tokens), grammar.facts(items.donors)
    assert [(a == b).all() for a, b in zip(one, other, strict=True)] == [kind == "relation", kind == "subject"]
    blocks = items.answer // 8 == items.foil // 8
    assert blocks.all() if kind == "subject" else not blocks.any()
    with pytest.raises(RequestError, match="'other' is none of subject, relation"):
        Fact().items(tokens, grammar, np.ones(tokens.shape, bool), 0, kind="other")


def test_a_relation_with_one_answer_has_no_pair_of_subjects():
    same = next(g for g in (replace(GRAMMAR, table_seed=s) for s in range(100)) if len(set(g.table[:, 0])) == 1)
    tokens = np.array([[N0, S1, N1, R0, END]])
    rows = np.ones(tokens.shape, bool)
    assert len(Fact().items(tokens, same, rows, 0, kind="subject")) == 0
    assert len(Fact().items(tokens, same, rows, 0, kind="relation")) == 1


# -- the model written by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grammar", [GRAMMAR, FactsGrammar(), FactsGrammar(50, 7, 5, 3, 200, 9)], ids=["small", "usual", "long"]
)
def test_the_constructed_model_is_exact_on_every_fact(grammar):
    tokens = grammar.enumerate()[0] if grammar is GRAMMAR else every_fact(grammar)
    model, labels = lookup(grammar), grammar.labels(tokens)[:, -1]
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens))[:, -1].double().numpy()
    each = np.arange(len(tokens))
    subject, relation = grammar.facts(tokens)
    half = grammar.blocks[relation] | (np.eye(grammar.outputs)[grammar.table].sum(1)[subject] > 0)
    expected = np.where(half, 30.0, 0.0)
    expected[each, labels] = 60.0
    assert_close(logits, expected, dtype=torch.float32, scale=60.0)
    pattern = attention_patterns(model, torch.from_numpy(tokens))[0][:, :, -1]
    for head in (0, 1):
        assert_close(pattern[each, head, grammar.seen(tokens, head)[:, -1]], 1.0, dtype=torch.float32)


def every_fact(grammar):
    """Each fact twice, the subject at the far end once and the relation once."""
    rows = grammar.draw(np.random.default_rng(1), 2 * grammar.subjects * grammar.relations)
    noise = grammar.first_noise + np.random.default_rng(2).integers(0, grammar.noise, rows.shape)
    noise[:, -1] = grammar.end
    facts = [(s, grammar.subjects + r) for s in range(grammar.subjects) for r in range(grammar.relations)]
    for row, (s, r) in zip(noise, facts * 2, strict=True):
        row[0], row[-2] = s, r
    noise[len(facts) :, [0, -2]] = noise[len(facts) :, [-2, 0]]
    return noise


def test_the_constructed_model_is_found_by_its_name():
    assert load_checkpoint("constructed/facts").grammar == FactsGrammar()
    with pytest.raises(RequestError, match="constructed/other"):
        construct("constructed/other")


# -- training -----------------------------------------------------------------------------------------------


def with_changes(name, **changes):
    recipe = make_recipe(name)
    return Recipe(recipe.name, recipe.grammar, replace(recipe.config, **changes), recipe.settings)


def test_models_that_are_not_causal_are_refused():
    with pytest.raises(ConfigError, match="direction='bidirectional'"):
        with_changes("facts", direction="bidirectional")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention": "learned"}, "attention='learned': start='slides' needs 'linear'"),
        ({"biases": True}, "biases=True: start='slides' needs False"),
        ({"scale_scores": True}, "scale_scores=True: start='slides' needs False"),
    ],
)
def test_the_slides_first_weights_are_refused_to_other_models(changes, said):
    with pytest.raises(ConfigError, match=said):
        with_changes("facts-linear", **changes)


def test_decay_of_the_frozen_query_is_refused():
    with pytest.raises(ConfigError, match=r"weight_decay=0\.1"):
        make_recipe("facts-linear", {"weight_decay": 0.1})


def test_alpha_is_of_the_slides_start():
    with pytest.raises(RequestError, match=r"alpha=0\.1 changes nothing here"):
        make_recipe("facts", {"alpha": 0.1})
    with pytest.raises(RequestError, match=r"init_std=0\.1 changes nothing here"):
        make_recipe("facts-linear", {"init_std": 0.1})


def test_the_slides_start_is_alpha_everywhere_and_two_maps_learn():
    trained = train_population(make_recipe("facts-linear", {"alpha": 0.25}, steps=3, snapshots=(0,)), 2, workers=1)
    first, last = trained.snapshots[0], trained.params
    assert (first[VALUES] == 0.25).all()
    assert (first[KEYS][..., 0] == 0.25).all()
    assert not first[KEYS][..., 1:].any()
    query = "blocks.0.attn.W_Q"
    assert torch.equal(first[query], last[query])
    assert not last[KEYS][..., 1:].any()
    assert (first[VALUES] != last[VALUES]).any()


def test_a_step_of_the_linear_model_is_that_of_the_formula():
    """One step of SGD against the gradient of log softmax(sum_i w_KQ(z_i) W_OV(., z_i)), by hand in float64."""
    recipe = make_recipe("facts-linear", {"alpha": 0.3, "lr": 0.5}, steps=1, batch=7, snapshots=(0,))
    trained = train_population(recipe, 1, workers=1)
    grammar = recipe.grammar
    tokens = grammar.draw(generator(0, "train", 0), 7)
    labels = grammar.labels(tokens)[:, -1]
    w = np.full(grammar.vocab_size, 0.3)
    ov = np.full((grammar.vocab_size, grammar.outputs), 0.3)
    dw, dov = np.zeros_like(w), np.zeros_like(ov)
    for row, label in zip(tokens, labels, strict=True):
        logits = sum(w[z] * ov[z] for z in row)
        gap = np.eye(grammar.outputs)[label] - np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        for z in row:
            dov[z] += w[z] * gap / 7
            dw[z] += ov[z] @ gap / 7
    found = trained.params
    assert_close(found[KEYS][0, 0, :, 0].numpy(), w + 0.5 * dw, dtype=torch.float32)
    assert_close(found[VALUES][0, 0].numpy(), ov + 0.5 * dov, dtype=torch.float32, ulps=64)


@pytest.mark.parametrize("name", ["facts", "facts-linear"])
def test_distances_to_rungs_are_those_of_predictions(name):
    trained = train_population(make_recipe(name, steps=3), 1, workers=1)
    row, grammar = trained.final_metrics()[0], trained.grammar
    tokens = grammar.draw(generator(0, "facts/predictions"), 400)
    with torch.no_grad():
        nats = -trained[0](torch.from_numpy(tokens))[:, -1].double().log_softmax(-1).numpy()
    for rung, told in grammar.predictions(tokens).items():
        parts = np.where(told > 0, told * (np.log(np.where(told > 0, told, 1.0)) + nats), 0.0)
        by_hand = [part.sum() for part in parts]
        assert_close(row[f"kl/{rung}"], np.mean(by_hand), dtype=torch.float32, scale=10)
    inside = nats.argmin(1) // grammar.answers == grammar.facts(tokens)[1]
    assert_close(row["accuracy_block"], inside.mean())


def test_frozen_embeddings_stay_as_they_were_drawn():
    trained = train_population(
        make_recipe("facts", {"trained": "maps"}, steps=2, snapshots=(0,)), 1, workers=1
    )  # fmt: skip
    changed = {name for name, p in trained.params.items() if not torch.equal(p, trained.snapshots[0][name])}
    assert "blocks.0.attn.W_V" in changed
    assert not {name for name in changed if name.startswith(("embed", "unembed"))}
    with pytest.raises(ConfigError, match="leaves alone"):
        make_recipe("facts", {"trained": "maps", "weight_decay": 0.1})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["facts", "facts-attention", "facts-linear"])
def test_presets_learn_every_fact(name):
    trained = train_population(name, 2, workers=1)
    assert all(row["accuracy"] > 0.99 for row in trained.final_metrics())
    grammar = trained.grammar
    tokens = every_fact(grammar)
    template = trained[0]
    with torch.no_grad():
        logits = stacked_logits(template, trained.params, torch.from_numpy(tokens))[:, :, -1]
    assert ((logits.argmax(-1).numpy() == grammar.labels(tokens)[:, -1]).mean(1) > 0.97).all()


def test_untrained_models_are_made():
    recipe = make_recipe("facts")
    assert len(Population.init(recipe.config, [0, 1], recipe.grammar)) == 2


def test_the_shown_sentence_is_of_the_grammar():
    world = get_world("facts")
    assert world.sentence(FactsGrammar()) is not None
    assert world.sentence(GRAMMAR) is None
