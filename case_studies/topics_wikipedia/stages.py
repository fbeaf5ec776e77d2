"""Fig. 2.9: do the layers of a small encoder that learns real text train in two stages?

A Hugging Face Bert of four layers and four heads per layer learns to fill in masked tokens of the study's corpus. W_K,
W_Q and W_V of every layer begin near zero (or, as a control, at the library's default), all weights are trained at
once, and the norms of the three, of all heads of a layer together, are kept at every step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from case_studies.topics_wikipedia.corpus import Piece
from interp.errors import AnalysisError
from interp.progress import progress_bar
from interp.rng import generator
from probes.topics import TwoStageResult, analyze_two_stages

LAYERS, HEADS = 4, 4
ROW = 64  # tokens of an input: the text without special tokens, cut into rows of this length
BATCH = 16
MASKED, KEPT, RANDOM = 0.15, 0.1, 0.1
LAG = 10  # steps between the two W_V whose angle is the rotation (thesis, Fig. 2.9)
PARTS = {"W_Q": "query", "W_K": "key", "W_V": "value"}
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """How a model is trained. `scale`: of the initial W_K, W_Q and W_V; everything else begins at the library's .02."""

    optimizer: Literal["Adam", "SGD"]
    rate: float
    scale: float

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.optimizer} {self.rate:g}, initial scale {self.scale:g}"

    def make(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Its optimizer, without weight decay."""
        if self.optimizer == "SGD":
            return torch.optim.SGD(parameters, lr=self.rate)
        return torch.optim.AdamW(parameters, lr=self.rate, weight_decay=0.0)


# The thesis draws curves of several settings and names none; the last is the control that does not begin near zero.
SETTINGS = (
    Setting("Adam", 1e-3, 1e-3),
    Setting("Adam", 1e-4, 1e-3),
    Setting("SGD", 0.1, 1e-3),  # at 1 these models diverge within 400 steps
    Setting("Adam", 1e-3, 0.02),
)


@dataclass(frozen=True)
class Length:
    """How much is trained: runs per setting, steps, width of the model."""

    runs: int
    steps: int
    width: int


@dataclass(frozen=True)
class StageRuns:
    """Runs of one setting. `layers`: the two stages of each layer, over runs; `loss`: of the last steps, a run.

    `diverged`: the steps at which other runs' losses stopped being numbers: these are left out, and where all have
    diverged there are no layers.
    """

    setting: Setting
    layers: tuple[TwoStageResult, ...]
    loss: tuple[float, ...]
    diverged: tuple[int, ...] = ()


def rows_of(pieces: Sequence[Piece], special: Sequence[int]) -> tuple[Index, Index]:
    """The text as rows [row, ROW] of tokens numbered anew from 1 (0 is the mask), and the ids of those numbers.

    Raises `AnalysisError` for a corpus of less than a row.
    """
    text = np.concatenate([piece.ids for piece in pieces])
    text = text[~np.isin(text, special)]
    if len(text) < ROW:
        raise AnalysisError(f"{len(text)} tokens of text are fewer than the {ROW} that one input of Fig. 2.9 has")
    ids, numbers = np.unique(text, return_inverse=True)
    count = len(text) // ROW
    return np.asarray(1 + numbers[: count * ROW].reshape(count, ROW)), ids


def two_stages(pieces: Sequence[Piece], special: Sequence[int], length: Length, seed: int) -> list[StageRuns]:
    """Train every setting's runs and look for two stages in each layer."""
    rows, ids = rows_of(pieces, special)
    out = []
    for setting in SETTINGS:
        every = [_train(rows, len(ids) + 1, length, setting, seed, number) for number in range(length.runs)]
        runs = [run for run in every if not isinstance(run, int)]
        diverged = tuple(run for run in every if isinstance(run, int))
        layers = []
        for layer in range(LAYERS if runs else 0):
            norms = np.stack([run[0] for run in runs])  # [run, part, layer, step]
            curves = {part: norms[:, k, layer] for k, part in enumerate(PARTS)}
            snapshots = {step: np.stack([run[1][step][layer] for run in runs]) for step in runs[0][1]}
            layers.append(analyze_two_stages(curves, snapshots=snapshots))
        out.append(StageRuns(setting, tuple(layers), tuple(run[2] for run in runs), diverged))
    return out


Trained = tuple[NDArray[np.float64], dict[int, NDArray[np.float32]], float]


def _train(rows: Index, tokens: int, length: Length, setting: Setting, seed: int, number: int) -> Trained | int:
    """Norms [part, layer, step + 1], W_V [layer, ...] at every `LAG` steps, and the mean loss of the last tenth.

    The step instead where the loss or a norm stops being a number.
    """
    draws = generator(seed, "topics-wikipedia/two-stages", number)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(draws.integers(2**31)))
        model = _model(tokens, length.width, setting.scale)
    optimizer = setting.make(model.parameters())
    norms, snapshots, losses = [_norms(model)], {0: _values(model)}, []
    for step in progress_bar(range(1, length.steps + 1), desc=f"Fig. 2.9, {setting.name}, run {number}", leave=False):
        shown, chosen, true = masked(rows[draws.integers(len(rows), size=BATCH)], tokens, draws)
        hidden = model.bert(torch.from_numpy(shown)).last_hidden_state[torch.from_numpy(chosen)]
        loss = torch.nn.functional.cross_entropy(model.cls(hidden), torch.from_numpy(true))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        norms.append(_norms(model))
        if not (np.isfinite(losses[-1]) and np.isfinite(norms[-1]).all()):
            return step
        if step % LAG == 0:
            snapshots[step] = _values(model)
    return np.stack(norms, -1), snapshots, float(np.mean(losses[-max(1, len(losses) // 10) :]))


def masked(rows: Index, tokens: int, draws: np.random.Generator) -> tuple[Index, NDArray[np.bool_], Index]:
    """What is shown [row, position], which positions are to be predicted, and the true tokens of those in order."""
    chosen = draws.random(rows.shape) < MASKED
    chosen[0, 0] |= not chosen.any()  # something is asked at every step
    fate, random = draws.random(rows.shape), draws.integers(1, tokens, rows.shape)
    shown = np.where(~chosen | (fate < KEPT), rows, np.where(fate < KEPT + RANDOM, random, 0))
    return shown, chosen, rows[chosen]


def _model(tokens: int, width: int, scale: float) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=tokens,
        hidden_size=width,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * width,
        max_position_embeddings=ROW,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=None,
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        for layer in _attention(model):
            for part in PARTS.values():
                weight = getattr(layer, part).weight
                weight.mul_(scale / config.initializer_range)
    return model


def _attention(model: Any) -> list[Any]:
    return [layer.attention.self for layer in model.bert.encoder.layer]


def _weight(layer: Any, part: str) -> Tensor:
    weight: Tensor = getattr(layer, PARTS[part]).weight
    return weight.detach()


def _norms(model: Any) -> NDArray[np.float64]:
    """Frobenius norms [part, layer], all heads of a layer together."""
    return np.array([[float(_weight(layer, part).norm()) for layer in _attention(model)] for part in PARTS])


def _values(model: Any) -> NDArray[np.float32]:
    return torch.stack([_weight(layer, "W_V") for layer in _attention(model)]).numpy().copy()
