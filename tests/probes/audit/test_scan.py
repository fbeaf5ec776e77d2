"""Scans of heads whose truth is known: two scales kept apart, what matters, what is corrected, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import probes
from closeness import assert_close
from interp import load_checkpoint
from interp.cli import main
from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.stats import clopper_pearson
from probes.audit.inputs import make_inputs
from probes.audit.model import Subject
from probes.audit.pattern import Laid
from probes.audit.scanner import _families
from probes.audit.tasks import task_for
from probes.audit.whole import whole_interchange
from probes.claims import BUILT_IN, Claim, Relation, offset
from toys import EVEN, GRAMMAR, TOP, TYPE, Toy, clip, onto


def scan_heads(model, *args, **how):
    return probes.scan_heads(model, *args, task_check=False, **how)


def heads_of(scan):
    return {(one.layer, one.head): one for one in scan.heads}


@pytest.fixture(scope="module")
def toy():
    """Of layer 0: a head on the stack top that answers, one that is even, one on earlier copies that nobody reads."""
    copies = onto("earlier-copies")
    return Toy([[(TOP, TYPE), (EVEN, TYPE), (copies, TYPE), (onto(offset(-3)), TYPE)]], lambda a: clip(a[..., 0]))


@pytest.fixture(scope="module")
def scan(toy):
    return scan_heads(toy)


def test_an_induction_head_beside_an_even_head_is_found_by_its_weight():
    model = Toy([[(onto("induction"), TYPE), (EVEN, TYPE)]], lambda a: 0 * a[..., 0])
    found = heads_of(scan_heads(model))
    assert (found[0, 0].mass.relation, found[0, 0].mass.pattern) == ("induction", "holds")
    assert found[0, 0].even.pattern == "fails"
    assert (found[0, 1].even.relation, found[0, 1].even.pattern) == ("all", "holds")
    assert found[0, 1].mass.pattern == "fails"


def test_the_best_relation_is_the_narrowest_and_the_next_is_not_nested_in_it(scan):
    best = heads_of(scan)
    assert [best[0, h].mass.relation for h in (0, 2, 3)] == ["stack-top", "earlier-copies", "offset-3"]
    scores = {fit.relation: fit.score.value for fit in scan.fits if fit.head == 0}
    wider = [name for name in ("openers", "unmatched") if scores[name] > 0.9]
    assert wider  # all weight on the stack top is all weight on any set that holds it
    assert best[0, 0].runner_up.relation not in (*wider, "stack-top")
    assert {fit.relation for fit in scan.fits} & {"next", "following"} == set()  # nothing lies ahead in causal inputs


def test_two_kinds_never_share_a_column(scan):
    for one in scan.heads:
        assert (one.mass.kind, one.runner_up.kind, one.even.kind) == ("mass", "mass", "even")
    kinds = {fit.relation: fit.kind for fit in scan.fits}
    assert all((kinds[r.name] == "even") == (r.kind == "even") for r in BUILT_IN.values() if r.name in kinds)
    panels = scan.figure().data
    relations = [sum(kind == column for kind in kinds.values()) for column in ("mass", "even")]
    assert [len(panel.z) for panel in panels] == [*relations, 1]


def test_an_idle_head_is_not_moved_and_one_that_answers_is_used(scan):
    matters = {head: one.matters for (_, head), one in heads_of(scan).items()}
    assert [matters[head].word for head in range(4)] == ["used", "not moved", "not moved", "not moved"]
    assert matters[0].share.low > 0.5
    assert matters[2].share.value == 0


def test_the_interchange_gives_the_head_what_it_gives_for_the_donor(toy):
    inputs = make_inputs(toy, GRAMMAR, None, 200, 26, 0)
    task = task_for(GRAMMAR, None)
    rows = np.zeros(inputs.tokens.shape, dtype=bool)
    rows[inputs.half_b] = True
    items = task.items(inputs.tokens, GRAMMAR, rows, 0)
    margins = []
    for tokens in (items.tokens, items.donors):
        logits = toy(torch.from_numpy(tokens)).numpy()[np.arange(len(items)), items.read]
        margins.append(np.take_along_axis(logits, np.stack([items.answer, items.foil], 1), 1) @ [1, -1])
    found = whole_interchange(toy, [(0, 0)], inputs, task, 0.95, 0)[0, 0]
    # The one head that is read: with its z exchanged, the run is the donor's.
    assert_close(found.share.value, (margins[0] - margins[1]).sum() / margins[0].sum(), scale=1.0)


def test_a_model_that_does_not_do_the_task_leaves_it_open():
    mute = Toy([[(TOP, TYPE), (EVEN, TYPE)]], lambda a: 0 * a[..., 0])
    (one, _) = scan_heads(mute, ["stack-top"]).heads
    assert one.matters.word == "open"
    assert "does not do the task" in one.matters.kinds[0].why


def test_without_a_task_nothing_is_said_to_matter():
    config = TransformerConfig(7, 1, pad_token=6, num_types=2, max_depth=4, direction="bidirectional")
    scan = scan_heads(SandboxTransformer.init(config, 0, GRAMMAR), num_inputs=120)
    assert {one.matters for one in scan.heads} == {scan.effect_level} == {None}
    assert {"following", "next"} <= {fit.relation for fit in scan.fits}  # what a causal model cannot see
    assert "no task of this model is known" in " ".join(scan.summary().split())


def test_the_level_is_that_of_all_pairs(toy, scan):
    assert len(scan.fits) == scan.num_heads * scan.num_relations
    assert_close(1 - scan.level, 0.05 / len(scan.fits), scale=0.05)
    assert_close(1 - scan.effect_level, 0.05 / scan.num_heads, scale=0.05)
    few = scan_heads(toy, ["stack-top", "previous"])
    assert_close(1 - few.level, 0.05 / 8, scale=0.05)
    wide, narrow = (next(f for f in s.fits if f.relation == "previous" and f.head == 2) for s in (scan, few))
    assert wide.score.value == narrow.score.value
    assert wide.score.high - wide.score.low > narrow.score.high - narrow.score.low
    assert wide.p_value >= narrow.p_value


@pytest.mark.slow
def test_scores_and_words_are_those_of_audits_of_all_pairs(toy):
    relations = ["stack-top", "previous", "earlier-copies", "all"]
    scan = scan_heads(toy, relations)
    claims = [Claim([(0, head)], relation) for head in range(4) for relation in relations]
    audits = probes.audit_claims(toy, claims, task_check=False)
    for fit, audit in zip(scan.fits, audits, strict=True):
        row = next(row for row in audit.evidence if row["name"] == "score")
        assert fit.score.value == row["value"]
        assert fit.pattern in (None, audit.pattern)
    assert sum(fit.pattern is not None for fit in scan.fits) == 8  # the best of each kind


def test_a_family_is_scored_as_its_relations_are():
    model = SandboxTransformer.init(TransformerConfig(7, pad_token=6, num_types=2, max_depth=4), 0, DyckGrammar(2, 4))
    laid = Laid(make_inputs(model, model.grammar, None, 200, 26, 0))
    head = Subject(model, laid).heads[0, 0]
    for family in _families(laid, list(BUILT_IN.values())):
        for one in family[::4]:
            asked = laid.asked(Claim([(0, 0)], one.relation))
            assert np.array_equal(asked.rows, one.rows)
            assert_close(one.on_a(head), head.score_on_a(asked), scale=1.0)


def test_of_a_population_layers_are_told_and_no_head_by_its_number():
    population = load_checkpoint("dyck-minimal")[:4]
    scan = scan_heads(population, ["stack-top", "previous", "all", "unmatched"])
    assert (scan.num_models, {one.seed for one in scan.heads}) == (4, set(population.seeds))
    assert len(scan.fits) == 4 * scan.num_heads * 4
    for one in scan.layers:
        held = {f.seed for f in scan.fits if f.best_of_layer and f.pattern == "holds" and f.layer == one.layer
                and f.relation == one.relation}  # fmt: skip
        exact = clopper_pearson(len(held), 4, over="seeds", level=scan.share_level)
        assert one.level == scan.share_level
        assert one.share == exact
        assert one.used.value <= one.share.value
    # What the summary says is what it is corrected for: each relation that is asked, in each layer, in both columns.
    layers, columns = len({one.layer for one in scan.heads}), 2
    assert_close(1 - scan.share_level, 0.05 / (layers * 4 * columns), scale=0.05)
    assert f"corrected for {layers} layer{'s' * (layers > 1)} x 4 relations x 2 columns" in " ".join(
        scan.summary().split()
    )
    assert "Holm" not in scan.summary()  # it prints no p-value
    assert "L0H0" not in scan.summary()
    assert max(map(len, scan.summary().splitlines())) <= 80
    json.dumps(scan.to_dict(), allow_nan=False)
    scan.figure().to_json()


def test_of_one_distance_among_many_a_share_is_corrected_for_them_too():
    """A family has the part of one relation, and its members share it: together they are no more than was asked."""
    models = [Toy([[(onto(offset(-3)), TYPE), (TOP, TYPE)]], lambda a: clip(a[..., 1])) for _ in range(3)]
    model, scan = models[0], scan_heads(models, num_inputs=120)
    assert scan.num_relations < 40
    at = {one.relation: one for one in scan.layers}
    assert at["stack-top"].level == scan.share_level
    inputs = make_inputs(model, GRAMMAR, None, 120, 26, 0)
    sizes = {one.relation.name: len(f) for f in _families(Laid(inputs), list(BUILT_IN.values())) for one in f}
    alone = 0.05 / (scan.num_relations * 2)
    assert_close(1 - at["offset-3"].level, alone / sizes["offset-3"], scale=alone)
    assert at["offset-3"].share == clopper_pearson(3, 3, over="seeds", level=at["offset-3"].level)
    assert "% of one distance or position)" in " ".join(scan.summary().split())


def test_of_a_population_it_is_told_what_matters_and_where_a_relation_may_hold():
    """No head attends to the fact everywhere; when the answer is asked they do, and all of them are used."""
    scan = scan_heads(load_checkpoint("facts")[:2], ["fact", "subject"], num_inputs=200)
    told = " ".join(scan.summary().split())
    assert "no seed's best head is shown to have any of them" in told
    assert "some head is used in 2 of 2 seeds; in the median seed 4 of 4 are" in told
    assert "the subject and the relation, when the answer is asked: may hold in" in told
    assert {fit.when for fit in scan.fits if fit.relation == "fact"} == {"", "the answer is asked"}


def test_a_summary_has_a_line_a_head_of_80_columns(scan):
    lines = scan.summary().splitlines()
    assert max(map(len, lines)) <= 80
    for one in scan.heads:
        (line,) = [line for line in lines if line.startswith(f"  L{one.layer}H{one.head} ")]
        assert one.mass.relation[:11] in line
        assert line.endswith(one.matters.word)
    below = replace(scan.heads[0].mass.score, value=-0.5, low=-0.6, high=-0.4)
    heads = [replace(one, mass=replace(one.mass, relation="x" * 40, score=below)) for one in scan.heads]
    long = replace(scan, heads=tuple(heads))
    assert max(map(len, long.summary().splitlines())) <= 80


def test_what_a_scan_refuses(toy):
    nowhere = Relation("nowhere", "no token", "mass", "tokens", lambda tokens, grammar, seen: np.zeros_like(seen))
    with pytest.raises(RequestError, match="names none"):
        scan_heads(toy, [])
    with pytest.raises(RequestError, match="relation 'stark-top' is not understood"):
        scan_heads(toy, ["stark-top"])
    with pytest.raises(RequestError, match=r"conditions=.* changes nothing"):
        scan_heads(toy, ["previous"], conditions=[1])
    found = scan_heads(toy, [nowhere], num_inputs=120)
    assert found.fits[0].score.value is None
    assert "no input has a row that counts" in found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("names", [["markov"], ["flipflop-1l1h"], ["constructed/stack"]], ids=str)
def test_the_command_scans_what_is_shipped(names, tmp_path, capsys):
    table, page = tmp_path / "scan.json", tmp_path / "scan.html"
    assert main(["scan", *names, "--num-inputs", "120", "--json", str(table), "--figure", str(page)]) == 0
    told, data = capsys.readouterr().out, json.loads(table.read_text())
    assert "Every head against every relation" in told
    assert max(map(len, told.splitlines())) <= 80
    assert len(data["fits"]) == data["num_models"] * data["num_heads"] * data["num_relations"]
    assert all({"value", "low", "high", "n"} <= set(fit["score"]) for fit in data["fits"])
    assert len(data["models"]) == data["num_models"]
    assert {one["seed"] for one in data["models"]} == {fit["seed"] for fit in data["fits"]}
    assert page.stat().st_size > 1000


@pytest.mark.slow
def test_several_checkpoints_are_scanned_together(tmp_path, capsys):
    from interp.checkpoints import save_checkpoint

    files = []
    for at in range(2):
        files.append(str(tmp_path / f"{at}.safetensors"))
        save_checkpoint(load_checkpoint("dyck-minimal")[at], files[-1])
    table = tmp_path / "scan.json"
    command = ["scan", *files, "--relation", "previous", "--relation", "stack-top", "--num-inputs", "120"]
    assert main([*command, "--json", str(table)]) == 0
    data = json.loads(table.read_text())
    assert [(one["seed"], one["checkpoint"]) for one in data["models"]] == list(enumerate(files))
    assert "2 models" in capsys.readouterr().out
