"""The page of `induction`: every sentence of it is made from the numbers."""

from dataclasses import replace
from typing import Any

import plotly.graph_objects as go

from case_studies.induction.collect import BEYOND, Findings, Measured, of_family, phases
from case_studies.induction.graphs import OfGraph, graph_parts
from case_studies.induction.measure import PATHS
from case_studies.page import Figure, Page, Section, Table
from case_studies.words import Cell
from interp.numbers import estimate, number
from interp.plots.style import finish, log_axis
from interp.stats import Estimate
from probes.core import counted

PATH_WORDS = {"k": "keys", "q": "queries", "v": "values"}


def report(f: Findings, command: str) -> Page:
    """The whole page."""
    measured = f.measured
    populations: list[Measured | OfGraph] = [*measured, *f.graphs]
    found = {m.family.name: of_family(m) for m in measured}
    chain = next(m for m in measured if m.family.name == "chain")
    return Page(
        title="Two-layer induction circuits, made by training",
        asked="Do trained two-layer models carry the previous token, match it, and need both? In which order do these "
        "heads come, and what does the model predict meanwhile?",
        said=[
            "The first layer copies the previous token; the second matches the current token with those copies and "
            "predicts what followed (slides, L2440-2446).",
            "Two layers suffice with one head each, whatever the length T; one layer needs heads × width × precision "
            "in proportion to T (L1256-1272).",
            "Training goes by stages, and plateaus are counts of shorter contexts (L2849-2877).",
            "On a causal graph the first attention becomes its adjacency matrix, since the gradient is the information "
            "between tokens; other kernels are counted as well (L2590-2731).",
        ],
        answer=_answer(found),
        sure="95 % intervals over seeds (4 at least); scores stand beside those of the same models untrained, losses "
        "beside counts on the same strings.",
        lead=Figure(
            _phases_figure(chain),
            "Divergence of each count (rung) from the models by step; the lowest line is what the model predicts.",
        ),
        compared=[_losses(found), _heads(found)],
        sections=[
            Section("What the heads are for", [_edits(found), _composition(found)]),
            Section("In which order they come", [_onsets(found), _nearest(chain)]),
            Section("Kernels of another law", [_beyond(found)]),
            Section("The graph in the first layer", graph_parts(f.graphs)),
        ],
        settings=[
            Table(
                ["models", "preset", "options", "seeds"],
                [[m.family.name, m.family.preset, _options(m), str(len(m.models))] for m in populations],
                text=(1, 2),
            )
        ],
        command=command,
        digests=[(m.family.name, m.digest) for m in populations],
    )


def _options(m: Measured | OfGraph) -> str:
    return ", ".join(f"{key}={value}" for key, value in m.family.options.items()) or "none"


def _answer(found: dict[str, Any]) -> list[str]:
    recall, chain, one = found["recall"], found["chain"], found["chain, 1 layer"]
    return [
        f"Recall: accuracy {estimate(recall['metrics']['accuracy'], n=True)}; the first layer has "
        f"{estimate(recall['previous'])} of its weight on the previous token, the second "
        f"{estimate(recall['matching'])} on what followed the last copy (even: {number(recall['even'], 2)}).",
        f"Chains: loss {estimate(chain['metrics']['loss'])} nats with two layers, {estimate(one['metrics']['loss'])} "
        f"with one; counting pairs has {number(chain['metrics']['rung/bigram'].value)}, counting single tokens "
        f"{number(chain['metrics']['rung/unigram'].value)}.",
        f"On chains {_order(chain['onsets']['later'])} (rank correlation of the two steps over seeds: "
        f"{estimate(chain['onsets']['correlation'], 2)}); with layer 0 constant {estimate(chain['onsets']['carried'])} "
        "of what it then has above an even head is gone, so that the score rises by what is carried there.",
    ]


def _order(later: Estimate) -> str:
    """Which score rises first; `later`: steps from the previous-token head's to the matching head's."""
    if later.value is None:
        return "it is undefined which score rises first"
    word, apart = "after", later
    if later.value < 0:
        low, high = (None if end is None else -end for end in (later.high, later.low))
        word, apart = "before", replace(later, value=-later.value, low=low, high=high)
    return f"the matching score is half way {estimate(apart, 0)} steps {word} that of the previous-token head"


def _losses(found: dict[str, Any]) -> Table:
    rows = []
    for name, row in found.items():
        told = row["metrics"]
        counts = {key.removeprefix("rung/"): told[key].value for key in told if key.startswith("rung/")}
        rungs = ", ".join(f"{rung} {number(value)}" for rung, value in sorted(counts.items(), key=lambda one: -one[1]))
        rows.append([name, Cell(told["loss"], 3), Cell(told["accuracy"], 3), rungs])
    return Table(
        ["models", "loss (nats)", "accuracy", "losses of simpler predictors (rungs)"],
        rows,
        "Accuracy: how often the likeliest token is the right one. Kernel: the loss of knowing the kernel that was "
        "drawn; law: of the best predictor that does not.",
        text=(3,),
    )


