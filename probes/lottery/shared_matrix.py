"""One matrix, two functions: two prunings of one random Transformer that agree on a chosen matrix to the last bit.

Corollary 2 of Wen et al. 2023 (thesis 2.2.3): no single weight matrix tells functionally different models apart.
Its proof: the layers that are the identity may stand anywhere, so the chosen matrix is put into one of them.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interp.checks import one_of, whole_number
from interp.errors import AnalysisError, RequestError, quoted
from interp.grammars import DyckGrammar
from interp.guests import hosting
from interp.model import SandboxTransformer
from interp.numbers import estimate, number, power
from interp.rng import check_seed, generator
from interp.stats import POSITIVE, Estimate
from interp.text import fold
from interp.threads import one_thread
from interp.worlds.dyck.evaluate import BracketSet
from probes.core import Result, mean_over_inputs, recorded
from probes.lottery.inputs import (
    POSITIONS,
    Inputs,
    check_room,
    closing_accuracy,
    evaluation_set,
    largest,
    random_inputs,
    token_inputs,
)
from probes.lottery.runner import Runner
from probes.lottery.target import Target, check_small, in_double, read_target
from probes.lottery.ticket import (
    MATRICES,
    Patterns,
    Sizes,
    Ticket,
    check_candidates,
    network_weights,
    prune_network,
    random_config,
    read_patterns,
    sizes_needed,
    sizes_used,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go


ONE_FUNCTION = "the targets do not differ on any of these inputs: this is one function, twice"


@dataclass(frozen=True)
class SharedMatrixResult(Result):
    """Two prunings of one random network.

    - `identical`: whether the pruned `matrix` is the same in both, bit for bit; `kept` of its `size` entries.
    - `agreement`: the same of every matrix of the network, by name.
    - `epsilon`, `relative`: largest |T'(X) - T(X)| over |X| and over |T(X)|, of either, by kind of input; NaN (None in
      JSON) where every input has 0 / 0.
    - `difference`: mean total variation between the two pruned networks' next-token distributions, by kind of input:
      Dyck strings, and brackets drawn at random, whether they match or not. Null: the same between the targets.
    - `accuracy`: argmax closing accuracy of targets and pruned networks.
    """

    matrix: str
    identical: bool
    kept: int
    size: int
    agreement: dict[str, bool]
    working: tuple[int, ...]
    candidates: int
    seed: int
    epsilon: tuple[dict[str, float], dict[str, float]]
    relative: tuple[dict[str, float], dict[str, float]]
    difference: dict[str, Estimate]
    accuracy: dict[str, tuple[float | None, float | None]]
    names: tuple[str, str]
    tickets: tuple[Ticket, Ticket] = field(repr=False, metadata={"json": False})

    @property
    def same_function(self) -> bool:
        """Whether the two targets predict the same on every input: then a shared matrix says nothing."""
        return all(isinstance(e.null, dict) and e.null["targets"] == 0 for e in self.difference.values())

    @property
    def models(self) -> tuple[SandboxTransformer, SandboxTransformer]:
        """Both pruned networks."""
        return self.tickets[0].model(), self.tickets[1].model()

    def summary(self) -> str:
        """A few lines for a terminal."""
        same = "identical bit for bit" if self.identical else "NOT identical"
        lines = [
            f"One matrix, two functions: {self.matrix} is {same}",
            f"{self.kept} of {self.size} entries kept; {sum(self.agreement.values())} of {len(self.agreement)} "
            "matrices agree",
            f"{'target':<26}{'epsilon':>9}{'relative':>10}{'closing accuracy, pruned':>26}",
        ]
        for i, name in enumerate(self.names):
            worst = [largest(np.array(list(x[i].values()))) for x in (self.epsilon, self.relative)]
            right = self.accuracy["pruned"][i]
            lines.append(f"{name:<26}{power(worst[0]):>9}{power(worst[1]):>10}{number(right):>26}")
        if self.same_function:
            lines.append(ONE_FUNCTION)
        lines.append("total variation between the two networks' next tokens (between their targets):")
        for kind, e in self.difference.items():
            assert isinstance(e.null, dict)
            lines.append(f"  {kind:<16} {e}   ({number(e.null['targets'])})")
        return fold(lines)

    def figure(self) -> "go.Figure":
        """For every matrix of the network whether the two prunings agree."""
        import plotly.graph_objects as go

        from interp.plots.style import PALETTE, finish

        layers = len(self.agreement) // len(MATRICES)
        same = [[float(self.agreement[f"blocks.{i}.{kind}"]) for kind in MATRICES] for i in range(layers)]
        places = [(i, k) for i in range(layers) for k in range(len(MATRICES))]
        chosen = next((i, k) for i, k in places if self.matrix == f"blocks.{i}.{MATRICES[k]}")
        fig = go.Figure(
            go.Heatmap(
                z=same, x=list(MATRICES), y=[f"layer {i}" for i in range(layers)], showscale=False, xgap=3, ygap=3,
                zmin=0, zmax=1, colorscale=[[0, "#F4E1D6"], [1, PALETTE[0]]],
                text=[["same" if v else "differs" for v in row] for row in same], texttemplate="%{text}",
                hoverinfo="x+y+text",
            )
        )  # fmt: skip
        i, k = chosen
        box = {"line": {"color": PALETTE[1], "width": 3}, "type": "rect"}
        fig.add_shape(x0=k - 0.5, x1=k + 0.5, y0=i - 0.5, y1=i + 0.5, **box)
        shared = "the same, bit for bit" if self.identical else "not the same"
        apart = "; ".join(f"{kind} {estimate(e, n=True)}" for kind, e in self.difference.items())
        note = f"{sum(self.agreement.values())} of {len(self.agreement)} matrices are the same in both prunings"
        note += f"; total variation between the two networks' next tokens: {apart}"
        return finish(
            fig,
            f"{self.names[0]} and {self.names[1]}, pruned from one random network: the framed matrix is {shared}",
            f"{note}; {ONE_FUNCTION}" if self.same_function else note,
            width=900,
            height=60 + 42 * layers,
            yaxis={"autorange": "reversed", "showgrid": False},
            xaxis={"showgrid": False},
        )


@recorded
@hosting("shared matrix")
@one_thread()
def demonstrate_shared_matrix(
    first: Any,
    second: Any,
    matrix: str = "blocks.2.mlp.W_hid_1",
    *,
    candidates: int = 20,
    seed: int = 0,
    patterns: Patterns | None = None,
    num_inputs: int = 64,
    num_strings: int = 2000,
) -> SharedMatrixResult:
    """Prune one random network into `first` and into `second` so that `matrix` is the same in both.

    The targets need one shape of stream, vocabulary and positions, and as many layers. `matrix` is any of the random
    network's, e.g. blocks.3.attn.W_K; its layer becomes an identity layer in both. `patterns` as in
    `demonstrate_lottery_ticket`.

    Raises `AnalysisError` or `RequestError` before any work.
    """
    n, seed = check_candidates(candidates), check_seed(seed)
    num_inputs, num_strings = whole_number("num_inputs", num_inputs), whole_number("num_strings", num_strings)
    targets = _together(read_target(first), read_target(second))
    layers = len(targets[0].layers)
    working = _around(matrix, layers)
    shown = read_patterns(patterns, targets[0], working)
    widest = [sizes_needed(t, n, shown) for t in targets]
    common = Sizes(max(s.d_model for s in widest), max(s.d_mlp for s in widest))
    sizes = sizes_used(targets[0], n, -(-common.d_model // 8) * 8, -(-common.d_mlp // 8) * 8)
    doubles = [in_double(t) for t in targets]
    weights = 2 * network_weights(targets[0], sizes)
    check_room(doubles[0], sizes, weights, num_inputs, num_strings)
    data = evaluation_set(doubles[0], num_strings, seed)
    if not isinstance(data, BracketSet):
        raise AnalysisError(f"shared matrix: {data}, on whose strings the two could be distinguished")
    check_room(doubles[0], sizes, weights, num_inputs, data)
    tickets = tuple(prune_network(t, n, seed, sizes, working=working, patterns=shown) for t in targets)
    assert len(tickets) == 2
    tokens = {"strings": torch.from_numpy(data.inputs), "any brackets": _any_brackets(doubles[0], num_inputs, seed)}
    epsilon: list[dict[str, float]] = []
    relative: list[dict[str, float]] = []
    probs: dict[tuple[str, str], list[torch.Tensor]] = {}
    accuracy: dict[str, list[float | None]] = {"targets": [], "pruned": []}
    for ticket, model in zip(tickets, doubles, strict=True):
        inputs = random_inputs(model, num_inputs, seed)
        inputs |= {kind: token_inputs(model, given) for kind, given in tokens.items()}
        run = Runner(ticket)
        with torch.no_grad():
            streams = {kind: run(x.x, x.visible)[0] for kind, x in inputs.items()}
            errors = {kind: x.errors(streams[kind]) for kind, x in inputs.items()}
            for kind in tokens:
                for whose, last in (("targets", inputs[kind].wanted), ("pruned", streams[kind])):
                    logits = model.unembed(last)
                    probs.setdefault((whose, kind), []).append(logits.softmax(-1))
                    if kind == "strings":
                        accuracy[whose].append(closing_accuracy(logits, data).by_rule["argmax"])
        epsilon.append({kind: largest(e[0]) for kind, e in errors.items()})
        relative.append({kind: largest(e[1]) for kind, e in errors.items()})
    times = {"strings": data.weight.astype(int), "any brackets": np.ones(num_inputs, dtype=int)}
    difference = {}
    for kind, count in times.items():
        apart = {whose: np.repeat(_variation(probs[whose, kind], inputs[kind]), count) for whose in accuracy}
        null = {"targets": float(apart["targets"].mean())}
        difference[kind] = mean_over_inputs(apart["pruned"], support=POSITIVE).with_null(null)
    masks = tickets[0].masks
    agreement = {name: _agree(tickets, name) for name in masks}
    return SharedMatrixResult(
        matrix=matrix,
        identical=agreement[matrix],
        kept=int(masks[matrix].sum()),
        size=int(masks[matrix].size),
        agreement=agreement,
        working=tickets[0].working,
        candidates=n,
        seed=seed,
        epsilon=(epsilon[0], epsilon[1]),
        relative=(relative[0], relative[1]),
        difference=difference,
        accuracy={name: (pair[0], pair[1]) for name, pair in accuracy.items()},
        names=(_name(targets[0], "first target"), _name(targets[1], "second target")),
        tickets=(tickets[0], tickets[1]),
    )


def _any_brackets(model: SandboxTransformer, count: int, seed: int) -> torch.Tensor:
    """START and brackets drawn at random, up to `POSITIONS` or n_ctx: [count, pos]."""
    assert isinstance(model.grammar, DyckGrammar)  # else there was no evaluation set
    start = 2 * model.grammar.num_types
    drawn = generator(seed, "lottery/brackets").integers(0, start, (count, min(POSITIONS, model.config.n_ctx)))
    drawn[:, 0] = start
    return torch.from_numpy(drawn)


def _together(first: Target, second: Target) -> tuple[Target, Target]:
    """Both targets for one random network: of one shape, and with one C after scaling."""
    a, b = (random_config(t, Sizes(8, 8)) for t in (first, second))
    for name in ("n_layers", "d_vocab", "d_vocab_out", "positions", "direction", "n_ctx", "pad_token"):
        if getattr(a, name) != getattr(b, name):
            raise AnalysisError(
                f"shared matrix: {name}={quoted(getattr(first.model.config, name))} of the first target is not the "
                "second's "
                f"{quoted(getattr(second.model.config, name))}: one random network has one"
            )
    if first.width != second.width:
        raise AnalysisError(
            f"shared matrix: targets of width {first.width} and {second.width}: pad the narrower one with zeros"
        )
    c = min(a.norm_eps, b.norm_eps)
    return _with_c(first, c), _with_c(second, c)


def _with_c(target: Target, c: float) -> Target:
    """Values scaled so that the random network's C is `c`: down, so that nothing leaves the reach."""
    scale = c / target.model.config.norm_eps
    layers = tuple(replace(layer, values=layer.values * (scale / target.scale)) for layer in target.layers)
    return check_small(replace(target, layers=layers, scale=scale))


