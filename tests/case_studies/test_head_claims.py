"""The study on two barely trained seeds and on constructed models: what it counts is what the audits say."""

import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from case_studies.head_claims import audits, sensitivity, study
from case_studies.head_claims.audits import audit_group, of_seeds, restored, tally
from case_studies.head_claims.encoder import FEWEST, LENGTHS, Scan, Vocabulary, paragraphs
from case_studies.head_claims.encoder import scan as scan_encoder
from case_studies.head_claims.figures import scan_grid, verdict_bars
from case_studies.head_claims.groups import COPY_ONE, GROUPS, Models, primary_claims, quick_groups, statements_of
from case_studies.head_claims.moved import Job, audits_of, replace_thresholds
from case_studies.head_claims.report import Findings, report
from case_studies.head_claims.said import DYCK, ENCODER, LAST_EVEN, SOURCES, STACK, VERDICTS, copying, of_options
from case_studies.head_claims.sensitivity import AS_EVER, QUICK_SETTINGS, SETTINGS, Said, Setting, compared
from case_studies.head_claims.study import QUICK, STUDY, populations, run
from case_studies.head_claims.tables import sensitivity_parts
from case_studies.page import render
from case_studies.study import Obtained, Run, Wanted
from case_studies.topics_wikipedia.corpus import Document
from interp import DyckGrammar, load_checkpoint
from interp.errors import AnalysisError, InterpError, RequestError
from interp.stats import clopper_pearson
from intervals import INTERVAL, unnamed_of_page
from probes import audit_claim, audit_claims
from probes.audit import EVEN, MOST_SEEDS, binomial
from probes.claims import BUILT_IN, Claim

