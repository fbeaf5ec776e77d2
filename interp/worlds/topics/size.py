"""What training topic models takes."""

from interp.recipe import Recipe
from interp.training.size import Need
from interp.training.task import DRAW_AHEAD
from interp.worlds.topics.recipes import grammar_of, settings_of
from interp.worlds.topics.task import FINAL_DOCUMENTS, row_capacity

CHUNK_BYTES = 1.2e9  # of all that a chunk holds


def need(recipe: Recipe, exact: bool) -> Need:
    """Bytes, and seeds that train together well; nothing has to be counted for it."""
    each, common = _bytes(recipe)
    cure = "take fewer or shorter documents (batch, max_length) or fewer words"
    return Need(each, common, max(1, int(CHUNK_BYTES / each)), cure)


def _bytes(recipe: Recipe) -> tuple[float, float]:
    """(bytes of each seed, bytes that seeds share) of topic models."""
    s, grammar = settings_of(recipe), grammar_of(recipe)
    vocab, merge = grammar.vocab_size, recipe.config.attention == "uniform"
    if s.data == "exact":
        rows = len(grammar.topic_subsets()) * (1 if merge else vocab)
        return 24.0 * vocab * (rows + vocab), 40.0 * rows * vocab
    share = grammar.mask_prob * (grammar.keep_prob + grammar.random_prob)
    held_out = FINAL_DOCUMENTS * (1 if merge else 1 + grammar.max_length * share)
    drawn = DRAW_AHEAD * (row_capacity(grammar, s.batch, merge) + s.batch)
    words = DRAW_AHEAD * s.batch * grammar.max_length
    return vocab * (24 * held_out + 8 * drawn + 24 * vocab), vocab * (20 * held_out + 16 * drawn) + 60 * words
