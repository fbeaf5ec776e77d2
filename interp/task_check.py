"""Does a model that was not trained here do the task of the grammar in force?

Whoever measures a model in a grammar supposes that its token ids are the grammar's. A model whose ids mean something
else gives plausible numbers about nothing. So such a model is first asked what anybody who speaks the grammar can
answer, on the inputs that are used; at chance it is refused. Importing this module loads no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import Ints, gives_logits, guest_errors, is_bridge, is_model, longest_input, name_of, undisturbed
from interp.label_exam import label_exam
from interp.logits import check_finite, refuse_probabilities
from interp.numbers import number, percent
from interp.recipe import num_labels
from interp.registry import world_of
from interp.stats import SHARE, Estimate, mean_over_inputs, mean_over_seeds
from interp.world import Exam

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float64]
LEAST = 0.1  # of the way from chance to all right: the interval must lie beyond
# Share of places whose most probable token is legal. Of 1,500 orders in which the ids of one trained model can be
# mistaken, 31 pass both this and the question above, 27 of them with a remark.
HALF, SURE = 0.5, 0.9  # below: refused; below: remarked on
FEW = 20  # inputs with a question; with fewer, strings are drawn besides
DRAWN = 40  # how many
LEAST_LENGTH, LENGTH = 6, 28  # tokens after the first: as many as the inputs have, but from 6 on; 28 without any
CELLS = 2**22  # cells of attention of one head held at once


@dataclass(frozen=True)
class TaskCheck:
    """How well models that were not trained here do what their grammar asks.

    - `task`: in words.  `accuracy`: share of right answers, mean over inputs (of several models: over models), with
      its interval; its `null` is chance.
    - `legal`: share of these places whose most probable token of all is legal.
    - `drawn`: how many of the inputs were drawn for it besides those given.  `remark`: what is doubtful, or "".
    - `answer`: what an answer is, a token or a label.
    """

    task: str
    accuracy: Estimate
    legal: float
    drawn: int
    remark: str = ""
    answer: str = "token"

    def __str__(self) -> str:
        also = f", {self.drawn} of them drawn for this" if self.drawn else ""
        chance = self.accuracy.null if isinstance(self.accuracy.null, float) else None
        told = f"not trained here on this grammar; {self.task}: {self.accuracy}{also}; chance {number(chance, 2)}"
        doubt = f": {self.remark}" if self.remark else ""
        return f"{told}; most probable {self.answer} legal at {percent(self.legal)} of places{doubt}"


def check_task(
    models: Sequence[Any], grammar: Any, tokens: Ints | None, seed: int, who: str, wanted: bool = True
) -> TaskCheck | None:
    """The check of those models that were not trained here, or None where there is none to make.

    None for models trained here on this very grammar, for constructed ones, for grammars without a task that is known
    here, for models that see what they should predict, for classifiers, for patterns without a model, and where it is
    not `wanted`.
    `tokens` [input, pos]: the inputs used (None: drawn ones alone).

    Raises `AnalysisError` for a model that is at chance.
    """
    exam = exam_of(grammar) if wanted else None
    if exam is None:
        return None
    if vouched_for(models, grammar):  # a population, whose models need not be built for this
        return None
    strangers = [(i, m) for i, m in enumerate(models) if not vouched_for(m, grammar) and _predicts(m, grammar)]
    if not strangers:
        return None
    task, chance = exam.task, exam.chance
    answer = "label" if hasattr(grammar, "label_names") else "token"
    given = [] if tokens is None else [row for row in tokens if exam.questions(row[None])[0].any()]
    asked = [np.array(given)] if given else []
    drawn = 0
    if len(given) < FEW:
        most = longest_input(strangers[0][1])
        longest = LENGTH if tokens is None else max(LEAST_LENGTH, tokens.shape[1] - 1)
        length = min(LENGTH, longest) if most is None else min(LENGTH, longest, most - 1)
        more = exam.draw(DRAWN, length + 1, seed) if length >= 2 else np.zeros((0, 1), dtype=np.int64)
        if len(more) and (most is None or more.shape[1] <= most):  # some worlds draw strings of their own length only
            asked.append(more)
            drawn = int(exam.questions(more)[0].any(1).sum())
    if not any(exam.questions(part)[0].any() for part in asked):
        raise AnalysisError(
            f"{who}: inputs of {longest_input(strangers[0][1])} tokens at most are too short to ask whether a model "
            f"speaks {quoted(grammar)}; say task_check=False to measure it all the same"
        )
    found = [_together([_answers(model, grammar, exam, part, who) for part in asked]) for _, model in strangers]
    for (i, model), answers in zip(strangers, found, strict=True):
        cure = f"{_cause(model, grammar, exam)}; or say task_check=False to measure an untrained or unrelated model"
        name = f"model {i}" if len(models) > 1 else "this model"
        if answers.legal < HALF:
            raise AnalysisError(
                f"{who}: {name} writes what is not legal: {exam.where}its most probable {answer} is illegal at "
                f"{percent(1 - answers.legal)} of places. {cure}"
            )
        share = mean_over_inputs(answers.right, support=SHARE)
        low = share.value if share.low is None else share.low
        if low is None or low <= chance + LEAST * (1 - chance):
            raise AnalysisError(
                f"{who}: {name} is at chance: {task} {share} where chance is {number(chance, 2)}. {cure}"
            )
        if exam.token_tells and answers.worst <= chance:
            raise AnalysisError(
                f"{who}: {name} is at chance where {grammar.vocab[answers.worst_of]} is right: its most probable token "
                f"is legal at {percent(answers.worst)} of these places, and chance is {percent(chance)}. "
                f"{cure}"
            )
    if len(found) == 1:
        accuracy = mean_over_inputs(found[0].right, support=SHARE)
    else:
        accuracy = mean_over_seeds([x.right.mean() for x in found], support=SHARE)
    legal = float(np.mean([x.legal for x in found]))
    doubtful = min(zip(found, strangers, strict=True), key=lambda pair: pair[0].legal)[1][1]
    remark = _cause(doubtful, grammar, exam) if legal < SURE else _doubt(strangers)
    return TaskCheck(task, accuracy.with_null(chance), legal, drawn, remark, answer)


def exam_of(grammar: Any) -> Exam | None:
    """What to ask whoever is said to speak a grammar, None where nothing is known to ask.

    A world that writes no task has labels to be asked for; another one says itself what is to be asked.
    """
    world = world_of(grammar)
    if world is None:
        return None
    own = world.load("vouch") or (label_exam if world.task is None else None)
    return None if own is None else own(grammar)


def _cause(model: Any, grammar: Any, exam: Exam) -> str:
    """What is wrong, most probably, with a model that does not do the task: in words, without a full stop."""
    own = getattr(model, "grammar", None)
    if own is not None and own != grammar and exam.kin(own):
        return f"It carries {own!r}, whose task is another than that of {grammar!r}: leave out grammar="
    beyond = f", or {exam.beyond}" if exam.beyond else ""
    trained = f"it is not trained to do this, or on shorter strings than these{beyond}"
    if (getattr(model, "provenance", None) or {}).get("mapped"):
        return f"vocab= says of its token ids something else than they mean, or {trained}"
    if is_bridge(model):
        return f"Its token ids are not those of {grammar!r}, or {trained}"
    mapped = "load it with load_foreign(..., vocab=[...]), which maps them"
    return f"Its token ids are probably not those of {grammar!r}: {mapped}; else {trained}"


def _doubt(strangers: Sequence[tuple[int, Any]]) -> str:
    """What was doubtful of a model's token ids when it was loaded."""
    told = ((getattr(model, "provenance", None) or {}).get("doubt") for _, model in strangers)
    return next((str(one) for one in told if one), "")


