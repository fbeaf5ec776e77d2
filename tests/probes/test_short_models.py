"""Models of few positions: an analyzer that draws its own strings draws such as fit, and says so."""

from inspect import signature

import pytest

from interp import SandboxTransformer, TransformerConfig
from interp.errors import InterpError
from interp.grammars import DyckGrammar
from interp.world import load
from interp.worlds.flipflop import FlipFlopGrammar
from probes import load_result
from probes.analyzers import find_analyzers

DYCK, FLIPFLOP = DyckGrammar(2, 2), FlipFlopGrammar(32)
BESIDE = {"balance": 1 + 2 * 2, "stack": 1, "glitches": 0, "drift": 0}  # tokens beside the string's
USUAL = {"balance": 28, "stack": 28, "glitches": 32, "drift": 32}
DRAWING = {
    name: load(analyzer.run)
    for name, analyzer in find_analyzers()[0].items()
    if "length" in signature(load(analyzer.run)).parameters
}


def model_of(name, room):
    grammar = FLIPFLOP if "flipflop" in find_analyzers()[0][name].worlds else DYCK
    config = TransformerConfig(
        grammar.vocab_size, n_layers=2, n_heads=2, d_model=8, d_head=4, d_mlp=8, positions="learned", n_ctx=room
    )
    return SandboxTransformer.init(config, 0, grammar)


def told(name, room, **how):
    return DRAWING[name](model_of(name, room), task_check=False, untrained=False, **how)


def test_these_analyzers_choose_a_length():
    assert set(DRAWING) == set(USUAL)
    assert all(signature(run).parameters["length"].default is None for run in DRAWING.values())


@pytest.mark.parametrize("short", [1, 5, 12])
@pytest.mark.parametrize("name", DRAWING)
def test_a_usual_length_is_cut_to_what_fits_and_a_given_one_is_refused(name, short, tmp_path):
    """`short` tokens too few for what is usual."""
    room = BESIDE[name] + USUAL[name] - short
    result = told(name, room)
    size = USUAL[name] - short - (short % 2 if name in ("glitches", "drift") else 0)  # a string of pairs
    said = f"strings of {size} "
    assert said in result.summary()
    if name != "drift":  # which tells the length of every result
        assert result.shorter[0].startswith(
            f"{said}{'tokens' if name == 'glitches' else 'brackets'}, not {USUAL[name]}"
        )
        assert result.shorter[0] in " ".join(result.summary().split())
        assert load_result(result.save(tmp_path / "a.json")).shorter == result.shorter
    with pytest.raises(InterpError, match=f"n_ctx={room}"):
        told(name, room, length=USUAL[name])
    asked = told(name, room, length=size)
    assert getattr(asked, "shorter", ()) == ()  # it was wanted so
    assert asked.to_dict() == {key: value for key, value in result.to_dict().items() if key != "shorter"}


@pytest.mark.parametrize("name", sorted(set(DRAWING) - {"drift"}))
def test_where_the_usual_length_fits_nothing_is_said(name):
    result = told(name, BESIDE[name] + USUAL[name])
    assert result.shorter == ()
    assert "shorter" not in result.to_dict()


def test_where_no_length_fits_the_usual_one_is_refused():
    with pytest.raises(InterpError, match="no length fits"):
        told("balance", 5)
