"""What pages tell of both benches: computed from their JSON files, in one unit, and of the auditor that they are of."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

import interp
from interp.errors import RequestError
from interp.stats import clopper_pearson
from probes.audit.bench import digest
from probes.audit.bench.figure import error_count
from probes.audit.bench.trained import by_seeds, long_table, short_table
from probes.audit.bench.trained.cases import JUDGE, KINDS
from probes.audit.bench.trained.errors import ERRORS, Counted, models_from_json, models_to_json, row, rows
from probes.audit.bench.trained.history import HISTORY, found_by, read_runs, runs_of
from probes.audit.bench.trained.table import failing, grey_zone, left_out

ROOT = Path(interp.__file__).parents[1]
CELL = re.compile(r"(\d+) of (\d+) \[(\d\.\d\d), (\d\.\d\d)\]")


def _script():
    """docs/error_rates.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("error_rates", ROOT / "docs" / "error_rates.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


made = _script()


def read(name):
    return json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def cells_of(table):
    """The cells of a Markdown table's rows, its head and rule left out."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# -- the auditor that results are of ------------------------------------------------------------------------


def test_the_digest_is_of_names_and_contents_in_a_fixed_order(tmp_path):
    one, two = tmp_path / "a.py", tmp_path / "b.py"
    one.write_bytes(b"x = 1\n")
    two.write_bytes(b"y = 2\n")
    before = digest.digest_of([one, two], tmp_path)
    assert digest.digest_of([two, one], tmp_path) == before
    assert re.fullmatch("[0-9a-f]{16}", before)
    assert digest.digest_of([one], tmp_path) != before
    one.write_bytes(b"x = 1\r\n")
    assert digest.digest_of([one, two], tmp_path) == before  # another end of line is no other auditor
    one.write_bytes(b"x = 2\n")
    assert digest.digest_of([one, two], tmp_path) != before
    one.write_bytes(b"x = 1\n")
    assert digest.digest_of([two.rename(tmp_path / "c.py"), one], tmp_path) != before


def test_words_about_a_module_and_its_layout_are_not_digested():
    code = 'X = "# no comment"\n\n\ndef f(x, y):\n    return x + 1\n'
    told = (
        '"""A module."""\n\nX = "# no comment"  # one\n\ndef f(\n    x,\n    y,\n):\n    """Adds.\n\n    1."""\n'
        "    return (x + 1)\n"
    )
    assert digest.what_runs(told) == digest.what_runs(code) != digest.what_runs(code.replace("1", "2"))
    assert digest.what_runs(code) != digest.what_runs(code.replace("# no", "# a"))
    assert digest.what_runs('def f():\n    """Only words."""\n').count("words") == 0
    assert digest.what_runs("x = 1\n'words that are no docstring'\n").count("words") == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'it is not used'", "'the model ignores it'"),
        ("f'moves {x} of it all'", "f'of {y} it has {x} parts'"),
        ("f'{x} is not {y} here'", "'it is used here'"),
    ],
)
def test_sentences_that_are_printed_are_not_digested(one, other):
    one, other = f"z = {one}", f"z = {other}"
    assert digest.what_runs(one) != digest.what_runs(other)
    assert digest.what_runs(one, sentences=False) == digest.what_runs(other, sentences=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'not asked'", "'not in'"),  # words that rules compare
        ("'audit/at random'", "'audit/first look'"),  # names of random streams
        ("f'{x} is {y}'", "f'{x} was {y}'"),
        ("f'L{x}H{y} a b'", "f'L{y}H{x} a b'"),
        ("g('it is not used', 1)", "g('it is not used', 2)"),
        ("g('it is not used')", "h('it is not used')"),
    ],
)
def test_what_decides_is_digested_beside_sentences(one, other):
    assert digest.what_runs(f"z = {one}", sentences=False) != digest.what_runs(f"z = {other}", sentences=False)


def test_texts_that_claims_are_read_with_are_digested(tmp_path):
    made = {}
    for folder in ("probes/audit", "probes/claims", "interp/claims"):
        (tmp_path / folder).mkdir(parents=True)
        file = tmp_path / folder / "a.py"
        for words in ("the last open bracket", "the first open bracket"):
            file.write_text(f"x = {words!r}\n")
            made.setdefault(folder, []).append(digest.digest_of([file], tmp_path))
            file.write_text(f"raise Refused({words!r})\n")
            made.setdefault(f"{folder}, refused", []).append(digest.digest_of([file], tmp_path))
    assert [len(set(two)) for two in made.values()] == [1, 1, 2, 1, 2, 1]


def test_what_is_left_out_of_the_digest_decides_no_audit():
    """Nothing that is digested imports it, but for what shows results."""
    for path in (ROOT / "probes/audit").glob("*.py"):
        if path.stem in (*digest.TELLING, "__init__", "result"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {f"probes.audit.{name}" for name in digest.TELLING}, path.name
    assert all((ROOT / "probes/audit" / f"{name}.py").is_file() for name in digest.TELLING)


def test_what_decides_an_audit_is_read_and_the_bench_is_not(monkeypatch):
    read_files = []
    monkeypatch.setattr(digest, "digest_of", lambda files: read_files.extend(files) or "none")
    digest.auditor()
    names = {path.relative_to(ROOT).as_posix() for path in read_files}
    assert {
        "probes/audit/thresholds.py",
        "probes/audit/rules.py",
        "probes/claims/claim.py",
        "interp/claims/rows.py",
    } <= names
    assert not [name for name in names if "bench" in name]
    assert not names & {f"probes/audit/{name}.py" for name in digest.TELLING}


def test_a_result_says_whether_it_is_of_the_auditor_that_is_here():
    here = digest.auditor()
    assert digest.of_which({"auditor": here}) == "of the auditor as it stands"
    assert digest.of_which({"auditor": {**here, "version": "0.0.1"}}) == "of the auditor as it stands"
    stale = digest.of_which({"auditor": {"version": "0.1.0", "digest": "0123"}})
    assert stale == "of an earlier state of the auditor (version 0.1.0, digest 0123)"
    for none in ({}, {"auditor": {"version": "0.1.0", "digest": None}}):
        assert digest.of_which(none) == "of an earlier state of the auditor, whose digest was not recorded"


def test_pages_change_with_what_they_are_of(tmp_path):
    """A table that was right becomes stale with the auditor, and the check of pages finds it."""
    root = copied(tmp_path)
    of_which(root, {"version": "0.0.1", "digest": None})
    made.stale(root, write=True)
    of_which(root, digest.auditor())
    assert set(made.stale(root, write=True)) == {"README.md", "docs/manual.md", "docs/trained-bench.md"}
    assert made.stale(root, write=False) == []
    readme = (root / "README.md").read_text()
    assert readme.count("results of the auditor as it stands") == 2
    assert "earlier state of the auditor" not in readme
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "digest_of", lambda files: "another")
        assert set(made.stale(root, write=True)) == {"README.md", "docs/manual.md", "docs/trained-bench.md"}
    told = f"earlier state of the auditor (version {digest.auditor()['version']}, digest {digest.auditor()['digest']})"
    assert (root / "README.md").read_text().count(told) == 2


def of_which(root, auditor):
    """Both benches' results as if they were of this auditor."""
    for name in ("trained-bench.json", "claim-bench.json"):
        path = root / "docs" / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "auditor": auditor}))


