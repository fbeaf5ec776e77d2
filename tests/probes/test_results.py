"""What every public result can do: be told in one line, saved, read back, computed again, and shown as a table.

The checks walk over the registry of kinds, and over the classes themselves, so that a new result cannot lack any of it.
"""

import importlib
import json
import pkgutil
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pandas as pd
import pytest

import probes
from interp import InterpError, load_checkpoint, save_checkpoint
from interp.cli import main
from interp.errors import RequestError
from interp.stats import Estimate
from probes import Claim, analyze_variation, audit_claim, audit_claims, load_result, scan_heads
from probes.core import KEPT, LEFT, OF, LeftOut, Result, get_kind, hints, kind_of, ours, recorded

OURS = ours()
KINDS = sorted(OURS)
CLAIM = "L0H0 attends to the previous token"


def some(hint: Any) -> Any:
    """Anything of that type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return some(args[0])
    if origin is Literal:
        return args[0]
    if hint is Estimate:
        return Estimate(0.5, 0.25, 0.75, 8, "seeds", {"untrained": 0.125, "uniform": None})
    if origin is np.ndarray or hint is np.ndarray:
        kind = get_args(args[1])[0] if args else float
        return np.arange(300).reshape(3, 100).astype(kind) if kind is not np.float64 else np.linspace(0, 1, 300) / 3
    if is_dataclass(hint):
        return hint(**{f.name: some(hints(hint)[f.name]) for f in fields(hint)})
    if origin is tuple:
        return tuple(some(arg) for arg in args if arg is not ...)
    if origin is dict or origin is Mapping:
        return {some(args[0]): some(args[1])}
    if origin is list:
        return [some(args[0])]
    return {bool: True, int: 3, float: 1 / 3, str: "words  of\ntwo lines", Any: 2}[hint]


def made(name: str) -> Result:
    """A result of that kind with something in every field; models, which no file of results holds, left out."""
    kind = get_kind(name).load()
    left = {"ticket", "tickets"}
    return kind(**{f.name: LeftOut("it") if f.name in left else some(hints(kind)[f.name]) for f in fields(kind)})


def classes() -> set[type]:
    """Every class of results in the package."""
    for found in pkgutil.walk_packages(probes.__path__, "probes."):
        importlib.import_module(found.name)
    todo, found = [Result], set()
    while todo:
        subs = todo.pop().__subclasses__()
        found |= {sub for sub in subs if sub.__module__.startswith("probes.")}
        todo += subs
    return found


def same(one: Any, other: Any) -> bool:
    """Alike in every field, arrays to the last bit."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if is_dataclass(one):
        return type(one) is type(other) and all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, LeftOut) == isinstance(other, LeftOut) and (isinstance(one, LeftOut) or one == other)


@pytest.fixture(scope="module")
def population():
    return load_checkpoint("dyck-minimal")[:3]


@pytest.fixture(scope="module")
def measured(population):
    """Real results, quickly made."""
    return {
        "variation": analyze_variation(population),
        "audit": audit_claim(population[0], CLAIM, num_inputs=120),
        "scan": scan_heads(population[0], ["the previous token"], num_inputs=120),
    }


