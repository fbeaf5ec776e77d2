"""The picture of an analysis of drift."""

from typing import TYPE_CHECKING, Any

from interp.numbers import number
from interp.text import ordinal
from probes.core import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_HEADS, MOST_LINES = 8, 60


def drift_figure(result: Any) -> "go.Figure":
    """Mass on the last write against the gap, a panel per head, each seed a thin line, means and nulls over them."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import GRID, INK, MUTED, PALETTE, error_bars, finish, log_axis

    heads = [(layer, head) for layer, row in enumerate(result.mass) for head in range(len(row))][:MOST_HEADS]
    columns = min(4, len(heads))
    rows = -(-len(heads) // columns)
    titles = [
        f"layer {layer}, {ordinal(head + 1)} head of each seed" if result.ranked else f"layer {layer}, head {head}"
        for layer, head in heads
    ]
    fig = make_subplots(rows, columns, subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.04)
    gaps = list(result.gaps)

    def line(of: Any, name: str, colour: str, dash: str) -> "go.Scatter":
        style = {"color": colour, "dash": dash, "width": 2}
        return go.Scatter(
            x=gaps, y=[of[gap].value for gap in gaps], mode="lines", name=name, line=style, legendgroup=name
        )

    for at, (layer, head) in enumerate(heads):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        for model in range(min(result.num_models, MOST_LINES)):
            thin = go.Scatter(
                x=gaps, y=result.curves[model, layer, head], mode="lines", hoverinfo="skip", showlegend=False,
                line={"color": PALETTE[0], "width": 1}, opacity=0.3,
            )  # fmt: skip
            fig.add_trace(thin, **place)
        mass = result.mass[layer][head]
        mean = go.Scatter(
            x=gaps, y=[mass[gap].value for gap in gaps], error_y=error_bars(mass[gap].ends for gap in gaps),
            mode="lines+markers", name="mass", legendgroup="mass", line={"color": INK, "width": 2.5},
            marker={"size": 6}, hovertext=[str(mass[gap]) for gap in gaps], hoverinfo="text",
        )  # fmt: skip
        nulls = [mass[gap].null for gap in gaps]
        traces = [mean, line(result.weighted[layer][head], "mass times norm of values", PALETTE[2], "solid")]
        traces.append(line(result.wrong, "wrong answers", PALETTE[1], "dot"))
        for name, colour, dash in (("untrained", PALETTE[3], "dashdot"), ("even", MUTED, "dash")):
            values = [null.get(name) if isinstance(null, dict) else None for null in nulls]
            if any(value is not None for value in values):
                style = {"color": colour, "dash": dash, "width": 2}
                traces.append(go.Scatter(x=gaps, y=values, mode="lines", name=name, line=style, legendgroup=name))
        for trace in traces:
            trace.showlegend = at == 0
            fig.add_trace(trace, **place)
        if result.trained_length - 1 < gaps[-1]:
            fig.add_vline(x=result.trained_length - 1, line={"color": MUTED, "dash": "dot", "width": 1}, **place)
    title = "gap, tokens"
    log = gaps[-1] > 4 * gaps[0]
    fig.update_xaxes(log_axis(title, (gaps[0], gaps[-1])) if log else {"title_text": title}, showgrid=False)
    fig.update_yaxes(range=[-0.03, 1.03], gridcolor=GRID)
    best = max(heads, key=lambda at: result.mass[at[0]][at[1]][gaps[0]].value or 0.0)
    first, last = (number(result.mass[best[0]][best[1]][gap].value, 2) for gap in (gaps[0], gaps[-1]))
    return finish(
        fig,
        f"Attention to the last write, {counted(result.num_models, 'model')}: {first} at gap {gaps[0]}, {last} at "
        f"{gaps[-1]} ({titles[heads.index(best)]})",
        f"every seed is a line, bars are 95 % over {'seeds' if result.num_models > 1 else 'inputs'}; dotted line: the "
        f"longest gap in {result.trained_length} tokens, those of training",
        width=max(760, 120 + 260 * columns),
        height=330 * rows,
        legend={"orientation": "h", "y": -0.2 / rows, "x": 0},
    )