def copied(folder):
    (folder / "docs").mkdir()
    (folder / "benchmarks").mkdir()
    names = ["README.md", "docs/manual.md", "docs/trained-bench.md", "docs/claim-bench.json", "docs/trained-bench.json"]
    for name in [*names, "docs/trained-bench-runs.json", "benchmarks/audits.json"]:
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def test_targets_are_met_up_to_their_bounds():
    trained, written = read("trained-bench.json"), read("claim-bench.json")
    timed = json.loads((ROOT / "benchmarks" / "audits.json").read_text(encoding="utf-8"))
    whole = next(one for one in trained["rows"] if one["family"] is None and one["kind"] is None)
    for kind, most in (("false support", 0.01), ("missed pattern", 0.02), ("missed use", 0.02)):
        whole["errors"][kind]["high"] = most
    whole["errors"]["undecided"] |= {"claims": 5, "of": 100, "models_with_it": 5, "models": 100}
    whole["named"] = [98, 100]
    written |= {"per_family": 1000, "families": [{"errors": 3}]}
    for family in trained["families"]:
        family["seconds_per_claim"] = 1.3
    for one in timed["rows"]:
        one["cpu"]["ours"] = 20.0
    words = [cells[-1] for cells in cells_of(made.targets(trained, written, timed))]
    assert words == ["met"] * 8
    for kind in ("false support", "missed pattern", "missed use"):
        whole["errors"][kind]["high"] += 1e-6
    whole["errors"]["undecided"]["models_with_it"] = 6
    whole["named"] = [97, 100]
    written["families"][0]["errors"] = 4
    trained["families"][0]["seconds_per_claim"] = 1.31
    timed["rows"][-1] = {"what": "scan of another", "cpu": {"ours": 20.1}}
    words = [cells[-1] for cells in cells_of(made.targets(trained, written, timed))]
    assert words == ["**not met**"] * 8


