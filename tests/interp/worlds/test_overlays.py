"""What heatmaps of the younger worlds show over a pattern where nobody says what."""

import numpy as np

from interp.cli import main
from interp.plots import attention_heatmap
from interp.plots.overlays import read_overlay, usual_overlays
from interp.worlds.facts import FactsGrammar
from interp.worlds.markov import MarkovGrammar


def test_all_usual_overlays_are_drawn(tmp_path):
    grammar = FactsGrammar()
    assert usual_overlays(grammar) == ["subject", "relation"]
    assert usual_overlays(None) == []
    out = tmp_path / "facts.html"
    assert main(["heatmap", "facts", "--text", "n0 s2 r1 END", "--seed", "0", "--out", str(out)]) == 0
    assert all(words in out.read_text() for words in ("the subject", "the relation"))


def test_every_token_that_is_counted_is_boxed():
    grammar = MarkovGrammar()
    tokens = grammar.to_tokens("abcab")[0]
    (boxes,) = read_overlay("matched", tokens, grammar, 5, causal=True).boxes
    assert [(q, k) for q, _, k, _ in boxes.rectangles] == [(3, 1), (4, 2)]
    (boxes,) = read_overlay("matched", grammar.to_tokens("aaaa")[0], grammar, 4, causal=True).boxes
    assert [(q, k) for q, _, k, _ in boxes.rectangles] == [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]


def test_a_title_keeps_what_was_written():
    grammar = FactsGrammar()
    tokens = grammar.to_tokens("s0 r0 END")[0]
    figure = attention_heatmap(np.tri(3) / np.tri(3).sum(1, keepdims=True), tokens, grammar=grammar)
    assert "s0 r0 END" in figure.layout.title.text
