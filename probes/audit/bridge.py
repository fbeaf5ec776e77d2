"""Models from outside as an audit sees them: bridges with their padding masked, and readouts of hidden states."""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import is_bridge, undisturbed
from probes.audit.edits import hooked
from probes.audit.labels import LaidOut

READOUTS = ("logits", "probe")
RIDGES = 10.0 ** np.arange(-6.0, 2.0)  # of the largest squared singular value; the best left-one-out error is taken
BATCH = 64


Probe = tuple[Tensor, Tensor]  # W [d_model, class], b [class]


class View:
    """A model run with its padding masked. What it gives: its logits, or those of a `readout`, or hidden states.

    Hooks, weights and modules are the model's own: what edits them edits what the view gives.
    """

    def __init__(self, model: Any, pad: int | None, readout: Probe | None = None, logits: bool = True):
        self.model, self.pad, self.readout, self.logits = model, pad, readout, logits

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # not there yet, while a copy is made
            raise AttributeError(name)
        return getattr(self.model, name)

    def __call__(self, tokens: Tensor) -> Tensor:
        with warnings.catch_warnings():
            # Frozen norms make a bridge compute them itself, and say so.
            warnings.filterwarnings("ignore", message="A forward hook edited hook_scale")
            return self._give(tokens)

    def _give(self, tokens: Tensor) -> Tensor:
        if self.readout is None and self.logits:
            out: Tensor = self.model(tokens, **self._mask(tokens))
            return out
        hidden = last_hidden(self.model, lambda: self.model(tokens, **self._mask(tokens)))
        return hidden if self.readout is None else hidden @ self.readout[0] + self.readout[1]

    def run_with_cache(self, tokens: Tensor, names_filter: Sequence[str], **_: Any) -> tuple[None, dict[str, Tensor]]:
        """Activations by hook, for all inputs together, of runs that end when they are there.

        No logits: an encoder's vocabulary is large.
        """
        kept: dict[str, list[Tensor]] = {name: [] for name in names_filter}
        for part in tokens.split(BATCH):
            for name, x in seen_of(self.model, names_filter, partial(self.model, part, **self._mask(part))).items():
                kept[name].append(x)
        return None, {name: torch.cat(parts) for name, parts in kept.items()}

    @property
    def late_patterns(self) -> bool:
        """Whether patterns may be shown only after they have been used."""
        return is_bridge(self.model)

    def visible_keys(self, tokens: Tensor) -> Tensor:
        """[batch, 1, query, key]: causal or not, and never PAD."""
        n = tokens.shape[1]
        seen = torch.ones(n, n, dtype=torch.bool, device=tokens.device)
        if getattr(self.model.cfg, "attention_dir", "causal") == "causal":
            seen = seen.tril()
        if self.pad is not None:
            seen = seen & (tokens != self.pad)[:, None, :]
        return seen.expand(len(tokens), n, n)[:, None]

    def _mask(self, tokens: Tensor) -> dict[str, Tensor]:
        if self.pad is None or not is_bridge(self.model):  # our own models mask their PAD themselves
            return {}
        return {"attention_mask": (tokens != self.pad).long()}


def trusted_logits(model: Any) -> bool:
    """Whether a model's logits are its own. A bridge of an encoder may have drawn its head at random when it booted."""
    return not is_bridge(model) or getattr(model.cfg, "attention_dir", "causal") == "causal"


def check_readout(readout: Any, given: LaidOut | None) -> None:
    """Raise `RequestError` unless it is None, "logits" or "probe", and a probe has labels to learn."""
    if readout is not None and (not isinstance(readout, str) or readout not in READOUTS):
        raise RequestError(f"readout {quoted(readout)} is neither {' nor '.join(map(repr, READOUTS))}")
    if readout == "probe" and (given is None or len(given.classes) < 2):
        raise RequestError("readout 'probe' learns the inputs' labels: give inputs of two labels or more")


class _Enough(Exception):
    """No error: the way out of a forward pass when nothing after it is wanted."""


def seen_of(model: Any, names: Sequence[str], run: Callable[[], Any]) -> dict[str, Tensor]:
    """What passes these hook points in a run, which ends when all of them have been passed."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, x: Tensor) -> None:
        seen[name] = x
        if len(seen) == len(names):
            raise _Enough

    with hooked(model, {name: partial(keep, name) for name in names}), contextlib.suppress(_Enough):
        run()
    if missing := [name for name in names if name not in seen]:
        raise AnalysisError(f"this model does not run through its {missing[0]}")
    return seen


def last_hidden(model: Any, run: Callable[[], Any]) -> Tensor:
    """The last residual stream [batch, pos, d_model] of a run, which ends there: no head is run."""
    name = f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"
    return seen_of(model, [name], run)[name]


def probed(model: Any, given: LaidOut, half: NDArray[np.int64], pad: int | None) -> View:
    """The model with a linear readout of its last hidden state where inputs are read, fitted on one half."""
    view = View(model, pad)
    there = half[given.label[half] >= 0]
    hidden = []
    with undisturbed(model), torch.no_grad():
        for at in range(0, len(there), BATCH):
            rows = there[at : at + BATCH]
            tokens = torch.from_numpy(given.tokens[rows]).to(model.cfg.device)
            # As above: the default binds the loop's variable.
            states = last_hidden(model, lambda tokens=tokens: view(tokens))  # type: ignore[misc]
            hidden.append(states[torch.arange(len(rows)), torch.from_numpy(given.read[rows])].double().cpu().numpy())
    x = np.concatenate(hidden) if hidden else np.zeros((0, model.cfg.d_model))
    weight, bias = ridge(x, np.eye(len(given.classes))[given.label[there]])
    like = next(model.parameters())
    w, b = (torch.from_numpy(array).to(like.device, like.dtype) for array in (weight, bias))
    return View(model, pad, (w, b))


def ridge(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """W [d, class] and b of least squares with the ridge, among `RIDGES`, whose left-one-out error is least."""
    if len(x) < 2:
        raise RequestError(f"{len(x)} labelled inputs in the half that fits the probe are too few")
    centre, mean = x.mean(0), y.mean(0)
    u, s, v = np.linalg.svd(x - centre, full_matrices=False)
    best, weight = np.inf, np.zeros((x.shape[1], y.shape[1]))
    for penalty in RIDGES * s[0] ** 2:
        shrunk = s**2 / (s**2 + penalty)
        left = 1 - 1 / len(x) - (u**2 * shrunk).sum(1)
        error = float((((y - mean - u @ (shrunk[:, None] * (u.T @ (y - mean)))) / left[:, None]) ** 2).mean())
        if error < best:
            best = error
            weight = v.T @ ((s / (s**2 + penalty))[:, None] * (u.T @ (y - mean)))
    return weight, mean - centre @ weight