# -- committed pages ----------------------------------------------------------------------------------------


def test_pages_are_what_the_data_gives_and_say_which_auditor_it_is_of(capsys):
    assert made.main(["--check"]) == 0, "run python docs/error_rates.py"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count(f"These are results {digest.of_which(read('trained-bench.json'))} (half: judge") == 1
    assert readme.count(f"These are results {digest.of_which(read('claim-bench.json'))} (seed ") == 1


def test_readme_tells_above_what_its_tables_hold():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    rates = row(models_from_json(read("trained-bench.json")["told"])).rates
    false, missed, left = (rates[error] for error in ("false support", "missed use", "undecided"))
    assert (false.wrong, missed.wrong) == (0, 0)
    told = f"no false support in {false.share.n} independent models {bounds(0, false.share.n)}, no use missed in "
    told += f"{missed.share.n} {bounds(0, missed.share.n)}, claims left open in {left.wrong} of {left.share.n} "
    assert f"{told}{bounds(left.wrong, left.share.n)}." in readme
    fresh = read("trained-bench-fresh.json")
    by_family: dict[str, set[str]] = {}
    for one in models_from_json(fresh["told"]):
        by_family.setdefault(one.family, set()).update([one.outcome])
    erred = sum(found != {"right"} for found in by_family.values())
    assert not any("false support" in found or "missed use" in found for found in by_family.values())
    told = f"On {len(by_family)} new recipes, asked before anything was changed: no false support in any "
    told += f"{bounds(0, len(by_family))}, but an error in {erred} of {len(by_family)} "
    assert f"{told}{bounds(erred, len(by_family))} (true patterns refuted in two" in readme
    refuted = [name for name, found in by_family.items() if "missed pattern" in found]
    assert len(refuted) == 2
    page = (ROOT / "docs/trained-bench.md").read_text(encoding="utf-8")
    (naive,) = re.findall(r"\| all \| 1590 \| naive, by score \| \d+ \| (\d+ of \d+ \[[^]]+\])", page)
    count, _, rest = naive.partition(" of ")
    assert f"supports false claims in {count} of {rest.replace(' [', ' models [')}." in readme
    written = read("claim-bench.json")["families"]
    wrong, of = sum(f["errors"] for f in written), 24 * len(written)
    assert f"The audit erred on {wrong} of {of} claims" in readme


def test_a_stale_page_is_found_and_written(tmp_path, monkeypatch, capsys):
    root = copied(tmp_path)
    monkeypatch.setattr(made, "ROOT", root)
    made.main([])
    page = root / "README.md"
    right = page.read_text()
    page.write_text(right.replace("All errors come from two families", "There are no errors"))
    capsys.readouterr()
    assert made.main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("stale: README.md;")
    assert page.read_text() != right
    assert made.main([]) == 0
    assert page.read_text() == right
    page.write_text(right.replace("<!-- written bench: end -->", ""))
    with pytest.raises(RequestError, match="written bench"):
        made.main([])


def test_the_judging_half_is_shown_and_its_runs_are_counted():
    data, runs = read("trained-bench.json"), runs_of(read_runs(HISTORY), JUDGE)
    assert data["half"] == "judge"
    assert {model["seed"] for model in data["told"]} == set(JUDGE)
    assert data["judge_runs"] == len(runs)
    last, counted = runs[-1], models_from_json(data["told"])
    assert {key: last[key] for key in ("models", "claims", "outcomes")} == found_by(counted)
    assert (last["auditor"], last["seed"]) == (data["auditor"], data["seed"])
    assert "was run once." in short_table(data) if len(runs) == 1 else f"was run {len(runs)} times" in short_table(data)


def test_a_second_run_is_said():
    data = {**read("trained-bench.json"), "judge_runs": 2}
    assert "was run 2 times; what the other runs found stands in docs/trained-bench-runs.json." in short_table(data)


