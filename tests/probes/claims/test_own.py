"""Relations, conditions and questions of one's own: in Python, and from a file on the command line."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from interp import load_checkpoint
from interp.cli import main
from interp.errors import RequestError
from interp.worlds.dyck.claims import Closers
from probes import audit_claims
from probes.claims import Claim, Condition, Relation, own_questions, read_own

ODD = Relation("odd", "tokens at odd positions", "mass", "tokens",
               lambda t, g, v: v & (np.arange(t.shape[1]) % 2 == 1))  # fmt: skip
LATE = Condition("late", "it is late", "tokens", lambda t, g, k: np.broadcast_to(np.arange(t.shape[1]) > 5, t.shape))
FILE = '''
"""My relations."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interp.worlds.dyck.claims import Closers
from probes import Condition, Relation

RELATIONS = [Relation("odd", "tokens at odd positions", "mass", "tokens",
                      lambda t, g, v: v & (np.arange(t.shape[1]) % 2 == 1))]
CONDITIONS = [Condition("late", "it is late", "tokens",
                        lambda t, g, k: np.broadcast_to(np.arange(t.shape[1]) > 5, t.shape))]


@dataclass(frozen=True)
class Mine(Closers):
    name: str = "mine"
    words: str = "guess what closes"
    also: tuple[str, ...] = ()


QUESTIONS = [Mine()]
'''


@dataclass(frozen=True)
class Mine(Closers):
    name: str = "mine"
    words: str = "guess what closes"
    also: tuple[str, ...] = ("say what closes",)


def test_a_question_of_ones_own_is_what_a_claim_is_for():
    mine = Mine()
    claim = Claim.parse("L1H0 uses the previous token to say what closes", questions=[mine])
    assert claim == Claim([(1, 0)], "previous", uses=mine)
    assert (claim.uses, claim.question) == ("mine", mine)
    assert claim.text == "L1H0 uses the previous token to guess what closes"
    assert Claim.parse(claim.text, questions=[mine]) == claim
    assert Claim.parse("L1H0 uses START to predict closers", questions=[mine]).uses == "closers"
    with pytest.raises(RequestError, match="use 'guess what' is not understood; the nearest are 'guess what closes'"):
        Claim.parse("L1H0 uses START to guess what", questions=[replace(mine, also=())])
    with pytest.raises(RequestError, match="is not understood"):
        Claim.parse(claim.text)


def test_what_is_no_question_is_refused():
    for wrong in (5, None, "x", ["x"], [Closers], [3]):
        with pytest.raises(RequestError, match="is not a list of questions"):
            own_questions(wrong)
    for taken in (Closers(), replace(Mine(), name="task"), replace(Mine(), name="labels")):
        with pytest.raises(RequestError, match="another one is"):
            own_questions([taken])
    with pytest.raises(RequestError, match="'mine': another one is"):
        own_questions([Mine(), Mine()])


def test_an_audit_takes_what_is_added():
    model = load_checkpoint("dyck-standard")[0]
    said = "L1H0 uses tokens at odd positions to guess what closes when it is late"
    added = {"relations": [ODD], "conditions": iter([LATE]), "questions": [Mine()]}
    result = audit_claims(model, [said], num_inputs=60, task_check=False, untrained=False, **added)[0]
    assert (result.claim, result.task) == (said, "mine")
    typed = audit_claims(model, [Claim([(1, 0)], ODD, LATE, Mine())], num_inputs=60, task_check=False, untrained=False)
    assert typed[0].to_dict() == result.to_dict()


def test_a_file_adds_what_it_lists(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    own = read_own(path)
    assert [len(part) for part in (own.relations, own.conditions, own.questions)] == [1, 1, 1]
    assert list(tmp_path.iterdir()) == [path]  # no compiled file beside it
    said = "L1H0 uses tokens at odd positions to guess what closes when it is late"
    command = ["audit", "constructed/stack", "--num-inputs", "60", "--relations", str(path)]
    assert main([*command, "--claim", said]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    claims = tmp_path / "claims.txt"
    claims.write_text("L1H0 attends to tokens at odd positions\nL1H0 attends to tokens at even positions\n")
    assert main([*command, "--claims", str(claims)]) == 2
    line = capsys.readouterr().err
    assert "claims.txt line 2" in line
    assert "'tokens at odd positions'" in line


WRONG = {
    "not Python": ("RELATIONS = [", "SyntaxError"),
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "several lines": ("raise ValueError('one\\ntwo')", "ValueError: one two"),
    "empty": ("", "define none of RELATIONS, CONDITIONS, QUESTIONS"),
    "no list": ("RELATIONS = 3", "relations=3 is not a list of Relations"),
    "of other things": ("CONDITIONS = [3]", "conditions=[3] is not a list of Conditions"),
    "no question": ("QUESTIONS = ['x']", "is not a list of questions"),
    "odd list": ("class L:\n    def __iter__(self): raise KeyError('odd')\nRELATIONS = L()", "KeyError: 'odd'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_cannot_be_taken_is_refused_in_one_line(name, tmp_path, capsys):
    text, message = WRONG[name]
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert main(["audit", "constructed/stack", "--claim", "L1H0 attends to START", "--relations", str(path)]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert "mine.py" in said
    assert "\n" not in said


def test_a_path_that_is_no_python_file_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("RELATIONS = []")
    for given, message in ((tmp_path / "none.py", "No such file"), (tmp_path, "it is a folder"),
                           (tmp_path / "mine.txt", "does not end in .py")):  # fmt: skip
        assert main(["audit", "constructed/stack", "--claim", "L1H0 attends to START", "--relations", str(given)]) == 2
        said = capsys.readouterr().err.strip()
        assert message in said
        assert "\n" not in said
    assert main(["audit", "--bench", "--relations", "mine.py"]) == 2
    assert "--relations" in capsys.readouterr().err
