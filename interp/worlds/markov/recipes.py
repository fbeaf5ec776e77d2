"""What models that count in context are made of and trained by: presets, options, what is not read. No torch."""

from collections.abc import Mapping

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.recipe import Recipe
from interp.settings import TrainingSettings
from interp.unread import Unread
from interp.world import Preset
from interp.worlds.markov.base import InContext
from interp.worlds.markov.grammar import MarkovGrammar, OrderGrammar
from interp.worlds.markov.graph import CausalGraphGrammar

OPTIONS = {name: name for name in ("states", "order", "length", "beta", "first", "graph", "graph_seed")}


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model that sees the token it is to predict."""
    c = recipe.config
    if c.direction != "causal":
        raise ConfigError(f"direction={quoted(c.direction)}: the token that follows is asked of causal models")


def _model(grammar: InContext, width: int, longest: int) -> TransformerConfig:
    """Two layers, learned positions, no MLP; as many heads as parents, each of which may find one.

    First weights of .1, not .02: the plateau at the count of single tokens is left in a third of the steps.
    """
    return TransformerConfig(
        grammar.vocab_size,
        n_layers=2,
        n_heads=grammar.order,
        d_model=width,
        d_head=max(8, width // grammar.order),
        d_mlp=width,
        mlp_depth=0,
        positions="learned",
        n_ctx=longest,
        init_std=0.1,
    )


def chain(grammar: MarkovGrammar) -> TransformerConfig:
    """Width 24, for chains."""
    return _model(grammar, 24, grammar.length)


def higher(grammar: MarkovGrammar) -> TransformerConfig:
    """Width 48, for chains of higher order."""
    return _model(grammar, 48, grammar.length)


def graph(grammar: CausalGraphGrammar) -> TransformerConfig:
    """Width 32, for causal graphs; the answer has a position, too."""
    return _model(grammar, 32, grammar.length + 1)


PRESETS: Mapping[str, Preset] = {
    "markov": Preset(
        "2 layers of 1 head without MLP on in-context chains of order 1 (layers=1 is the control)",
        chain,
        TrainingSettings(steps=500, batch=32, lr=1e-2, eval_every=50),
        MarkovGrammar,
    ),
    "markov-order-k": Preset(
        "2 layers of k heads without MLP on in-context chains of order k, 2 by itself",
        higher,
        TrainingSettings(steps=1000, batch=32, lr=5e-3, eval_every=100),
        OrderGrammar,
    ),
    "causal-graph": Preset(
        "2 layers without MLP, a head a parent, on tokens whose parents are given by a random causal graph",
        graph,
        TrainingSettings(steps=3000, batch=128, lr=1e-2, eval_every=300),
        CausalGraphGrammar,
    ),
}


def _graph_is_given(recipe: Recipe) -> bool:
    grammar = recipe.grammar
    return isinstance(grammar, CausalGraphGrammar) and grammar.graph != "random"


UNREAD: tuple[Unread, ...] = (Unread(("grammar.graph_seed",), _graph_is_given, "it is the seed of graph='random'"),)