def test_the_rows_of_a_result_follow_from_its_models():
    data = read("trained-bench.json")
    counted = models_from_json(data["told"])
    assert models_to_json(counted) == data["told"]
    found = [one.to_dict() for one in rows(counted, KINDS)]
    ours, theirs = (  # to ten digits: the last ones of an interval depend on scipy's version
        json.loads(json.dumps(one), parse_float=lambda digits: f"{float(digits):.10g}") for one in (found, data["rows"])
    )
    assert ours == theirs
    wrong = {(w["family"], w["seed"], w["kind"], w["outcome"]) for w in data["wrong"]}
    assert wrong == {(c.family, c.seed, c.kind, c.outcome) for c in counted if c.outcome != "right"}
    assert row(counted).right == data["claims"] - len(data["wrong"])


def test_what_passed_adds_up():
    data = read("trained-bench.json")
    page = (ROOT / "docs" / "trained-bench.md").read_text(encoding="utf-8")
    table = cells_of(page.split("## What passed")[1].split("## Errors")[0])
    numbers = {line[0]: [int(cell.replace(",", "")) for cell in line[1:]] for line in table}
    for at in range(8):
        assert numbers["all"][at] == sum(line[at] for name, line in numbers.items() if name != "all")
    asked = dict.fromkeys(numbers, 0) | {"all": data["claims"]}
    for one in models_from_json(data["told"]):
        asked[one.family] += one.claims
    for name, (_, _, claims, grey, denied, passed, develop, judged) in numbers.items():
        assert (develop + judged, judged) == (passed, asked[name])
        assert claims - grey - denied - passed >= 0  # the rest is of models that had not learned
    assert "asked 1,555 claims and not 1,564" in " ".join(page.split())


@pytest.mark.skipif(not (ROOT / made.DEVELOP).exists(), reason="the develop half has not been run by these rules")
def test_the_develop_half_stands_beside_it():
    data = json.loads((ROOT / made.DEVELOP).read_text(encoding="utf-8"))
    assert data["half"] == "develop"
    assert {model["seed"] for model in data["told"]} == set(range(20))
    assert by_seeds(data) in (ROOT / "docs" / "trained-bench.md").read_text(encoding="utf-8")


# -- tables, of a small made-up result ----------------------------------------------------------------------


def counted(seed, outcome="right", **more):
    told = {"family": "f", "kind": "true", "pattern": True, "use": "used", **more}
    return Counted(seed=seed, outcome=outcome, cluster=f"{more.get('cluster_of', told['family'])}/{seed}", **told)


def result(told, half="develop", **more):
    family = {"family": "f", "models": 4, "unlearned": 0, "claims": 10, "grey": 3, "contradicted": 1}
    data = {
        "auditor": {"version": "1", "digest": "abc"}, "half": half, "judge_runs": 0, "seconds_per_claim": 0.5,
        "claims": sum(c.claims for c in told), "models": len({(c.family, c.seed) for c in told}),
        "told": models_to_json(told), "families": [{**family, "seconds_per_claim": 0.5}], "seed": 0,
    }  # fmt: skip
    return json.loads(json.dumps({**data, **more}))


SMALL = [
    counted(0, claims=3), counted(0, "missed pattern"), counted(1), counted(6), counted(7, "undecided", claims=2),
    counted(0, family="untrained", kind="false", pattern=False, use="unused", claims=4),
    counted(6, family="g", kind="tail", pattern=False, use="not asked"),
    counted(7, "false support", family="g", kind="tail", pattern=False, use="not asked"),
    counted(1, family="g", kind="idle", use="unused", named=True),
]  # fmt: skip


def test_seeds_on_which_rules_were_rewritten_stand_beside_the_others():
    table = cells_of(by_seeds(result(SMALL)))
    told = [(line[0], line[1].split(":")[0], *line[2:4]) for line in table]
    assert told == [
        ("0 to 5", "*true*", "5", "1"),
        ("0 to 5", "the two other kinds", "5", "0"),
        ("0 to 5", "all", "10", "1"),
        ("6 to 19", "*true*", "3", "2"),
        ("6 to 19", "*tail*", "2", "1"),
        ("6 to 19", "all", "5", "3"),
    ]
    missed = {(line[0], line[1].split(":")[0]): line[6] for line in table}
    assert missed["0 to 5", "*true*"] == f"1 of 2 {bounds(1, 2)}"
    assert missed["6 to 19", "*true*"] == f"0 of 2 {bounds(0, 2)}"
    text = by_seeds(result(SMALL))
    assert "Seeds 0 to 5: All errors come from one family. The pattern is missed in true claims of f" in text
    assert "Seeds 6 to 19: All errors come from two families. Falsely supported are tail claims of g (1 of 2" in text
    assert "results of an earlier state of the auditor (version 1, digest abc) (half: develop, seeds 0 to 7)" in text
    assert [line[0] for line in cells_of(by_seeds(result(SMALL), {"7": [7], "none": [30]}))] == ["7"] * 3


