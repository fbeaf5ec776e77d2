"""What models that count in context are made of and trained by: presets, options, what is not read. No torch."""

from collections.abc import Mapping

from interp.config import TransformerConfig, disentangled_width
from interp.errors import ConfigError, quoted
from interp.recipe import Recipe
from interp.unread import Unread
from interp.world import Preset
from interp.worlds.markov.base import InContext
from interp.worlds.markov.grammar import MarkovGrammar, OrderGrammar
from interp.worlds.markov.graph import CausalGraphGrammar
from interp.worlds.markov.settings import CountingSettings

OPTIONS = {name: name for name in ("states", "order", "length", "beta", "first", "graph", "graph_seed")}


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model that sees the token it is to predict."""
    c = recipe.config
    if c.direction != "causal":
        raise ConfigError(f"direction={quoted(c.direction)}: the token that follows is asked of causal models")
    s = settings_of(recipe)
    if not _no_graph(recipe) and s.answers == "law" and s.loss != "ce":
        raise ConfigError(f"loss={quoted(s.loss)} needs answers='drawn': the law of an answer has a cross entropy only")


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
    """The disentangled model for causal graphs, a head a parent; the answer has a position, too.

    One parent: all weights start at 0, as in Nichani, Damian and Lee 2024. Heads that start alike would stay alike, so
    that of several parents they start at random.
    """
    longest, heads = grammar.length + 1, grammar.order
    width = disentangled_width(grammar.vocab_size, longest, 2, heads)
    return TransformerConfig(
        grammar.vocab_size,
        n_layers=2,
        n_heads=heads,
        d_model=width,
        d_head=width,
        mlp_depth=0,
        block="disentangled",
        embedding="onehot",
        positions="onehot",
        norm="none",
        final_norm=False,
        biases=False,
        scale_scores=False,
        n_ctx=longest,
        init_std=0.0 if heads == 1 else 0.1,
    )


PRESETS: Mapping[str, Preset] = {
    "markov": Preset(
        "2 layers of 1 head without MLP on in-context chains of order 1 (layers=1 is the control)",
        chain,
        CountingSettings(steps=500, batch=32, lr=1e-2, eval_every=50),
        MarkovGrammar,
    ),
    "markov-order-k": Preset(
        "2 layers of k heads without MLP on in-context chains of order k, 2 by itself",
        higher,
        CountingSettings(steps=1000, batch=32, lr=5e-3, eval_every=100),
        OrderGrammar,
    ),
    "causal-graph": Preset(
        "disentangled model of 2 layers, a head a parent, on tokens whose parents are given by a random causal graph",
        graph,
        CountingSettings(steps=2000, batch=128, lr=3.0, optimizer="sgd", eval_every=200),
        CausalGraphGrammar,
    ),
}


def _graph_is_given(recipe: Recipe) -> bool:
    grammar = recipe.grammar
    return isinstance(grammar, CausalGraphGrammar) and grammar.graph != "random"


def _no_graph(recipe: Recipe) -> bool:
    return not isinstance(recipe.grammar, CausalGraphGrammar)


def settings_of(recipe: Recipe) -> CountingSettings:
    """The settings, which are of this world."""
    assert isinstance(recipe.settings, CountingSettings)
    return recipe.settings


def _one_child(recipe: Recipe) -> bool:
    grammar = recipe.grammar
    return isinstance(grammar, CausalGraphGrammar) and grammar.length == 2 * grammar.order + 1


UNREAD: tuple[Unread, ...] = (
    Unread(
        ("grammar.graph", "grammar.graph_seed"),
        _one_child,
        "with length = 2 order + 1 one token of the graph has parents, which are all before it",
        "leave it out, or give a greater length",
    ),
    Unread(("grammar.graph_seed",), _graph_is_given, "it is the seed of graph='random'"),
    Unread(("settings.answers",), _no_graph, "a chain is asked for its next token, which is drawn"),
)
