"""The released code's training of jointly trained models, where the presets of `interp` do otherwise.

YuchenLi01/transformer_topic_model_LDA, `src/dataset.py`, `src/transformer.py`, `src/training_regimen.py`:

- a document stands between START and END, which are attended to like words; the vocabulary is PAD, [MASK], START, END
  and the words, and a random token is any of them;
- positions that are to be predicted are taken out of what is attended to;
- 10,000 documents and their masks are drawn once, in batches of 40, shuffled anew in every epoch, and the loss is
  averaged over all predicted positions of a batch;
- W_Q, W_K and W_V have biases; AdamW without decay, or SGD;
- every 1,000 steps the loss is taken on held-out documents; the weights of the least one are kept, and a run ends at
  the first such look that is more than four epochs after its best.

Not taken over: its stock `BertEmbeddings` adds a trained type vector to the one-hot embeddings and normalises them,
which thesis eq. 2.7 has not. Runs are trained together, one per seed; nothing is drawn by torch.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from interp.files import replacing
from interp.grammars import TopicGrammar
from interp.header import canonical_json
from interp.progress import progress_bar
from interp.rng import generator
from interp.tensor_files import read_safetensors

MASK, START, END, SPECIAL = 1, 2, 3, 4
DOCUMENTS, HELD_OUT, BATCH = 10_000, 1_000, 40
EPOCH = DOCUMENTS // BATCH
PATIENCE = 4  # epochs
LEAST = -40.0  # scores this far below the largest of a row are nothing in float32

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Params = dict[str, Tensor]


@dataclass(frozen=True)
class Setting:
    """How models are trained.

    `scale`: standard deviation of the initial weights; None: torch's default of a linear layer, which the released
    model keeps (uniform, of standard deviation 1 / sqrt(3 width)). `embedding`: frozen one-hot vectors, or trained ones
    that are the unembedding too (tied; standard deviation `scale`).
    """

    name: str
    optimizer: Literal["Adam", "SGD"]
    rate: float
    scale: float | None
    embedding: Literal["onehot", "tied"] = "onehot"

    def make(self, parameters: Params) -> torch.optim.Optimizer:
        """Its optimizer, without weight decay."""
        if self.optimizer == "SGD":
            return torch.optim.SGD(parameters.values(), lr=self.rate)
        return torch.optim.AdamW(parameters.values(), lr=self.rate, weight_decay=0.0)


# Table 2.1, W_Q, W_K and W_V of one-hot models: from near zero, as thesis 2.1.2.2 says; SGD moves nothing from
# there, and begins at the initial weights of the released model. Its .01 and .03 take more steps than anybody will wait
# for here; a higher rate stands for them.
NEAR_ZERO = 1e-3
TABLE_2_1 = (
    Setting("Adam .003", "Adam", 3e-3, NEAR_ZERO),
    Setting("Adam .01", "Adam", 1e-2, NEAR_ZERO),
    Setting("Adam .03", "Adam", 3e-2, NEAR_ZERO),
    Setting("SGD 10", "SGD", 10.0, None),
)
# Table 2.2: the embeddings trained too, tied to the unembedding, from the .02 of a stock Bert.
TABLE_2_2 = (
    Setting("Adam .003, tied", "Adam", 3e-3, 0.02, "tied"),
    Setting("Adam .01, tied", "Adam", 1e-2, 0.02, "tied"),
)
STEPS = {"Table 2.1": 12_000, "Table 2.2": 6_000}  # at most
EVERY = 1_000  # steps between two looks at held-out documents


@dataclass(frozen=True)
class Length:
    """How much is trained: runs, steps at most, and steps between two looks at held-out documents."""

    runs: int
    steps: int
    every: int


@dataclass(frozen=True)
class Trained:
    """Runs of a setting at their best look, of `steps` at most.

    `params` [run, ...]; `loss`, `step` [run]: of that look; `digest`: of the file.
    """

    setting: Setting
    params: Mapping[str, Floats]
    loss: tuple[float, ...]
    step: tuple[int, ...]
    digest: str
    steps: int

    def capped(self) -> int:
        """How many runs the limit of steps ended, and not a loss that no longer fell."""
        return sum(self.steps // EPOCH - step // EPOCH <= PATIENCE for step in self.step)

    def scores(self) -> NDArray[np.float64]:
        """Attention scores [run, query, key] of every pair of tokens."""
        with torch.no_grad():
            scores, _ = tables({name: torch.from_numpy(p) for name, p in self.params.items()})
        return np.asarray(scores.double().numpy())

    def values(self) -> NDArray[np.float64]:
        """W_V [run, output, input], as it is trained: of one-hot models from word to word, else between coordinates."""
        return np.asarray(self.params["W_V"].astype(np.float64).transpose(0, 2, 1))


@dataclass(frozen=True)
class Data:
    """Documents as counts, and what is to be predicted: a row for each document and token shown there.

    `attended` [document, token]; `query` [row], `target` [row, token]: how often each true token stands under it;
    `first` [document + 1]: where a document's rows begin.
    """

    attended: Floats
    query: Ints
    target: NDArray[np.uint8]
    first: Ints


def train(setting: Setting, length: Length, grammar: TopicGrammar, folder: Path, seed: int = 0) -> Trained:
    """The setting's runs, trained or read from what lies in `folder`."""
    decides = canonical_json([asdict(setting), asdict(length), grammar.to_dict(), seed])
    digest = hashlib.sha256(decides.encode()).hexdigest()[:10]
    path = folder / f"released-{digest}.safetensors"
    if not path.exists():
        params, loss, step = _train(setting, length, grammar, seed)
        told = {"decides": decides, "loss": json.dumps(loss), "step": json.dumps(step)}
        with replacing(path) as temporary:
            save_file(params, temporary, metadata=told)
    metadata, tensors = read_safetensors(path)
    read = {name: tensors[name].numpy() for name in sorted(tensors)}
    loss, step = (tuple(json.loads(metadata[name])) for name in ("loss", "step"))
    return Trained(setting, read, loss, step, digest, length.steps)