def bounds(count, n):
    share = clopper_pearson(count, n)
    return f"[{share.low:.2f}, {share.high:.2f}]"


@pytest.mark.parametrize("data", [result(SMALL), read("trained-bench.json")], ids=["small", "committed"])
@pytest.mark.parametrize("table", [short_table, by_seeds, long_table])
def test_every_share_is_of_models_and_lies_in_its_own_interval(table, data):
    text = table(data, {"all": range(40)}) if table is by_seeds else table(data)
    found = [match.groups() for match in CELL.finditer(text)]
    assert len(found) > 10
    for count, n, low, high in found:
        assert f"[{low}, {high}]" == bounds(int(count), int(n))
        assert float(low) <= round(int(count) / int(n), 2) <= float(high)


def test_the_short_table_joins_kinds_without_errors_and_counts_models_that_share_weights_once():
    shared = [
        counted(20),
        Counted("grafted", 20, "f/20", "idle", True, "unused", "right", True),
        counted(21, "undecided"),
    ]
    text = short_table(result(shared, "judge", judge_runs=1))
    table = cells_of(text)
    assert [line[0].split(":")[0] for line in table] == ["*true*", "the other kind", "all"]
    assert [line[1:3] for line in table] == [["2", "1"], ["1", "0"], ["3", "1"]]
    assert table[-1][3] == f"1 of 2 {bounds(1, 2)}"
    assert "2 of the models are independent" in text
    assert "The half that was set aside was run once." in text
    assert "in 1 of 1 claims about them." in text


def test_which_families_fail_at_what():
    assert failing(SMALL[:1]) == "No claim came out with an error."
    told = (
        "All errors come from two families.",
        "Falsely supported are tail claims of g (1 of 2, in 1 of 2 models).",
        "The pattern is missed in true claims of f (1 of 8, in 1 of 4 models).",
        "Undecided are true claims of f (2 of 8, in 1 of 4 models).",
    )
    assert failing(SMALL) == " ".join(told)


def test_what_was_dropped_is_said_with_the_bounds():
    text = grey_zone(result(SMALL))
    assert "(40 % dropped: 40 % of f)" in text
    assert "at least 0.5 and 80 %, as not there where they are at most 0.15 and 50 %" in text
    assert "the audit decides at 0.25 and 75 %. A head counts as used where exchanging all that it gives moves" in text
    assert "moves at least 0.25 of the margin and its mean loses 0.1 of the accuracy above guessing, as unused" in text
    assert "as unused where both are at most 0.03; the audit decides at 0.1 and 0.05. Of 10 claims 3 lay betw" in text
    page = (ROOT / "docs" / "trained-bench.md").read_text(encoding="utf-8")
    assert grey_zone(read("trained-bench.json")) in page
    assert re.search(r"Rates are of claims outside a grey zone \(\d+ % dropped: \d+ % of facts", page)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert left_out(read("trained-bench.json")) in readme
    assert left_out(result(SMALL)).startswith("Of 10 claims 4 are left out because their truth is not clear-cut")
    assert "4 of the 4 claims of the kind *false* are of untrained or shuffled models." in short_table(result(SMALL))


def test_the_written_bench_counts_claims_and_families():
    families = [{"name": name, "errors": wrong, "n": 24} for name, wrong in (("a", 0), ("b", 2), ("c", 0))]
    text = error_count({"families": families, "seed": 3})
    low, high = clopper_pearson(2, 72).low, clopper_pearson(2, 72).high
    assert text.startswith(f"2 of 72 claims came out with an error [{low:.3f}, {high:.3f}]")
    assert f"was found in 1 of 3 families {bounds(1, 3)} (b)" in text
    assert len(ERRORS) == 4
