"""Whether a model's ids may mean something else than was said: its loss with the meanings of two ids exchanged.

A model asked for its task under a wrong mapping may pass all the same, where the mistaken ids matter little to that
task. It then predicts the world's strings better under the right one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.guests import undisturbed
from interp.stats import Estimate, mean_over_inputs
from interp.task_check import exam_of

STRINGS, LENGTH = 64, 24  # drawn, and their tokens
MOST = 64  # exchanges that are tried, those of special tokens first
ERROR = 0.05  # of finding one where there is none
LEAST = 1e-3  # nats a token that an exchange must gain: less is no other mapping
MUCH = 0.1  # so much is no matter of how a model was trained: refused
SPECIAL = ("start", "end", "pad")

Order = tuple[int | None, ...]


@dataclass(frozen=True)
class Exchange:
    """A mapping under which the model predicts better: `said`, what was exchanged; `gain`, nats a token over inputs."""

    said: str
    gain: Estimate

    @property
    def much(self) -> bool:
        """Whether it is more than a doubt."""
        return self.gain.low is not None and self.gain.low >= MUCH

    def __str__(self) -> str:
        return (
            f"with {self.said} exchanged it predicts this world's strings better, by {self.gain} nats a token: vocab= "
            "may say something else than its ids mean"
        )


def better_mapping(model: Any, order: Order, grammar: Any, names: Sequence[str] | None) -> Exchange | None:
    """The exchange of two ids' meanings that lowers the loss most, if one does for sure, all together at 95 %.

    `model` takes its own ids; `order`: which of them each token of the grammar is; `names`: what they are called.
    """
    exam = exam_of(grammar)
    if exam is None or hasattr(grammar, "label_names"):
        return None
    cfg = model.cfg
    longest = cfg.n_ctx if isinstance(cfg.n_ctx, int) and cfg.n_ctx > 0 else LENGTH
    tokens = exam.draw(STRINGS, min(LENGTH, longest), 0)
    pad = getattr(grammar, "pad", None)
    if len(tokens) < 2 or not 2 <= tokens.shape[1] <= longest or (pad is not None and (tokens == pad).any()):
        return None
    if any(order[token] is None for token in set(tokens.flat)):  # the model lacks what the strings are of
        return None
    tried = [*_exchanges(order, cfg.d_vocab, grammar, names)][:MOST]
    never = set(range(len(order))) - set(tokens[:, 1:].flat)  # what comes next in none of the strings
    rest = {at for i in never if (at := order[i]) is not None}
    own = _loss(model, tokens, order, rest)
    gains = [(said, own - _loss(model, tokens, other, rest)) for said, other in tried]
    if not gains:
        return None
    said, gain = max(gains, key=lambda pair: float(pair[1].mean()))
    found = mean_over_inputs(gain, level=1 - 2 * ERROR / len(gains))  # one-sided
    return Exchange(said, found) if found.low is not None and found.low > LEAST else None


def _exchanges(order: Order, size: int, grammar: Any, names: Sequence[str] | None) -> Iterator[tuple[str, Order]]:
    """Mappings in which two ids are mistaken for each other, with words for it: special tokens first."""
    special = [at for kind in SPECIAL if (at := getattr(grammar, kind, None)) is not None]
    here = [i for i, at in enumerate(order) if at is not None]
    unused = [at for at in range(size) if at not in order] if size <= MOST else []
    first = [i for i in special if i in here]
    rest = [i for i in here if i not in first]

    def called(at: int) -> str:
        return f"id {at}" if names is None or at >= len(names) else f"id {at} ({names[at]})"

    for place, one in enumerate(first):
        for other in [*first[place + 1 :], *rest]:
            if order[one] != order[other]:
                yield f"{grammar.vocab[one]} and {grammar.vocab[other]}", _swapped(order, one, other)
        for at in unused:
            yield f"{grammar.vocab[one]} and {called(at)}", (*order[:one], at, *order[one + 1 :])
    for place, one in enumerate(rest):
        for other in rest[place + 1 :]:
            if order[one] != order[other]:
                yield f"{grammar.vocab[one]} and {grammar.vocab[other]}", _swapped(order, one, other)


def _swapped(order: Order, one: int, other: int) -> Order:
    new = list(order)
    new[one], new[other] = new[other], new[one]
    return tuple(new)


def _loss(model: Any, tokens: NDArray[np.int64], order: Order, rest: set[int]) -> NDArray[np.float64]:
    """Nats a token [input] of what comes next, among the tokens that do in some string and the ids `rest`.

    Those are the same for all mappings: a token that never comes next, END say, would else gain by being taken for an
    id that the model never predicts.
    """
    own = np.array([-1 if at is None else at for at in order])
    ids = torch.from_numpy(own[tokens]).to(model.cfg.device)
    among = sorted(rest | set(own[tokens[:, 1:]].flat))
    with undisturbed(model), torch.no_grad():
        logits = model(ids)[:, :-1].double()
    right = logits.gather(-1, ids[:, 1:, None])[..., 0]
    return np.asarray((logits[..., among].logsumexp(-1) - right).mean(1).cpu())
