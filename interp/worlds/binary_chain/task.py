"""Training of models of a binary chain: the shared loss, which weights learn, and from which they start."""

from interp.functional import Params
from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.training.task import TokenTask
from interp.worlds.binary_chain.constructed import canonical_weights
from interp.worlds.binary_chain.grammar import BinaryChain
from interp.worlds.binary_chain.recipes import settings_of

OUTPUT_BIAS = "unembed.b_U"


class ChainTask(TokenTask):
    """`TokenTask`; with trained='slides' the biases of attention and MLP stay at 0, as the slides have none."""

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        super().__init__(template, recipe, device)
        if settings_of(recipe).trained == "slides":
            self.trained = [name for name in self.trained if name == OUTPUT_BIAS or not is_bias(name)]


def is_bias(name: str) -> bool:
    """Whether a parameter is a bias."""
    return name.rsplit(".", 1)[-1].startswith("b_")


def start_params(params: Params, recipe: Recipe) -> Params:
    """First weights of one model: drawn, or with the canonical ones put in."""
    s, grammar = settings_of(recipe), recipe.grammar
    assert isinstance(grammar, BinaryChain)
    if s.start == "gaussian":
        return params
    return canonical_weights(params, s.start_e, s.start_w, grammar)
