"""How many seeds train together, and what memory a run needs: estimated before anything is drawn or written."""

import torch

from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.grammars import TopicGrammar
from interp.header import MAX_HEADER_BYTES
from interp.limits import JSON_COST, check_memory
from interp.model import SandboxTransformer
from interp.model.counts import num_states
from interp.presets import Recipe
from interp.training.objective import DRAW_AHEAD, DRAW_BYTES, FINAL_STRINGS, LONG_TO, data_source
from interp.training.topics import FINAL_DOCUMENTS, row_capacity

CHUNK_BYTES = 2.5e6  # of one activation of a chunk; beyond, it leaves the processor's cache before it is read again
COUNTED_BYTES = 5e7  # the same through counts, where few seeds gain less than their own held-out sets cost: memory
TOPIC_BYTES = 1.2e9  # of all that a chunk of topic models holds
EVAL_CELLS = 1536  # positions of a forward pass of an evaluation, about
ROW_BYTES, ENTRY_BYTES = 50, 30  # of a row of measurements, and of each of its numbers, in a file's header


def seeds_that_fit(recipe: Recipe, cells: int | None = None) -> int:
    """How many seeds train together well; `cells`: positions of a batch of brackets (None: counted exactly)."""
    config = recipe.config
    if isinstance(recipe.grammar, TopicGrammar):
        return max(1, int(TOPIC_BYTES / _topic_bytes(recipe)[0]))
    if cells is None:
        layout = data_source(recipe).layout()
        cells = layout.rows * layout.width
    if recipe.settings.compute == "counts":
        size = COUNTED_BYTES / (4 * cells * config.n_heads * num_states(config))
    else:
        size = CHUNK_BYTES / (4 * cells * max(config.d_model, config.d_mlp))
    return max(1, int(size))


def check_training(recipe: Recipe, seeds: int, most: int) -> None:
    """Raise `RequestError` for a run of which one process would need more memory than the bound.

    `most`: of the `seeds`, how many train together if their batches are small.
    """
    s = recipe.settings
    tensors, params = _parameters(recipe.config)
    tables = 1 + len(s.snapshots)
    evaluations = s.steps // s.eval_every + 2 + len(s.snapshots)
    numbers = 10 + (tensors if s.snapshots or isinstance(recipe.grammar, TopicGrammar) else 0)
    header = seeds * evaluations * (ROW_BYTES + ENTRY_BYTES * numbers)
    # At the end all states lie beside the population that is made of them, and beside what is written.
    whole = 4 * seeds * params * (2 + 3 * tables) + JSON_COST * header
    cure = "train fewer seeds, evaluate less often (eval_every), or keep fewer snapshots"
    check_memory(
        f"a population of {seeds} model(s) of {params:,} weights, measured {evaluations:,} times,", whole, cure
    )
    if header > MAX_HEADER_BYTES:
        raise RequestError(
            f"{seeds} models measured {evaluations:,} times make a table of about {header / 1e6:,.0f} MB, and a "
            f"checkpoint's header holds {MAX_HEADER_BYTES / 1e6:,.0f} MB: {cure}"
        )
    if isinstance(recipe.grammar, TopicGrammar):
        each, common = _topic_bytes(recipe)
        together = min(seeds, most, seeds_that_fit(recipe))
        cure = "take fewer or shorter documents (batch, max_length) or fewer words"
    else:
        each, common, cells = _dyck_bytes(recipe)
        together = min(seeds, most, seeds_that_fit(recipe, cells))
        cure = "take fewer or shorter strings (batch, length, max_length), or a smaller model or grammar"
    moments = 4 * params * 6
    check_memory(
        f"training {together} model(s) of {recipe.name!r} together", (each + moments) * together + common, cure
    )


def _parameters(config: TransformerConfig) -> tuple[int, int]:
    """(how many tensors, how many weights) one model learns."""
    with torch.device("meta"):
        sizes = [p.numel() for p in SandboxTransformer(config).parameters()]
    return len(sizes), sum(sizes)


def _dyck_bytes(recipe: Recipe) -> tuple[float, float, int]:
    """(bytes of each seed, bytes that seeds share, positions of a batch, about) of models of brackets."""
    s, c, grammar = recipe.settings, recipe.config, recipe.dyck
    if s.data == "complete":
        lengths, probs = grammar.length_distribution(s.min_length, s.max_length)
        width, mean = int(lengths.max()) + 1, float(lengths @ probs) + 1
    else:
        width, mean = s.length, float(s.length)
    nested = 2 * grammar.max_depth if s.contrastive else 0  # pairs are put before each string
    cells = max(2 * width, s.batch * mean)
    training = _activations(c, width) * cells
    if nested:
        training += _activations(c, width + nested) * s.batch * (mean + nested)
    longest = width if c.positions == "learned" and c.n_ctx < LONG_TO else max(width, LONG_TO)
    # Nothing is kept for gradients; strings that are long are read one at a time.
    passed = max(EVAL_CELLS * _activations(c, min(width, 64)), longest * _activations(c, longest)) / 2
    counted = num_states(c) if s.compute == "counts" else 0
    reading = 8 * counted * cells * (2 + c.n_heads * 8)
    batch = (16 + 8 * counted) * cells
    drawn = 2 * min(max(DRAW_BYTES, batch), DRAW_AHEAD * batch)
    held_out = FINAL_STRINGS * (100 * width + (12 * c.d_out + 8 * counted) * mean)
    law = 100 * (s.max_length + 2) * (grammar.max_depth + 1) if s.data == "complete" else 0
    visible = 2 * cells * width + (2 * s.batch * (mean + nested) * (width + nested) if nested else 0)
    return max(training + reading + drawn, passed), held_out + law + visible, int(cells)


def _activations(config: TransformerConfig, width: int) -> float:
    """Bytes a position that a training step keeps of one model, in strings of `width`."""
    c = config
    layer = 24 * c.d_model + 6 * c.d_mlp * bool(c.mlp_depth) + 8 * c.n_heads * c.d_head + 6 * c.n_heads * width
    return 4.0 * (c.n_layers * layer + 6 * c.d_out + 4 * c.d_model)


def _topic_bytes(recipe: Recipe) -> tuple[float, float]:
    """(bytes of each seed, bytes that seeds share) of topic models."""
    s, grammar = recipe.settings, recipe.grammar
    assert isinstance(grammar, TopicGrammar)
    vocab, merge = grammar.vocab_size, recipe.config.attention == "uniform"
    if s.data == "exact":
        rows = len(grammar.topic_subsets()) * (1 if merge else vocab)
        return 24.0 * vocab * (rows + vocab), 40.0 * rows * vocab
    share = grammar.mask_prob * (grammar.keep_prob + grammar.random_prob)
    held_out = FINAL_DOCUMENTS * (1 if merge else 1 + grammar.max_length * share)
    drawn = DRAW_AHEAD * (row_capacity(grammar, s.batch, merge) + s.batch)
    words = DRAW_AHEAD * s.batch * grammar.max_length
    return vocab * (24 * held_out + 8 * drawn + 24 * vocab), vocab * (20 * held_out + 16 * drawn) + 60 * words
