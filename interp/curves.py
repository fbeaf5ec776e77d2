"""What a run measured over its steps: read from a checkpoint, a run's folder or its `metrics.jsonl`, and told.

print(Curves.read("run.safetensors").summary())
learning_curves("run.safetensors.run")  # a figure, while it trains
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp.errors import RequestError, quoted
from interp.files import as_path
from interp.header import find_checkpoint, read_header
from interp.names import first_duplicate
from interp.numbers import Cells, number, reasons
from interp.registry import world_of, world_of_kind
from interp.stats import Estimate, mean_over_seeds
from interp.text import counted, fold
from interp.training.metrics import METRICS_FILE, read_rows
from interp.world import Column, of_strings

SHOWN = 6  # measures that are shown where nobody says which


@dataclass(frozen=True)
class Curves:
    """Rows of a history, a dict per seed and evaluated step, and which measures are shown.

    `columns`: of each measure its head and range; `name`: what the run is called.
    """

    rows: tuple[dict[str, Any], ...]
    columns: dict[str, Column]
    name: str

    @classmethod
    def read(cls, source: Any, measures: Sequence[str] | None = None) -> "Curves":
        """Of a population, a checkpoint's name or file, the folder of a run under way, or a `metrics.jsonl`.

        `measures`: which, by the names in the history; default: the loss and what the world shows, else the first six.
        Raises `RequestError` for a source that measured nothing, and for a measure that it does not have.
        """
        rows, world, name = _read(source)
        if not rows:
            raise RequestError(f"{quoted(name)} holds no measures over steps: nothing was trained there")
        known = list(dict.fromkeys(key for row in rows for key in row if key not in ("seed", "step")))
        shown = {"loss": Column("loss", "least", most=math.inf)} | ({} if world is None else world.shown)
        if measures is None:
            usual = [key for key in shown if key in known] if world is not None else []
            chosen = usual or [key for key in known if "/" not in key][:SHOWN]
        else:
            chosen = _checked(measures, known)
        columns = {key: shown.get(key, Column(key, least=-math.inf, most=math.inf)) for key in chosen}
        return cls(tuple(rows), columns, name)

    @property
    def seeds(self) -> list[int]:
        """In the order in which they stand."""
        return list(dict.fromkeys(row["seed"] for row in self.rows))

    def line(self, measure: str, seed: int) -> tuple[list[int], list[float | None]]:
        """Steps and values of one seed."""
        mine = sorted((row["step"], row.get(measure)) for row in self.rows if row["seed"] == seed and measure in row)
        return [step for step, _ in mine], [value for _, value in mine]

    def mean(self, measure: str) -> dict[int, Estimate]:
        """At each step that every seed has reached, the mean over seeds."""
        at: dict[int, list[float]] = {}
        for row in self.rows:
            if row.get(measure) is not None:
                at.setdefault(row["step"], []).append(row[measure])
        column, count = self.columns[measure], len(self.seeds)
        return {
            step: mean_over_seeds(values, support=(column.least, column.most))
            for step, values in sorted(at.items())
            if len(values) == count
        }

    def rungs(self) -> dict[str, float]:
        """Losses of simpler predictors and of the exact law on the same strings, as last measured."""
        last = self.rows[-1]
        return {key.removeprefix("rung/"): value for key, value in last.items() if key.startswith("rung/") and value}

    def summary(self) -> str:
        """A line per measure: at the first step and at the last that every seed has reached."""
        steps = sorted({row["step"] for row in self.rows})
        lines = [f"{self.name}: {counted(len(self.seeds), 'seed')}, steps {steps[0]} to {steps[-1]}"]
        found = {column.head: self.mean(measure) for measure, column in self.columns.items()}
        common = sorted(set.intersection(*(set(each) for each in found.values())))
        if not common:
            return fold([*lines, "there is no step that every seed has reached"])
        first, last = common[0], common[-1]
        fixed = {
            column.head: of_strings(measure, [row[measure] for row in self.rows if row["step"] == last])
            for measure, column in self.columns.items()
        }
        means = [each[last] for head, each in found.items() if not fixed[head]]
        cells = Cells(means, 4)
        lines.append(f"  {'':<16}{f'step {first}':>11}   step {last}")
        lines += [
            f"  {head:<16}{number(each[first].value, 4):>11}   "
            f"{number(each[last].value, 4) if fixed[head] else cells(each[last])}"
            for head, each in found.items()
        ]
        lines += [f"means over seeds, intervals: {cells.over}", *reasons(means)]
        if rungs := self.rungs():
            lines.append("loss on the same strings: " + ", ".join(f"{n} {number(v, 4)}" for n, v in rungs.items()))
        return fold(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the rows, and the means with their intervals."""
        means = {m: {str(step): e.to_dict() for step, e in self.mean(m).items()} for m in self.columns}
        return {"name": self.name, "seeds": self.seeds, "means": means, "rows": [dict(row) for row in self.rows]}

    def figure(self) -> Any:
        """A panel per measure: each seed a thin line, the mean over seeds a thick one; rungs dotted."""
        from interp.plots.curves import curves_figure

        return curves_figure(self)


def _read(source: Any) -> tuple[list[dict[str, Any]], Any, str]:
    """Rows, world (None: not known) and name."""
    if not isinstance(source, (str, os.PathLike)):
        from interp.population import Population  # torch with it, which files do without

        if isinstance(source, Population):
            return list(source.history), world_of(source.grammar), str(source.provenance.get("name", "population"))
    path = as_path(source, "what holds measures", RequestError)
    if os.path.isdir(path):
        path = path / METRICS_FILE
        if not os.path.isfile(path):
            raise RequestError(f"{str(path.parent)!r} is not a folder of a run: it holds no {METRICS_FILE}")
    if path.suffix == Path(METRICS_FILE).suffix:
        if not os.path.isfile(path):
            raise RequestError(f"no file {str(path)!r}")
        return read_rows(path), None, str(path)
    meta = read_header(find_checkpoint(str(source)))
    world = world_of_kind((meta.get("grammar") or {}).get("kind"))
    return list(meta["history"]), world, str(meta["provenance"].get("name", source))


def _checked(measures: Any, known: list[str]) -> list[str]:
    if not isinstance(measures, Iterable) or isinstance(measures, (str, bytes)) or not (chosen := list(measures)):
        raise RequestError(f"measures={quoted(measures)} is not a list of names of measures")
    for name in chosen:
        if not isinstance(name, str) or name not in known:
            raise RequestError(f"no measure {quoted(name)}; measured were {', '.join(known)}")
    if (twice := first_duplicate(chosen)) is not None:
        raise RequestError(f"measure {quoted(twice)} is given twice")
    return chosen
