"""What training models of brackets takes."""

from interp.model.counts import num_states
from interp.recipe import Recipe
from interp.training.size import CHUNK_BYTES, EVAL_CELLS, Need, activations
from interp.training.task import DRAW_AHEAD, DRAW_BYTES, FINAL_STRINGS
from interp.worlds.dyck.recipes import grammar_of, put_before, settings_of
from interp.worlds.dyck.task import LONG_TO, data_source

COUNTED_BYTES = (
    5e7  # as `CHUNK_BYTES` through counts, where few seeds gain less than their own held-out sets cost: memory
)


def need(recipe: Recipe, exact: bool) -> Need:
    """Bytes, and seeds that train together well."""
    each, common, cells = _bytes(recipe)
    if exact:
        layout = data_source(recipe).layout()
        cells = layout.rows * layout.width
    config = recipe.config
    if settings_of(recipe).compute == "counts":
        size = COUNTED_BYTES / (4 * cells * config.n_heads * num_states(config))
    else:
        size = CHUNK_BYTES / (4 * cells * max(config.d_model, config.d_mlp))
    cure = "take fewer or shorter strings (batch, length, max_length), or a smaller model or grammar"
    return Need(each, common, max(1, int(size)), cure)


def _bytes(recipe: Recipe) -> tuple[float, float, int]:
    """(bytes of each seed, bytes that seeds share, positions of a batch, about) of models of brackets."""
    s, c, grammar = settings_of(recipe), recipe.config, grammar_of(recipe)
    if s.data == "complete":
        lengths, probs = grammar.length_distribution(s.min_length, s.max_length)
        width, mean = int(lengths.max()) + 1, float(lengths @ probs) + 1
    else:
        width, mean = s.length, float(s.length)
    nested = put_before(recipe)
    cells = max(2 * width, s.batch * mean)
    training = activations(c, width) * cells
    again = s.batch * ((mean if s.contrast == "nested" else width) + nested) if nested else 0  # with pairs before
    training += activations(c, width + nested) * again
    longest = width if c.positions == "learned" and c.n_ctx < LONG_TO else max(width, LONG_TO)
    # Nothing is kept for gradients; strings that are long are read one at a time.
    passed = max(EVAL_CELLS * activations(c, min(width, 64)), longest * activations(c, longest)) / 2
    counted = num_states(c) if s.compute == "counts" else 0
    reading = 8 * counted * cells * (2 + c.n_heads * 8)
    batch = (16 + 8 * counted) * cells
    drawn = 2 * min(max(DRAW_BYTES, batch), DRAW_AHEAD * batch)
    held_out = FINAL_STRINGS * (100 * width + (12 * c.d_out + 8 * counted) * mean)
    law = 100 * (s.max_length + 2) * (grammar.max_depth + 1) if s.data == "complete" else 0
    visible = 2 * cells * width + 2 * again * (width + nested)
    return max(training + reading + drawn, passed), held_out + law + visible, int(cells)