def _around(matrix: str, layers: int) -> tuple[int, ...]:
    """Working layers that leave the layer of `matrix` idle."""
    known = [f"blocks.{i}.{kind}" for i in range(4 * layers) for kind in MATRICES]
    if not one_of(matrix, known):
        raise RequestError(
            f"no matrix {quoted(matrix)}: the random network has blocks.0 to blocks.{4 * layers - 1}, each with "
            f"{', '.join(MATRICES)}"
        )
    layer, at = int(matrix.split(".")[1]), 0
    out: list[int] = []
    while len(out) < layers:
        if layer in (at, at + 1):
            at = layer + 1
        out.append(at + 1)
        at += 2
    return tuple(out)


def _agree(tickets: tuple[Ticket, ...], name: str) -> bool:
    return tickets[0].weights(name).tobytes() == tickets[1].weights(name).tobytes()


def _variation(pair: list[torch.Tensor], inputs: Inputs) -> np.ndarray:
    """Total variation of each string's next-token distributions, mean over its positions: [strings]."""
    each = 0.5 * (pair[0] - pair[1]).abs().sum(-1) * inputs.real[..., 0]
    return np.asarray((each.sum(-1) / inputs.real[..., 0].sum(-1)).numpy())


def _name(target: Target, otherwise: str) -> str:
    return str(target.model.provenance.get("name", otherwise))
