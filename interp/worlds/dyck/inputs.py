"""What models of brackets are usually shown. Imports no torch."""

from interp.worlds.dyck.grammar import DyckGrammar

PAPER_SENTENCE = "[[[[]]]](((())))"  # of Wen et al. 2023, 4.1
TABLE_LENGTH = 19  # brackets of a prefix, as in the paper's Table 1


def sentence(grammar: DyckGrammar) -> str | None:
    """The paper's one sentence, where the grammar has it: k >= 2 and D >= 4."""
    return PAPER_SENTENCE if grammar.num_types >= 2 and grammar.max_depth >= 4 else None


def texts(grammar: DyckGrammar, count: int, seed: int, stream: str) -> list[str]:
    """Prefixes of `TABLE_LENGTH` brackets."""
    rows = grammar.sample(count, seed=seed, mode="prefix", length=TABLE_LENGTH, stream=stream)
    return [grammar.format(row) for row in rows]
