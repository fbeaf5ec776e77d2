"""Fig. 2.3: cosines between the embeddings of nine words of three subjects."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from case_studies.page import Figure
from case_studies.topics_wikipedia.corpus import Floats
from case_studies.topics_wikipedia.measure import unit_rows
from interp.numbers import number

if TYPE_CHECKING:
    import plotly.graph_objects as go

SUBJECTS = (
    ("frog", "toad", "lizard"),
    ("mozart", "beethoven", "schubert"),
    ("algebra", "arithmetic", "calculus"),
)
NINE = tuple(word for subject in SUBJECTS for word in subject)


@dataclass(frozen=True)
class NineWords:
    """`cosine` [word, word]. `same`, `different`: means over pairs of different words of one subject, of two.

    `p`: the share of all 280 partitions of the nine into threes whose difference of the means is at least as large.
    `pieces`: words that are no token of the encoder's; theirs is the mean of their tokens' embeddings.
    """

    model: str
    cosine: Floats
    same: float
    different: float
    p: float
    pieces: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        means = {"same_subject": self.same, "different_subject": self.different, "p": self.p}
        return {"model": self.model, "words": NINE, "cosine": self.cosine.tolist(), **means, "in_pieces": self.pieces}


def nine_words(model: str, tokenizer: Any, embedding: Floats) -> NineWords:
    """Of a token embedding [token, d]."""
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in NINE]
    rows = unit_rows(np.stack([embedding[own].mean(0) for own in ids]))
    cosine = rows @ rows.T
    groups = [tuple(range(k, k + 3)) for k in (0, 3, 6)]
    same, different = _means(cosine, groups)
    drawn = [a - b for a, b in (_means(cosine, other) for other in partitions())]
    p = float(np.mean(np.array(drawn) >= same - different - 1e-12))
    return NineWords(
        model, cosine, same, different, p, tuple(w for w, own in zip(NINE, ids, strict=True) if len(own) > 1)
    )


def partitions() -> list[list[tuple[int, ...]]]:
    """Every way to put nine things into three unordered groups of three."""
    out = []
    for first in combinations(range(1, 9), 2):
        rest = [x for x in range(1, 9) if x not in first]
        for second in combinations(rest[1:], 2):
            last = tuple(x for x in rest[1:] if x not in second)
            out.append([(0, *first), (rest[0], *second), last])
    return out


def _means(cosine: Floats, groups: Sequence[Sequence[int]]) -> tuple[float, float]:
    label = np.zeros(len(cosine), dtype=int)
    for k, group in enumerate(groups):
        label[list(group)] = k
    i, j = np.triu_indices(len(cosine), k=1)
    same = label[i] == label[j]
    values = cosine[i, j]
    return float(values[same].mean()), float(values[~same].mean())


def nine_parts(trained: NineWords, random: Sequence[NineWords]) -> list[str | Figure]:
    """The map and what it amounts to."""
    control = "; ".join(f"{r.model} {number(r.same)} and {number(r.different)} (p = {number(r.p)})" for r in random)
    beside = f" Beside it, {control}." if random else ""
    pieces = f" In several tokens, of which the mean is taken: {', '.join(trained.pieces)}." if trained.pieces else ""
    verdict = "larger" if trained.same > trained.different else "not larger"
    return [
        f"The mean cosine between two words of one subject is {number(trained.same)}, between words of different ones "
        f"{number(trained.different)} (p = {number(trained.p)} over the n=280 ways to put nine words into threes): "
        f"{verdict} within subjects, where the thesis draws it larger and gives no number.{beside}{pieces}",
        Figure(nine_figure(trained), f"Cosine of the token embeddings of nine words in {trained.model}."),
    ]


def nine_figure(found: NineWords) -> "go.Figure":
    """The map of cosines."""
    import plotly.graph_objects as go

    from interp.plots.style import diverging, finish

    text = [[number(float(x), 2) for x in row] for row in found.cosine]
    heat = go.Heatmap(
        z=found.cosine.round(4), x=NINE, y=NINE, text=text, texttemplate="%{text}", zmin=-1, zmax=1,
        colorscale=diverging(), showscale=False, hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>",
    )  # fmt: skip
    fig = go.Figure(heat)
    fig.update_yaxes(autorange="reversed")
    title = f"Cosine {number(found.same, 2)} within subjects, {number(found.different, 2)} across"
    return finish(fig, title, "red above 0, blue below", width=620, height=520)