def _heads(found: dict[str, Any]) -> Table:
    rows = [
        [
            name,
            Cell(row["previous"]),
            number(row["previous"].null, 2),
            Cell(row["matching"]),
            number(row["matching"].null, 2),
            number(row["even"], 2),
        ]
        for name, row in found.items()
    ]
    return Table(
        ["models", "previous token, layer 0", "untrained", "matching, last layer", "untrained", "even head"],
        rows,
        "Mean weight of the best head of a layer, over labelled queries from a quarter of the string on whose keys are "
        "not the query itself. Of one layer both are that layer's.",
    )


def _edits(found: dict[str, Any]) -> Table:
    rows = []
    for name, row in found.items():
        paths = [Cell(row["edits"].get(path), 3) for path in PATHS]
        rows.append([name, Cell(row["edits"]["first"], 3), Cell(row["edits"]["last"], 3), *paths])
    heads = [f"{PATH_WORDS[path]} without layer 0" for path in PATHS]
    return Table(
        ["models", "layer 0 constant", "last layer constant", *heads],
        rows,
        "Loss (nats) more than intact. Constant: every head gives its mean output. Without: the last layer's keys "
        "(queries, values) are those of the model whose layer 0 is constant.",
    )


def _composition(found: dict[str, Any]) -> Table:
    rows = [
        [name, *(Cell(row["composition"][path]) for path in PATHS)] for name, row in found.items() if row["composition"]
    ]
    return Table(
        ["models", *(PATH_WORDS[path] for path in PATHS)],
        rows,
        "Composition of layer 0's outputs with what the last layer reads, |OV M| / (|OV| |M|), the best pair of heads.",
    )


def _onsets(found: dict[str, Any]) -> Table:
    rows = []
    for name, row in found.items():
        if "onsets" in row:
            told = row["onsets"]
            rows.append(
                [
                    name,
                    Cell(row["transition"]["step"], 0),
                    str(row["transition"]["without"]),
                    Cell(told["first"], 0),
                    Cell(told["second"], 0),
                    Cell(told["later"], 0),
                    Cell(told["carried"]),
                    Cell(told["correlation"]),
                    str(told["without"]),
                ]
            )
    return Table(
        [
            *("models", "transition", "seeds without", "previous-token head", "matching head", "matching later by"),
            *("carried by layer 0 then", "rank correlation", "seeds without one of the two"),
        ],
        rows,
        "Steps. Transition: the loss is half way from the count of single tokens to the right one (recall: half of the "
        "answers are right). Heads: the score is half way from first to last. Carried: of what the matching score has "
        "above an even head at its half-way step, the share that is gone with layer 0 constant. Seeds that have none "
        "are counted, and left out.",
    )


def _nearest(chain: Measured) -> Table:
    rows = phases(chain)
    names = list(rows[0]["divergence"])
    return Table(
        ["step", *(f"nearest to {name}" for name in names), "gradient's norm"],
        [[str(row["step"]), *(str(row["nearest"][name]) for name in names), number(row["gradient"])] for row in rows],
        f"How many of {len(chain.models)} seeds of chains are nearest to each count at a step; the mean norm of the "
        "gradient.",
    )


def _beyond(found: dict[str, Any]) -> Table:
    rows = [
        [name, *(Cell(row["beyond"][f"{beta:g}"], 3) for beta in BEYOND)]
        for name, row in found.items()
        if row["beyond"]
    ]
    return Table(
        ["models", *(f"beta = {beta:g}" for beta in BEYOND)],
        rows,
        "Loss (nats) more than counting pairs with the trained beta of 1, on kernels of Dirichlet(beta).",
    )


def _phases_figure(chain: Measured) -> go.Figure:
    rows = phases(chain)
    steps = [row["step"] for row in rows]
    figure = go.Figure()
    for name in rows[0]["divergence"]:
        figure.add_scatter(x=steps, y=[row["divergence"][name] for row in rows], name=name, mode="lines+markers")
    note = f"KL in nats, mean over {counted(len(chain.models), 'seed')}"
    values = [value for row in rows for value in row["divergence"].values() if value > 0]
    ends = (min(values), max(values)) if values else None
    axes: dict[str, Any] = {"xaxis": {"title": {"text": "step"}}, "yaxis": log_axis("KL(count, model)", ends)}
    drawn: go.Figure = finish(figure, "How far models of chains are from each count", note, height=380, **axes)
    return drawn
