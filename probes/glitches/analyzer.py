"""Glitches: reads answered wrong, on the law of training, on sparser and on denser strings (thesis, section 3.5.2).

FFL(.98) has few writes and reads, far apart; FFL(.1) many, close together. Both have strings that FFL(.8) has, too,
so that who learnt to read answers them. Errors are counted a read, not a string (of FFL(512; .98) a string has 3.54).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import optional_whole, plain, true_or_false, whole_number
from interp.errors import AnalysisError, GrammarError, RequestError, quoted
from interp.guests import (
    check_length,
    grammar_of,
    guest_errors,
    hosting,
    longest_input,
    models_of,
    undisturbed,
    untrained_of,
)
from interp.limits import check_memory
from interp.logits import check_finite
from interp.rng import check_seed, generator
from interp.stats import Estimate
from interp.task_check import check_task, checked_logits
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from probes.core import clopper_pearson, cut_short, errors_over_seeds, recorded
from probes.glitches.counts import share_of_reads
from probes.glitches.result import GlitchResult, Spread

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

LAWS = (0.8, 0.98, 0.1)  # p_i of the thesis: training, sparse, dense
READS = 4000  # of each law, at least
BLOCK = 256  # strings drawn at a time
CELLS = 2**21  # cells of attention of one head held at once
WHO = "glitches"


@recorded
@hosting(WHO)
def analyze_glitches(
    model: Any,
    *,
    grammar: Any = None,
    laws: Sequence[float] = LAWS,
    reads: int = READS,
    length: int | None = None,
    seed: int = 0,
    untrained: bool = True,
    task_check: bool = True,
) -> GlitchResult:
    """Errors per read of a model, a population, or a list of models of one shape, on the law with each p_i of `laws`.

    Reads are positions after r; of transduction, no-ops. An answer is right if the stored bit has the largest logit
    of all. Strings are drawn with `seed`, the same for all models, until they hold `reads` reads (4,000 per law);
    `length` is how many tokens each has: the grammar's own number, or the most that the models take.

    The interval of one model is Clopper and Pearson's with strings as clusters (`share_of_reads`), n the independent
    reads that these count for; that of a population is over seeds, and where few seeds err there is none
    (`errors_over_seeds`). Null: the same before training, a model that answers either bit at random, and one that
    remembers the last 8 tokens (all on the same strings).

    Raises `AnalysisError` when no grammar of flip-flops is known, a model is not causal, takes shorter strings, or is
    at chance in the task; `RequestError` for laws that are none.
    """
    seed, untrained, task_check = check_seed(seed), true_or_false("untrained", untrained), _flag(task_check)
    reads = whole_number("reads", reads, 1, 10**8)
    models = models_of(model, WHO)
    grammar = flipflop_of(model, models, grammar, WHO)
    size = optional_whole("length", length, _fitting(models[0], grammar), 2)
    check_length(models[0], size, WHO)
    chosen = checked_laws(laws)
    drawn = {law: glitch_strings(grammar, law, size, reads, seed) for law in chosen}
    checked = check_task(models, grammar, drawn[chosen[0]][:64], seed, WHO, task_check)
    counted = {law: _count(models, grammar, tokens) for law, tokens in drawn.items()}
    fresh = untrained_of(model) if untrained else None
    start = {law: None if fresh is None else _count(fresh, grammar, tokens) for law, tokens in drawn.items()}
    nulls = {law: _nulls(grammar, drawn[law], counted[law], start[law]) for law in chosen}
    return GlitchResult(
        errors={name_of(law): _headline(counted[law]).with_null(nulls[law]) for law in chosen},
        each={name_of(law): counted[law].each() for law in chosen},
        spread={name_of(law): _spread(counted[law]) for law in chosen},
        strings={name_of(law): len(drawn[law]) for law in chosen},
        reads={name_of(law): int(counted[law].asked.sum()) for law in chosen},
        trained_on=tuple(map(name_of, grammar.ignore)),
        length=size,
        num_models=len(models),
        task_check=checked,
        shorter=() if length is not None else cut_short(size, grammar.length, "token", models[0]),
    )


def _fitting(model: Any, grammar: Any) -> int:
    """Tokens of a string of the grammar, or the most that the model takes and a string may have."""
    most = longest_input(model)
    if most is None or most >= grammar.length:
        return int(grammar.length)
    return max(2, most - most % 2 if isinstance(grammar, FlipFlopGrammar) else most)


def _flag(task_check: Any) -> bool:
    return true_or_false("task_check", task_check)


def name_of(law: float) -> str:
    """How a law is called: its p_i, with as many digits as tell it from any other."""
    return f"{law:g}" if float(f"{law:g}") == law else repr(float(law))


def checked_laws(laws: Any) -> tuple[float, ...]:
    """The p_i that were given. Raises `RequestError` for what is none, for one twice, and for no law at all."""
    listed = laws.tolist() if isinstance(laws, (np.ndarray, np.generic)) else laws
    given = tuple(map(plain, listed)) if isinstance(listed, (list, tuple)) else (listed,)
    wrong = [p for p in given if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1]
    if wrong or not given or len(set(given)) < len(given):
        raise RequestError(f"laws={quoted(laws)} are no probabilities of ignoring: give distinct numbers from 0 to 1")
    return tuple(float(p) for p in given)


def flipflop_of(given: Any, models: Sequence[Any], grammar: Any, who: str) -> FlipFlopGrammar | TransductionGrammar:
    """The grammar in force, one of flip-flops, of causal models. Raises `AnalysisError` for any other."""
    found = grammar_of(given, models, grammar, who)
    if not isinstance(found, (FlipFlopGrammar, TransductionGrammar)):
        what = "no grammar is known" if found is None else f"{quoted(found)} is not a grammar of flip-flops"
        raise AnalysisError(f"{who}: {what}: pass models of the world 'flipflop', or grammar=")
    if getattr(models[0].cfg, "attention_dir", "causal") != "causal":
        raise AnalysisError(f"{who}: this model attends to later tokens, where the answer stands: pass a causal one")
    return found


def glitch_strings(grammar: Any, law: float, length: int, reads: int, seed: int) -> Ints:
    """Strings [string, length] with p_i = `law`, as many blocks as hold `reads` reads; a quarter as many strings."""
    from dataclasses import replace

    try:
        own = replace(grammar.with_ignore(law), length=length)
    except GrammarError as error:
        raise AnalysisError(f"{WHO}: {error}") from error
    rng = generator(seed, f"glitches/{law:g}")  # of six digits: laws closer than that draw from one stream
    parts: list[Ints] = []
    found = 0
    while found < reads or len(parts) * BLOCK < reads // 4:  # of few strings with many reads little would be known
        parts.append(own.draw(rng, BLOCK))
        more = int(own.reads(parts[-1]).sum())
        if more == 0:
            raise AnalysisError(f"{WHO}: with ignore={name_of(law)} nothing is read in strings of {length} tokens")
        found += more
        told = f"{WHO} of {reads:,} reads, {found / len(parts) / BLOCK:.3g} a string of {length} tokens,"
        check_memory(told, 16.0 * length * len(parts) * BLOCK * reads / found, "take fewer reads")
    return np.concatenate(parts)


@dataclass(frozen=True)
class Counted:
    """Answers of several models to the same strings: wrong ones [model, string], and how many were asked [string]."""

    wrong: Ints
    asked: Ints

    @property
    def share(self) -> Array:
        """Errors a read [model]."""
        return np.asarray(self.wrong.sum(1) / self.asked.sum())

    def each(self) -> tuple[Estimate, ...]:
        """The same with the interval of each model."""
        return tuple(share_of_reads(wrong, self.asked) for wrong in self.wrong)


def _count(models: Sequence[Any], grammar: Any, tokens: Ints) -> Counted:
    asked = grammar.reads(tokens)
    right = grammar.state(tokens) + (3 if isinstance(grammar, FlipFlopGrammar) else 0)
    size = len(getattr(grammar, "label_names", grammar.vocab))
    wrong = [(((answers(model, tokens, size, WHO) != right) & asked).sum(1)) for model in models]
    return Counted(np.stack(wrong), asked.sum(1))


def answers(model: Any, tokens: Ints, size: int, who: str) -> Ints:
    """The most probable of `size` labels at each position [string, pos]."""
    import torch

    out = np.empty(tokens.shape, dtype=np.int64)
    rows = max(1, CELLS // tokens.shape[1] ** 2)
    where = getattr(getattr(model, "cfg", None), "device", None)
    for first in range(0, len(tokens), rows):
        ids = torch.from_numpy(tokens[first : first + rows])
        with undisturbed(model), torch.no_grad(), guest_errors(who, model, f"fails on {ids.shape[1]} tokens"):
            logits = model(ids if where is None else ids.to(where))
        logits = checked_logits(logits, ids.shape, size, who, model)
        check_finite(logits, who, model)
        out[first : first + rows] = logits.argmax(-1).numpy()
    return out


def _headline(counted: Counted) -> Estimate:
    if len(counted.wrong) == 1:
        return counted.each()[0]
    return errors_over_seeds(counted.share)


def _nulls(grammar: Any, tokens: Ints, counted: Counted, start: Counted | None) -> dict[str, float | None]:
    short = next(nll for name, nll in grammar.rungs(tokens).items() if name.startswith("last"))
    asked = grammar.reads(tokens)
    unknown = float((asked & (short > 0)).sum() / asked.sum())
    return {
        "untrained": None if start is None else float(start.share.mean()),
        "either bit": 0.5,
        "last 8 tokens": unknown / 2,
    }


def _spread(counted: Counted) -> Spread:
    least, quarter, median, more, most = np.quantile(counted.share, (0, 0.25, 0.5, 0.75, 1)).tolist()
    bad = clopper_pearson(int((counted.wrong.sum(1) > 0).sum()), len(counted.wrong), over="seeds")
    return Spread(least, quarter, median, more, most, bad)