def _train(setting: Setting, length: Length, grammar: TopicGrammar, seed: int) -> tuple[Params, Any, Any]:
    draws = [generator(seed, f"topics/released/{setting.name}", run) for run in range(length.runs)]
    size = grammar.num_words + SPECIAL
    texts = documents_of(grammar, DOCUMENTS, seed, "released")
    held = data_of(
        documents_of(grammar, HELD_OUT, seed, "released/held-out"), generator(seed, "released/held-out"), size
    )
    data = [data_of(texts, rng, size) for rng in draws]
    params = {name: p.requires_grad_(True) for name, p in initial(setting, draws, size).items()}
    optimizer = setting.make(params)
    best = {name: p.detach().clone() for name, p in params.items()}
    loss, step = np.full(length.runs, np.inf), np.zeros(length.runs, dtype=np.int64)
    running = np.ones(length.runs, dtype=bool)
    every = np.arange(HELD_OUT)
    for now in progress_bar(range(length.steps + 1), desc=f"released code, {setting.name}", leave=False):
        if now % length.every == 0 or now == length.steps:
            with torch.no_grad():
                found = losses_of(params, [held] * length.runs, [every] * length.runs).numpy()
            better = running & (found < loss)
            for name, p in params.items():
                best[name][torch.from_numpy(better)] = p.detach()[torch.from_numpy(better)]
            loss, step = np.where(better, found, loss), np.where(better, now, step)
            running &= better | (now // EPOCH - step // EPOCH <= PATIENCE)
        if now == length.steps or not running.any():
            break
        if now % EPOCH == 0:
            order = [rng.permutation(DOCUMENTS) for rng in draws]
        at = now % EPOCH * BATCH
        losses = losses_of(params, data, [one[at : at + BATCH] for one in order])
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
    return best, loss.tolist(), step.tolist()


def documents_of(grammar: TopicGrammar, count: int, seed: int, stream: str) -> Ints:
    """Words as tokens of the released vocabulary [document, position], below 0 beyond a document's end."""
    words = grammar.sample(count, seed=seed, stream=stream).words
    return np.asarray(np.where(words > 0, words + SPECIAL - 1, -1))


def data_of(tokens: Ints, rng: np.random.Generator, size: int) -> Data:
    """Masked documents: 15 % of the positions are to be predicted, of which 10 % are kept and 10 % show any token."""
    inside = tokens >= 0
    chosen = inside & (rng.random(tokens.shape) < 0.15)
    fate, random = rng.random(tokens.shape), rng.integers(0, size, tokens.shape)
    shown = np.where(fate < 0.1, tokens, np.where(fate < 0.2, random, MASK))
    attended = np.zeros((len(tokens), size), dtype=np.float32)
    seen = inside & ~chosen
    np.add.at(attended, (np.nonzero(seen)[0], tokens[seen]), 1.0)
    attended[:, [START, END]] += 1
    place = np.nonzero(chosen)[0] * size + shown[chosen]
    rows, row = np.unique(place, return_inverse=True)
    target = np.zeros((len(rows), size), dtype=np.uint8)
    np.add.at(target, (row, tokens[chosen]), 1)
    return Data(attended, rows % size, target, np.searchsorted(rows // size, np.arange(len(tokens) + 1)))


def initial(setting: Setting, draws: list[np.random.Generator], size: int) -> Params:
    """Weights [run, ...]: maps [in, out] of width `size`, biases [1, out]; near zero the biases are 0."""
    names = ["W_Q", "W_K", "W_V", *(["W_E"] if setting.embedding == "tied" else [])]
    bound = size**-0.5
    drawn: dict[str, list[NDArray[Any]]] = {name: [] for name in (*names, "b_Q", "b_K", "b_V")}
    for rng in draws:
        for name in drawn:
            shape = (size, size) if name in names else (1, size)
            if setting.scale is None:
                drawn[name].append(rng.uniform(-bound, bound, shape))
            else:
                drawn[name].append(rng.normal(0.0, setting.scale, shape) if name in names else np.zeros(shape))
    if setting.embedding == "tied":
        drawn["b_U"] = [np.zeros((1, size)) for _ in draws]
    return {name: torch.from_numpy(np.stack(each).astype(np.float32)) for name, each in drawn.items()}


def tables(params: Params) -> tuple[Tensor, Tensor]:
    """Attention scores [run, query, key], and what attending to each token adds to the logits [run, key, token]."""
    size = params["W_Q"].shape[-1]
    embed = params.get("W_E", torch.eye(size).expand(len(params["W_Q"]), size, size))
    q, k, v = (embed @ params[f"W_{name}"] + params[f"b_{name}"] for name in "QKV")
    if "W_E" in params:
        v = v @ embed.transpose(1, 2) + params["b_U"]  # weights of a query sum to 1, so that this adds b_U once
    return q @ k.transpose(1, 2) / size**0.5, v


def losses_of(params: Params, data: list[Data], documents: list[Ints]) -> Tensor:
    """Cross entropy of each run [run] on its documents, averaged over all predicted positions."""
    scores, values = tables(params)
    rows = [
        np.concatenate([np.arange(*d.first[i : i + 2]) for i in docs]) for d, docs in zip(data, documents, strict=True)
    ]
    most, size = max(len(row) for row in rows), scores.shape[-1]
    attended, target = np.zeros((len(data), most, size), np.float32), np.zeros((len(data), most, size), np.float32)
    query = np.zeros((len(data), most), dtype=np.int64)
    attended[..., START] = 1.0  # rows that pad attend to something, and have no target
    for run, (d, docs, row) in enumerate(zip(data, documents, rows, strict=True)):
        attended[run, : len(row)] = np.repeat(d.attended[docs], d.first[docs + 1] - d.first[docs], axis=0)
        query[run, : len(row)], target[run, : len(row)] = d.query[row], d.target[row]
    present, true = torch.from_numpy(attended), torch.from_numpy(target)
    asked = scores[torch.arange(len(data))[:, None], torch.from_numpy(query)]  # [run, row, key]
    top = asked.detach().masked_fill(present == 0, -torch.inf).amax(-1, keepdim=True)
    weight = torch.exp((asked - top).clamp(min=LEAST)) * present
    logits = weight / weight.sum(-1, keepdim=True) @ values
    each = true.sum(-1)
    total = (torch.logsumexp(logits, -1) * each).sum(-1) - (logits * true).sum((-1, -2))
    return total / each.sum(-1)
