"""Sizes of the oracle first layers of Wen et al. 2023, Definition 2. Imports no torch."""

from collections.abc import Mapping
from functools import partial

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.world import Embedding

ORACLES = ("minimal", "minimal-sum", "minimal-angle")  # eqs. 15, 16, 17


def oracle_width(embedding: str, num_types: int, max_depth: int) -> int:
    """d_model of an oracle first layer: eqs. 15-17, and one more coordinate for START."""
    return {
        "minimal": 2 * num_types * max_depth + 1,
        "minimal-sum": 2 * num_types + max_depth + 1,
        "minimal-angle": 2 * num_types + 3,
    }[embedding]


def _check(config: TransformerConfig) -> None:
    name, k, depth = config.embedding, config.num_types, config.max_depth
    if k is None or depth is None:
        raise ConfigError(f"embedding={quoted(name)} needs num_types and max_depth")
    if config.positions != "none":
        raise ConfigError(f"embedding={quoted(name)} sees type and depth only: positions='none'")
    if config.d_vocab != 2 * k + 3:
        raise ConfigError(
            f"embedding={quoted(name)} with num_types={k} needs d_vocab={2 * k + 3}, not {config.d_vocab}"
        )


def _width(config: TransformerConfig, embedding: str) -> int:
    return oracle_width(embedding, config.num_types or 0, config.max_depth or 0)


def _states(config: TransformerConfig) -> int:
    return 2 * (config.num_types or 0) * (config.max_depth or 0) + 3


EMBEDDINGS: Mapping[str, Embedding] = {
    name: Embedding(
        width=partial(_width, embedding=name),
        states=_states,
        check=_check,
        build="interp.worlds.dyck.oracle:OracleEmbed",
        read="interp.worlds.dyck.oracle:states_of",
    )
    for name in ORACLES
}
