"""The LSTM beside which Transformers glitch (thesis, L3007 and L3156): one layer, 128 wide, 133,381 weights, 500 steps.

Trained one seed after the other on the strings that a Transformer of that seed reads, with the same loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from interp.rng import generator
from interp.threads import one_thread
from probes.glitches import share_of_reads

WIDTH, STEPS, BATCH, RATE = 128, 500, 32, 3e-3


class Lstm(nn.Module):
    """Token embedding, one LSTM layer, a linear map to logits."""

    def __init__(self, grammar: Any):
        super().__init__()
        self.embed = nn.Embedding(grammar.vocab_size, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, grammar.vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, pos, vocab]."""
        logits: Tensor = self.out(self.lstm(self.embed(tokens))[0])
        return logits


def train_lstm(grammar: Any, seed: int, steps: int = STEPS) -> Lstm:
    """One LSTM: a function of grammar, seed and steps. The global random state stays as it was."""
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        model = Lstm(grammar)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, (step + 1) / 50) * (1 - step / steps)
            tokens = grammar.draw(generator(seed, "train", step), BATCH)
            labels = torch.from_numpy(grammar.labels(tokens))
            loss = nn.functional.cross_entropy(model(torch.from_numpy(tokens)).flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@dataclass(frozen=True)
class Counted:
    """What one LSTM answered to the strings of one law: wrong answers and reads, a string [string]."""

    wrong: NDArray[np.int64]
    asked: NDArray[np.int64]

    @property
    def errors(self) -> int:
        """Wrong answers in all."""
        return int(self.wrong.sum())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"errors": self.errors, **share_of_reads(self.wrong, self.asked).to_dict()}


def count_errors(model: Lstm, grammar: Any, tokens: NDArray[np.int64]) -> Counted:
    """Reads answered wrong among strings [string, pos]."""
    with torch.no_grad():
        parts: Sequence[Tensor] = [model(torch.from_numpy(part)).argmax(-1) for part in np.array_split(tokens, 8)]
    told = torch.cat(list(parts)).numpy()
    asked = grammar.reads(tokens)
    return Counted(((told != 3 + grammar.state(tokens)) & asked).sum(1), asked.sum(1))
