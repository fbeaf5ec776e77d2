"""What anybody who speaks a bracket grammar can answer: asked of models that were not trained here."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from interp.world import Exam, Ints
from interp.worlds.dyck.grammar import DyckGrammar


def exam(grammar: DyckGrammar) -> Exam:
    """The questions of this grammar."""
    task, chance = _task_of(grammar)
    return Exam(
        task=task,
        chance=chance,
        where=_after(grammar),
        token_tells=_token_tells(grammar),
        beyond=f"on less deep ones: max_depth={grammar.max_depth} is asked (load_foreign(..., max_depth=N) asks "
        'another, or {"max_depth": N} in --model-config)',
        questions=partial(questions, grammar=grammar),
        also_legal=partial(_also_legal, grammar=grammar),
        draw=partial(_draw, grammar=grammar),
        kin=lambda other: isinstance(other, DyckGrammar),
    )


def _draw(count: int, length: int, seed: int, grammar: DyckGrammar) -> Ints:
    strings = grammar.sample(count, mode="prefix", length=length - 1, seed=seed, stream="task-check")
    return DyckGrammar.to_tokens(grammar, strings)


def _task_of(grammar: DyckGrammar) -> tuple[str, float]:
    """What is asked, in words, and the share of right answers of one who guesses."""
    k = grammar.num_types
    if grammar.copies:  # a copy of other ids is a copy too
        return "most probable bracket is the one it reads (which tells nothing of the order of token ids)", 1 / (2 * k)
    if k == 1:
        return "most probable bracket is the only legal one", 0.5
    return f"{_after(grammar)}most probable closer has the right type", 1 / k


def _after(grammar: DyckGrammar) -> str:
    """Where brackets are asked about, in words."""
    return "" if _token_tells(grammar) else "after a closing bracket, "


def _token_tells(grammar: DyckGrammar) -> bool:
    """Whether the token read decides the answer, so that one who gives each token a fixed one may be right by luck."""
    return grammar.copies or grammar.num_types == 1 or grammar.max_depth == 1


def questions(tokens: Ints, grammar: DyckGrammar) -> tuple[NDArray[np.bool_], Ints, Ints]:
    """(where something is asked [input, pos], the right token there, candidates [n]) of token ids [input, pos].

    Brackets are asked about where the token read is a closer: right after an opener a model that looks no further
    than its current token, an untrained one too, may be right.
    """
    bracket = tokens < grammar.start
    k = grammar.num_types
    if grammar.copies:
        return bracket, tokens, np.arange(2 * k)
    depth, top = grammar.depth(tokens), grammar.stack_top(tokens)
    before = (bracket | (tokens == grammar.start)) & (depth >= 0)
    if k == 1:
        forced = before & ((depth == 0) | (depth == grammar.max_depth))
        return forced, (depth > 0).astype(np.int64), np.arange(2)
    # The opener on top says which closing bracket is legal after each token, whether one follows or not.
    opener = np.take_along_axis(tokens, np.maximum(top, 0), axis=1)
    inside = before & (top >= 0) & (depth > 0)
    after = bracket & (tokens % 2 == 1) if grammar.max_depth > 1 else bracket
    return inside & after, opener + 1, np.arange(1, 2 * k, 2)


def _also_legal(best: Ints, tokens: Ints, grammar: DyckGrammar) -> NDArray[np.bool_]:
    """Which tokens [input, pos] are legal after these, beside the right answer."""
    if grammar.copies:
        return np.zeros(best.shape, dtype=bool)
    depth = grammar.depth(tokens)
    opens = (best < grammar.start) & (best % 2 == 0) & (depth < grammar.max_depth)
    return np.asarray(opens | ((best == grammar.end) & (depth == 0)))