def test_every_class_of_results_is_of_a_kind():
    assert {get_kind(name).load() for name in KINDS} == classes()
    assert [kind_of(get_kind(name).load()) for name in KINDS] == KINDS
    assert not any({OF, KEPT, LEFT} & {f.name for f in fields(get_kind(name).load())} for name in KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_whatever_gives_results_is_recorded(name):
    for path in OURS[name].makers:
        maker = get_kind(name).maker(path.split(":")[1])
        assert getattr(maker, "is_recorded", False), path


@pytest.mark.parametrize("name", KINDS)
def test_a_result_comes_back_from_its_file(name, tmp_path):
    result, path = made(name), tmp_path / "r.json"
    assert result.save(path) == path
    back = load_result(path)
    assert same(result, back)
    assert back.to_dict() == result.to_dict()
    again = tmp_path / "again.json"
    back.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", KINDS)
def test_a_file_starts_with_what_it_is_of(name, tmp_path):
    made(name).save(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    assert next(iter(data)) == OF
    assert list(data[OF])[:7] == ["kind", "format", "by", "version", "checkpoint", "arguments", "seed"]
    assert data[OF]["kind"] == name


@pytest.mark.parametrize("name", KINDS)
def test_a_repr_is_one_line(name):
    text = repr(made(name))
    assert "\n" not in text
    assert " at 0x" not in text
    assert len(text) < 200
    assert type(made(name)).__name__ in text


@pytest.mark.parametrize("name", KINDS)
def test_a_result_is_a_table(name):
    table = made(name).to_frame()
    assert isinstance(table, pd.DataFrame)
    assert len(table) > 0
    assert not any(isinstance(cell, (dict, Estimate)) for cell in table.to_numpy().flatten())


@pytest.mark.parametrize("name", KINDS)
def test_without_pandas_a_line_says_so(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RequestError, match=r"^to_frame\(\) needs the package pandas: pip install [^\n]*$"):
        made(name).to_frame()


@pytest.mark.parametrize("name", KINDS)
def test_a_field_of_another_type_is_refused_in_a_line(name, tmp_path):
    path = tmp_path / "r.json"
    made(name).save(path)
    data = json.loads(path.read_text())
    kind = get_kind(name).load()
    first = next(f.name for f in fields(kind) if f.name in data and f.name not in data.get(KEPT, {}))
    path.write_text(json.dumps({**data, first: {"odd": [None]}}))
    with pytest.raises(InterpError, match=r"^'.*r.json' is damaged or of other fields: [^\n]*$"):
        load_result(path)
    data[OF]["version"] = "0.0.7"
    path.write_text(json.dumps({**data, first: {"odd": [None]}}))
    with pytest.raises(InterpError, match=r"written by version '0\.0\.7', not "):
        load_result(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "weather"}, "no kind of result 'weather'; kinds are audit, balance"),
        ({"kind": 3}, "says no kind of result"),
        ({"format": 99}, "format 99; this release reads 1"),
        ({"checkpoint": 7}, "no valid 'checkpoint': 7"),
        ({"at": "x"}, "no valid 'at': 'x'"),
    ],
)
def test_a_header_that_is_none_is_refused(change, said, tmp_path):
    path = tmp_path / "r.json"
    made("stack").save(path)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, OF: {**data[OF], **change}}))
    with pytest.raises(InterpError, match=said) as refused:
        load_result(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"of": 3}', '{"of": {"kind": "sta', "\x00", '{"of": {}, "in_full": 1}']
)
def test_what_is_no_file_of_results_is_refused(text, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InterpError, match=r"r\.json'") as refused:
        load_result(path)
    assert "\n" not in str(refused.value)
    assert main(["replay", str(path)]) == 2


def test_models_are_not_in_files_of_results(tmp_path):
    made("lottery").save(tmp_path / "r.json")
    with pytest.raises(RequestError, match=r"does not hold 'ticket'.*save_checkpoint"):
        _ = load_result(tmp_path / "r.json").model


def test_real_results_come_back_with_summary_and_figure(measured, tmp_path):
    for name, result in measured.items():
        result.save(tmp_path / name)
        back = load_result(tmp_path / name)
        assert same(result, back)
        assert back.summary() == result.summary()
        assert back.figure().to_json() == result.figure().to_json()
        assert back.origin == result.origin
        assert repr(back) == repr(result)
        assert "\n" not in repr(result)
        assert repr(result).count(";") >= 1, "the line says more than what it is"


def test_tables_show_every_estimate(measured):
    table = measured["variation"].to_frame()
    row = table[(table.field == "variation") & (table["at"] == "0")].iloc[0]
    first = measured["variation"].variation[0]
    assert (row.value, row.low, row.n, row.null_untrained) == (first.value, first.low, 3, first.null["untrained"])
    assert set(measured["audit"].to_frame().name) == {row["name"] for row in measured["audit"].evidence}
    assert len(measured["scan"].to_frame()) == len(measured["scan"].fits)


def test_a_result_says_what_it_is_of(population, measured):
    origin = measured["variation"].origin
    assert origin.by == "analyze_variation"
    assert origin.checkpoint["files"] == [{"file": "dyck-minimal", "seeds": [0, 1, 2]}]
    assert (origin.arguments, origin.seed) == ({}, 0)
    assert measured["audit"].origin.arguments == {"claim": CLAIM, "num_inputs": 120}
    several = audit_claims(population[0], [CLAIM, Claim([(0, 0)], "start")], num_inputs=120, seed=4)
    assert [one.origin.at for one in several] == [(0, 2), (1, 2)]
    assert several[0].origin.seed == 4
    assert replace(measured["variation"], num_models=5).origin is None, "nobody measured that"


def test_a_recorded_function_is_recorded_once_and_keeps_its_face():
    assert recorded(analyze_variation) is analyze_variation
    assert analyze_variation.__doc__.startswith("Attention variation")


def test_what_cannot_be_written_is_said(population, tmp_path):
    mine = replace(Claim.parse(CLAIM).relation, name="mine", words="my own token")
    result = audit_claim(population[0], "L0H0 attends to my own token", num_inputs=120, relations=[mine])
    result.save(tmp_path / "r.json")
    assert main(["replay", str(tmp_path / "r.json")]) == 2


def test_replay_computes_it_again(measured, tmp_path, capsys):
    for name, result in measured.items():
        result.save(tmp_path / name)
        assert main(["replay", str(tmp_path / name)]) == 0
        assert f"the same: {name}" in capsys.readouterr().out


def test_replay_says_what_differs(measured, tmp_path, capsys):
    path = measured["variation"].save(tmp_path / "r.json")
    data = json.loads(path.read_text())
    data["variation"][0]["value"] *= 1 + 1e-9
    path.write_text(json.dumps(data))
    assert main(["replay", str(path)]) == 1
    said = capsys.readouterr().out
    assert "not the same: 1 values of variation differ, the numbers by 1e-09" in said
    assert "variation[0].value" in said


def test_replay_refuses_other_weights_and_finds_files_that_moved(population, tmp_path, capsys, monkeypatch):
    save_checkpoint(population, tmp_path / "p.safetensors")
    monkeypatch.chdir(tmp_path)
    assert main("analyze variation p.safetensors --json r.json".split()) == 0
    assert main("replay r.json".split()) == 0
    assert main("replay r.json --checkpoint dyck-minimal".split()) == 2
    assert "holds other weights than those that were measured" in capsys.readouterr().err
    (tmp_path / "p.safetensors").rename(tmp_path / "q.safetensors")
    assert main("replay r.json".split()) == 2
    assert main("replay r.json --checkpoint q.safetensors".split()) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "q.safetensors").rename(tmp_path / "p.safetensors")
    assert main("replay ../r.json".split()) == 0, "the models lie beside the result"