def vouched_for(model: Any, grammar: Any) -> bool:
    """Whether it was trained here, or constructed, for this very grammar: its ids need no check."""
    told = getattr(model, "provenance", None) or {}
    ours = isinstance(told.get("settings"), dict) or bool(told.get("constructed"))
    return ours and getattr(model, "grammar", None) == grammar


def _predicts(model: Any, grammar: Any) -> bool:
    """Whether its outputs are this grammar's labels, and if these are tokens, of positions that it does not see."""
    cfg = getattr(model, "cfg", None)
    outputs, labels = getattr(cfg, "d_vocab_out", None), getattr(grammar, "label_names", None)
    # A copy is of what stands there to be seen; but of a bridged encoder the head may be drawn at random.
    own = labels is not None or (getattr(grammar, "copies", False) and not is_bridge(model))
    blind = getattr(cfg, "attention_dir", "causal") == "causal" or own
    named = getattr(getattr(model, "config", None), "class_names", None)
    return gives_logits(model) and blind and named in (None, labels) and outputs in (None, -1, num_labels(grammar))


@dataclass(frozen=True)
class _Answers:
    """What one model answered.

    - `right` [input]: share of right answers.  `legal`: share of places whose most probable token of all is legal.
    - `worst`: the same of the right answer of which it is least, `worst_of`.
    """

    right: Array
    legal: float
    worst: float
    worst_of: int