NAMED = {g.name: g for g in GROUPS}
CONTROLS = [g for g in GROUPS if g.kind == "control"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    groups = [NAMED["constructed/stack"], NAMED["constructed/constant"], NAMED[COPY_ONE.name]]
    run(out, seeds=2, steps=2, workers=1, groups=groups, encoder=False)
    return out


@pytest.mark.slow
def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


@pytest.mark.parametrize("group", CONTROLS, ids=lambda g: g.name)
@pytest.mark.slow
def test_what_is_known_by_construction_is_found(group, tmp_path):
    audited = audit_group(group, group.constructed(), tmp_path)
    assert {name: audited.tallies[name].population for name, _ in group.known} == dict(group.known)


@pytest.mark.slow
def test_counts_are_those_of_the_seeds(folder):
    results = json.loads((folder / "results.json").read_text())["groups"][COPY_ONE.name]
    for statement in results["statements"].values():
        counts = Counter(statement["seeds"])
        assert {v: statement[v]["count"] for v in VERDICTS} == {v: counts[v[0]] for v in VERDICTS}
        assert statement["n"] == 2
        for verdict in VERDICTS:
            assert statement[verdict]["low"] <= statement[verdict]["count"] / 2 <= statement[verdict]["high"]


@pytest.mark.slow
def test_the_page_names_every_group_and_its_command(folder):
    page = (folder / "index.html").read_text()
    assert "constructed/constant" in page
    assert f"interp report head-claims --quick --out {folder}" in page
    assert "Rebuild this page" in page
    (row,) = re.findall(rf'<tr><th scope="row"[^>]*>{COPY_ONE.name}</th>(.*dyck-copy.*)</tr>', page)
    assert re.findall(r"<td[^>]*>([^<]*)</td>", row)[2:4] == ["2", "2"]  # steps and seeds, as asked
    for statement in copying(DyckGrammar()):
        assert (statement.words in page) == statement.primary


@pytest.mark.slow
def test_running_again_audits_nothing_and_gives_the_same_bytes(folder, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in ("index.html", "results.json")}

    def fail(*given, **how):
        raise AssertionError("audited again")

    monkeypatch.setattr(audits, "audit_claims", fail)
    groups = [NAMED["constructed/stack"], NAMED["constructed/constant"], NAMED[COPY_ONE.name]]
    run(folder, seeds=2, steps=2, workers=1, groups=groups, encoder=False)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_another_auditor_or_other_inputs_are_not_served_from_the_file(tmp_path, monkeypatch):
    model = load_checkpoint("constructed/uniform")
    claims = [Claim([(1, 0)], "all")]
    calls = []

    def count(*given, **how):
        calls.append(given)
        return audit_claims(*given, **how)

    monkeypatch.setattr(audits, "audit_claims", count)
    tokens = model.grammar.to_tokens(model.grammar.sample(60, mode="prefix", length=10, seed=0))
    for inputs in (tokens, tokens, tokens[:50]):
        audits.kept("x", Models(model, "same"), claims, tmp_path, inputs, grammar=None)
    assert len(calls) == 2
    monkeypatch.setattr(audits, "asked_auditor", lambda: {"version": "0", "digest": "another"})
    audits.kept("x", Models(model, "same"), claims, tmp_path, tokens, grammar=None)
    assert len(calls) == 3


def test_a_missing_encoder_is_said_before_anything_is_audited(tmp_path, monkeypatch):
    def missing():
        raise RequestError("the default encoder is not installed")

    monkeypatch.setattr(study, "default_model", missing)
    with pytest.raises(RequestError, match="not installed"):
        run(tmp_path / "out", groups=[NAMED["constructed/stack"]])
    assert not (tmp_path / "out").exists()


def test_an_audit_survives_its_file():
    population = load_checkpoint("dyck-minimal")[:2]
    (one,) = audit_claims(population, ["L0H0 attends to all visible tokens evenly"], num_inputs=120, length=12)
    again = restored(json.loads(json.dumps(one.to_dict())))
    assert again.to_dict() == one.to_dict()
    assert again.summary() == one.summary()
    assert again.share == one.share


@pytest.mark.slow
def test_a_population_is_judged_as_the_audit_judges_it():
    population = load_checkpoint("dyck-standard")
    claims = ["L0H0 attends to all visible tokens evenly", "L1H0 attends to START"]
    for result in audit_claims(population, claims, num_inputs=200):
        assert of_seeds([row["verdict"] for row in result.seeds], result.level) == result.verdict
        assert result.verdict != "undecided"


@pytest.mark.parametrize("group", quick_groups(), ids=lambda g: g.name)
def test_a_quick_run_can_decide_what_it_asks(group):
    """Of a group's seeds all of one verdict would be a majority for sure, at the level of its primary claims."""
    copies = group.copies
    layers = 1 if copies or "minimal" in group.name else 2
    claims = sum(len(s.claims(layers)) for s in statements_of(group, DyckGrammar(), copying, quick=True))
    assert 0 < claims <= 6
    if group.family is not None:
        count = len(load_checkpoint(group.bundled)) if group.bundled else QUICK
        assert binomial(count, count, 1 - 0.05 / claims).low > MOST_SEEDS


@pytest.mark.slow
def test_a_quick_run_and_an_audit_of_the_same_population_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(audits, "NUM_INPUTS", 120)
    monkeypatch.setattr(audits, "LENGTH", 16)
    group = next(g for g in quick_groups() if g.bundled == "dyck-standard" and g.kind == "dyck")
    (one,) = populations(STUDY.quick)[group.name]
    population = group.models(Obtained(one.family, load_checkpoint(one.bundled), "", one.bundled))
    audited = audit_group(group, population, tmp_path, quick=True)
    for name in (STACK, LAST_EVEN):
        tally = audited.tallies[name]
        (claim,) = tally.statement.claims(2)
        assert tally.population == audit_claim(population.models, claim, num_inputs=120, length=16).verdict == "refuted"


def test_options_make_one_verdict():
    assert of_options(["refuted", "supported", "misleading"]) == "supported"
    assert of_options(["refuted", "misleading"]) == "misleading"
    assert of_options(["refuted", "misleading", "undecided"]) == "undecided"
    assert of_options(["refuted", "refuted"]) == "refuted"


def test_a_statement_with_options_takes_the_best_of_each_seed():
    population = load_checkpoint("dyck-minimal")[:3]
    results = audit_claims(population, [Claim([], BUILT_IN[r]) for r in ("type-0", "type-1")], num_inputs=120)
    statement = next(s for s in copying(population.grammar) if s.name == "one-type")
    found = tally(statement, results)
    best = [max(a["score"], b["score"]) for a, b in zip(results[0].seeds, results[1].seeds, strict=True)]
    assert found.score.value == pytest.approx(np.mean(best))
    pairs = zip(results[0].seeds, results[1].seeds, strict=True)
    assert found.verdicts == tuple(of_options([a["verdict"], b["verdict"]]) for a, b in pairs)


def test_a_model_of_one_layer_is_not_asked_about_a_first_one():
    assert not [s for s in DYCK if s.layer == "first" and s.claims(1)]
    assert [c.heads for s in DYCK if s.layer == "last" for c in s.claims(2)] == [((1, 0),)] * sum(
        s.layer == "last" for s in DYCK
    )


def test_every_source_is_held_against_something_that_is_asked():
    asked = {s.name for s in (*DYCK, *copying(DyckGrammar()))}
    for source in SOURCES:
        if source.group is None:
            assert source.statement in {r.name for r in ENCODER}
        else:
            assert source.group in NAMED
            assert source.statement in asked


@pytest.mark.slow
def test_names_from_outside_are_escaped(folder):
    group = replace(NAMED["constructed/uniform"], name="<b>mine</b>")
    audited = audit_group(group, Models(load_checkpoint("constructed/uniform"), "<i>x</i>"), folder / "escaped")
    page = render(report(Findings([audited], None, 1), "<script>"))
    assert "<b>mine" not in page
    assert "<i>x" not in page
    assert "<script>\n" not in page
    bars = verdict_bars([audited], "t").to_json()
    assert "<b>mine" not in bars


# -- encoders ---------------------------------------------------------------------------------------------


class Words:
    """A tokenizer: [CLS], a number a word, [SEP]."""

    def __call__(self, texts, truncation, max_length):
        rows = [[1, *(10 + len(w) for w in text.split()), 2] for text in texts]
        return {"input_ids": [[*row[: max_length - 1], 2] if len(row) > max_length else row for row in rows]}


def test_two_paragraphs_an_article_cut_to_its_length():
    long, short, other = "word " * 100, "too short", "some " * 60
    documents = [Document(str(i), (short, long, other, long)) for i in range(FEWEST)]
    tokens = paragraphs(documents, Words(), 0)
    assert tokens.shape == (2 * FEWEST, max(LENGTHS))
    assert (tokens != 0).sum(1).tolist() == [length for _ in range(FEWEST // 3) for length in LENGTHS for _ in range(2)]
    assert (tokens[:, 0] == 1).all()
    assert ((tokens == 2).sum(1) == 1).all()
    with pytest.raises(AnalysisError, match=f"{FEWEST - 1} articles"):
        paragraphs(documents[1:], Words(), 0)
    with pytest.raises(AnalysisError, match="0 articles"):
        paragraphs([replace(d, paragraphs=(long, short)) for d in documents], Words(), 0)


@pytest.mark.slow
def test_a_real_encoder_is_scanned_with_its_padding_masked(tmp_path):
    from case_studies.topics_wikipedia.encoder import load_encoder

    try:
        encoder = load_encoder()
    except InterpError as error:
        pytest.skip(f"no encoder here: {error}")
    rng = np.random.default_rng(0)
    tokens = rng.integers(2000, 20000, (2 * FEWEST, 12))
    tokens[:, 0], tokens[::2, 9:], tokens[::2, 8], tokens[1::2, 11] = 101, 0, 102, 102
    names = encoder.tokenizer.convert_ids_to_tokens(range(len(encoder.tokenizer)))
    found = scan_encoder(encoder, [(0, 2)], tokens, Vocabulary(tuple(names), 0), tmp_path, ENCODER[:1])
    (result,) = found.results
    assert result.claim == "L0H2 attends to the previous token"
    assert result.pattern == "holds", result.reason
    assert next(row for row in result.evidence if row["name"] == "score")["value"] > 0.9


@pytest.mark.slow
def test_a_scan_counts_heads_by_relation():
    model = load_checkpoint("constructed/stack")
    relations = (BUILT_IN["previous"], BUILT_IN["all"])
    heads = ((0, 0), (1, 0))
    results = audit_claims(model, [Claim([h], r) for h in heads for r in relations], num_inputs=120)
    scan = Scan("<b>mine</b>", relations, heads, tuple(results))
    assert scan.counts(BUILT_IN["all"]) == {"supported": 1, "refuted": 1}
    assert scan.counts(BUILT_IN["previous"]) == {"refuted": 2}
    rows = scan.to_dict()["relations"]
    assert rows["all visible tokens evenly"]["heads"] == "sr"
    assert rows["all visible tokens evenly"]["scores"][0] == pytest.approx(1.0, rel=1e-3)
    assert "<b>mine" not in scan_grid(scan).to_json()


def test_special_tokens_are_found_by_the_vocabulary():
    vocabulary = Vocabulary(("[PAD]", "[CLS]", "[SEP]", "."), 0)
    tokens = np.array([[1, 3, 2, 0]])
    visible = (tokens != 0)[:, :, None] & (tokens != 0)[:, None, :]
    separator = next(r for r in ENCODER if r.name == "token-[SEP]")
    assert separator.keys(tokens, vocabulary, visible)[0].sum(0).tolist() == [0, 0, 3, 0]


# -- other settings of the audit --------------------------------------------------------------------------


def words(verdicts, of_family, uses=()):
    full = {v[0]: v for v in VERDICTS}
    return Said(tuple(full[letter] for letter in verdicts), of_family, tuple(uses))


def test_what_is_kept_is_counted_by_verdict_by_seed_and_by_family():
    none = "not asked"
    before = {"a": words("ssr", "supported", [none] * 3), "b": words("rrr", "refuted", ["used", "used", none])}
    after = {"a": words("sur", "undecided", [none] * 3), "b": words("rur", "refuted", ["used", "undecided", "unused"])}
    kept = compared("them", QUICK_SETTINGS[0], before, after)
    assert (kept.same, kept.verdicts, kept.same_words, kept.words) == (4, 6, 1, 2)
    assert (kept.same_uses, kept.uses) == (1, 3)
    assert (kept.seeds.value, kept.seeds.n) == (pytest.approx(2 / 3), 3)  # the second changed twice
    assert kept.seeds.ends == clopper_pearson(2, 3).ends
    assert kept.changes == {("a", "supported", "undecided"): 1, ("b", "refuted", "undecided"): 1}
    assert json.loads(json.dumps(kept.to_dict()))["changes"][0]["from"] == "supported"


def test_the_sentence_is_made_from_what_is_kept():
    same = {"a": words("sss", "supported")}
    other = {"a": words("srr", "undecided")}
    none, some = (compared("<b>them", QUICK_SETTINGS[i], same, after) for i, after in enumerate((same, other)))
    said, table = sensitivity_parts([none])
    assert "3 of 3 verdicts of single seeds are kept, 1 of 1 words about a family, and 0 of 0 findings on use" in said
    assert said.endswith("No verdict changes in any setting.")
    assert table.rows[0][1:2] == ["3 of 3"]
    assert table.rows[0][-1] == "nothing"
    said, table = sensitivity_parts([none, some])
    assert "4 of 6 verdicts" in said
    assert f"Least is kept with {QUICK_SETTINGS[1].words}: 1 of 3, in <b>them 1 of 3" in said
    assert table.rows[1][-1] == "a: supported → refuted (2)"
    page = render(report_of_nothing([none, some]))
    assert "Other inputs, other thresholds" in page
    assert "<b>them" not in page
    assert not unnamed_of_page(page)


def report_of_nothing(found):
    """The page with a control, and what is `found` of other settings."""
    group = NAMED["constructed/uniform"]
    statement = next(s for s in DYCK if s.name == STACK)
    one = audits.Tally(statement, ("refuted",), 0.95, "refuted", None, None, {})
    audited = audits.Audited(group, Models(None, "x"), {}, {STACK: one}, 1, 400, 0.95)
    return report(Findings([replace_known(audited)], None, 1, found), "x")


def replace_known(audited):
    return replace(audited, group=replace(audited.group, known=()))


def test_settings_move_what_they_name_and_nothing_else():
    names = [setting.words for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert all(setting in SETTINGS for setting in QUICK_SETTINGS)
    for setting in SETTINGS:
        differs = [name for name in ("inputs", "length", "seed", "thresholds") if
                   getattr(setting, name) != getattr(AS_EVER, name)]  # fmt: skip
        assert len(differs) == 1
    moved = [setting.thresholds for setting in QUICK_SETTINGS if setting.thresholds]
    assert moved == [
        {"SCORE": 0.2},
        {"USED": 0.08, "UNUSED": 0.04},
        {"SCORE": 0.3},
        {"USED": 0.12, "UNUSED": 0.06},
    ]


@pytest.mark.slow
def test_a_threshold_is_moved_in_another_process_and_nowhere_else():
    """The first layer is even enough for the auditor, and not for one that asks for more than a perfect head has."""
    group = next(g for g in quick_groups() if g.bundled == "dyck-standard" and g.kind == "dyck")
    job = Job(group.name, "dyck-standard", 1, 120, 12, 0, {"EVEN": 1.01})
    population = load_checkpoint("dyck-standard")[:1]
    claims = [claim for _, asked in primary_claims(group, population) for claim in asked]
    here = audit_claims(population, claims, num_inputs=120, length=12, task_check=False)
    moved = audits_of(job)
    first = claims.index(Claim([(0, 0)], BUILT_IN["all"]))
    assert here[first].pattern == "holds"
    assert moved[first]["pattern"] == "fails"
    others = [i for i, claim in enumerate(claims) if claim.relation.kind == "mass"]
    assert len(others) >= 3
    for i in others:  # nothing else has moved
        assert moved[i] == json.loads(json.dumps(here[i].to_dict()))
    assert EVEN == 0.8


def test_a_threshold_that_there_is_not_is_named():
    job = Job("x", "dyck-standard", 2, 120, 12, 0, {"EVENNESS": 1.0})
    with pytest.raises(AnalysisError, match=r"'x' with .*EVENNESS.* failed: .*no threshold 'EVENNESS'"):
        audits_of(job)
    with pytest.raises(RequestError, match="imported already"):
        replace_thresholds({})


@pytest.mark.slow
def test_a_family_is_audited_once_a_setting_and_from_files_after_that(tmp_path, monkeypatch):
    monkeypatch.setattr(audits, "audits_of", lambda job: [r.to_dict() for r in audited(job)])
    calls = []

    def audited(job):
        calls.append(job)
        claims = [c for _, asked in primary_claims(group, population) for c in asked]
        how = {"num_inputs": job.inputs, "length": job.length, "seed": job.seed}
        return audit_claims(population[: job.seeds], claims, task_check=False, **how)

    group, population = NAMED["minimal first layer (eq. 15)"], load_checkpoint("dyck-minimal")[:3]
    monkeypatch.setattr(sensitivity, "SEEDS", 2)
    monkeypatch.setattr(sensitivity, "AS_EVER", Setting("short", 120, 12))
    settings = [Setting("other", 120, 12, 1), Setting("moved", 120, 12, 0, {"SCORE": 0.2})]
    first = sensitivity.sensitivity(group, population, "dyck-minimal", "them", tmp_path, settings)
    assert [(kept.setting.words, kept.verdicts, kept.seeds.n) for kept in first] == [("other", 10, 2), ("moved", 10, 2)]
    assert first[1].same == 10  # the double moves nothing
    assert [job.seeds for job in calls] == [2]
    monkeypatch.setattr(audits, "audit_claims", None)
    assert sensitivity.sensitivity(group, population, "dyck-minimal", "them", tmp_path, settings) == first
    assert len(calls) == 1


@pytest.mark.slow
def test_a_study_audits_its_trained_families_again(tmp_path, monkeypatch):
    """Of a trained family, from its file; nothing of a null, of a control, or of strings as trained."""
    monkeypatch.setattr(audits, "NUM_INPUTS", 120)
    monkeypatch.setattr(audits, "LENGTH", 12)
    monkeypatch.setattr(sensitivity, "AS_EVER", Setting("short", 120, 12))
    minimal = NAMED["minimal first layer (eq. 15)"]
    others = [g for g in GROUPS if g.kind == "null" or g.own_strings or g.kind == "control"]
    settings = (Setting("other", 120, 12, 1), Setting("moved", 120, 12, 0, {"SCORE": 0.2}))
    size = study.Size(2, (minimal,), primary=False, settings=settings, encoder=False)
    plan = {minimal.name: (Wanted(minimal.family.in_steps(2), 2),)}
    asked = Run(size, tmp_path, plan, workers=1)
    found = study.collect(asked)
    rows = study.to_results(found)["sensitivity"]
    assert [(row["group"], row["setting"], row["verdicts"]) for row in rows] == [
        (minimal.name, "other", 10),
        (minimal.name, "moved", 10),
    ]
    assert [row["seeds_all_kept"]["n"] for row in rows] == [2, 2]
    assert [kept for group in others for kept in study._sensitivity(group, asked)] == []
    bundled = replace(asked, size=replace(size, primary=True))
    assert study._sensitivity(minimal, bundled) == []  # a quick run looks at bundled models only