def test_weights_that_were_changed_are_not_those_of_the_file(population, tmp_path, capsys):
    model = population[0]
    model.unembed.W_U.data *= 2
    path = audit_claim(model, CLAIM, num_inputs=120, task_check=False).save(tmp_path / "r.json")
    assert main(["replay", str(path)]) == 2
    assert "other weights" in capsys.readouterr().err


def test_variation_of_many_seeds_is_small_from_the_command_line(tmp_path):
    from interp.cli.files import content_of, write_json

    pairs = 1000 * 999 // 2
    rng = np.random.default_rng(0)
    each = tuple(rng.random(pairs) for _ in range(2))
    e = Estimate(0.5, 0.25, 0.75, 1000, "seeds")
    result = replace(
        made("variation"), variation=(e, e), normalised=(e, e), unmatched=(e, e), untrained=(e, e), pairs=each,
        untrained_pairs=each, num_models=1000,
    )  # fmt: skip
    write_json(tmp_path / "r.json", content_of(result))
    assert (tmp_path / "r.json").stat().st_size < 100_000
    back = load_result(tmp_path / "r.json")
    assert [len(x) for x in back.pairs] == [101, 101]
    assert back.to_dict()["pairs"]["quantiles"] == pytest.approx(np.array(result.to_dict()["pairs"]["quantiles"]))
    assert back.to_dict()["pairs"]["of"] == result.to_dict()["pairs"]["of"]


def test_defaults_of_fields_are_taken_for_what_a_file_lacks(tmp_path):
    result = replace(made("variation"), unread=(), task_check=None)
    result.save(tmp_path / "r.json")
    assert "unread" not in json.loads((tmp_path / "r.json").read_text())
    assert load_result(tmp_path / "r.json").unread == ()
    assert any(f.default is not MISSING for f in fields(result))