def _together(parts: Sequence[tuple[Array, Array, Ints, Ints]]) -> _Answers:
    """One model's answers to several sets of inputs."""
    right = np.concatenate([part[0] for part in parts])
    each = np.concatenate([part[1] for part in parts])
    legal, places = (sum(part[i] for part in parts) for i in (2, 3))
    share = np.where(places > 0, legal / np.maximum(places, 1), np.inf)
    asked = ~np.isnan(right)
    mean = float(each[asked].mean()) if asked.any() else 0.0
    return _Answers(right[asked], mean, float(share.min()), int(share.argmin()))


def _answers(model: Any, grammar: Any, exam: Exam, tokens: Ints, who: str) -> tuple[Array, Array, Ints, Ints]:
    """Share of right answers [input], and of places whose most probable token is legal [input]; NaN where none is
    asked. Legal ones, and all places, by the right answer [vocab].

    Places are weighted so that each right answer counts for as much as the others: one who always says the same gets
    what chance gives.
    """
    import torch

    asked, right, candidates = exam.questions(tokens)
    size = num_labels(grammar)
    places = np.bincount(right[asked], minlength=size)
    weight = asked / np.maximum(places[np.where(asked, right, 0)], 1)
    where = getattr(getattr(model, "cfg", None), "device", None)
    out = np.full((2, len(tokens)), np.nan)
    by_answer = np.zeros(size, dtype=np.int64)
    rows = max(1, CELLS // tokens.shape[1] ** 2)
    for begin in range(0, len(tokens), rows):
        part = slice(begin, begin + rows)
        ids = torch.from_numpy(tokens[part])
        with undisturbed(model), torch.no_grad(), guest_errors(who, model, f"fails on {ids.shape[1]} tokens"):
            logits = model(ids if where is None else ids.to(where))
        logits = checked_logits(logits, ids.shape, size, who, model)
        check_finite(logits[torch.from_numpy(asked[part])], who, model)  # what stands at PAD nobody reads
        refuse_probabilities(logits, who, model)
        chosen = candidates[logits[..., candidates].argmax(-1).numpy()]
        here, heavy = asked[part].sum(1), weight[part].sum(1)
        good = ((chosen == right[part]) * weight[part]).sum(1)
        out[0, part] = np.where(here > 0, good / np.where(here > 0, heavy, 1), np.nan)
        best = logits.argmax(-1).numpy()
        legal = ((best == right[part]) | exam.also_legal(best, tokens[part])) & asked[part]
        out[1, part] = np.where(here > 0, legal.sum(1) / np.maximum(here, 1), np.nan)
        by_answer += np.bincount(right[part][legal], minlength=size)
    return out[0], out[1], by_answer, places


def checked_logits(logits: Any, shape: Sequence[int], size: int, who: str, model: Any) -> "torch.Tensor":
    """Logits [batch, pos, vocab] as float64 on the CPU. Raises `RequestError` for anything else."""
    import torch

    name = name_of(model)
    if not isinstance(logits, torch.Tensor):
        alone = "; task_check=False measures its attention alone" if is_model(model) else ""
        raise RequestError(
            f"{who}: {name} gives {type(logits).__name__}, and logits [batch, pos, vocab] are needed, a torch.Tensor"
            f"{alone}"
        )
    if tuple(logits.shape[:-1]) == tuple(shape) and logits.shape[-1] != size:
        raise RequestError(
            f"{who}: {name} gives {logits.shape[-1]} logits per token, and the grammar needs {size}, one per label: "
            f"pass a model with d_vocab_out={size}"
        )
    if tuple(logits.shape) != (*shape, size):
        raise RequestError(
            f"{who}: {name} gives logits of shape {list(logits.shape)} for tokens of shape {list(shape)}, and the "
            f"grammar needs {[*shape, size]}: one per label at every token"
        )
    if not logits.is_floating_point() or torch.finfo(logits.dtype).bits < 32:
        raise AnalysisError(
            f"{who}: {name} gives logits of {logits.dtype}, whose rounding is too coarse: pass model.float()"
        )
    return logits.detach().to("cpu", torch.float64)
