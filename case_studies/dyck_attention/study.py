"""`dyck-attention`: models that solve Dyck equally well, and how differently they attend.

Wen et al. 2023, section 4.1 and App. D: accuracy on held-out strings, last-layer attention patterns (Figs. 1, 2,
7-9, 11), attention variation on one fixed sentence and over grammars and depths (Table 1). `run` trains what is
missing, measures, writes index.html and results.json. Nothing here states a finding in advance.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case_studies.dyck_attention import families as known
from case_studies.dyck_attention.measure import (
    accuracy_of,
    constructed_uniform,
    counting_start,
    measure,
    measure_cell,
    measure_variant,
    prefix_variation,
    shortened,
)
from case_studies.dyck_attention.report import Findings, report
from case_studies.page import command_of, write_study
from case_studies.populations import obtain
from interp.files import make_folder
from interp.presets import make_recipe
from interp.worlds.dyck.evaluate import rule_floors
from interp.worlds.dyck.task import FINAL_STRINGS, in_distribution
from probes.variation import PAPER_SENTENCE


@dataclass(frozen=True)
class Size:
    """How many seeds each group of families gets; 0 leaves the group out."""

    main: int
    others: int
    prefixes: int
    table: int
    varied: int
    figures: int
    cells: int  # rows of Table 1


QUICK = Size(main=8, others=4, prefixes=4, table=4, varied=0, figures=0, cells=2)
FULL = Size(main=40, others=40, prefixes=20, table=40, varied=8, figures=4, cells=len(known.TABLE))


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
) -> Path:
    """Train or load the families, measure, and write the report; return the path of its page.

    `seeds` and `steps` replace what `full` and the presets say.
    """
    size = FULL if full else QUICK
    if seeds is not None:
        size = Size(seeds, seeds, seeds, seeds, seeds if size.varied else 0, seeds if size.figures else 0, size.cells)
    folder = make_folder(out)
    found = collect(size, folder / "populations", workers, steps)
    command = command_of("dyck-attention", full, out)
    return write_study(to_results(found), report(found, command), folder)


def collect(size: Size, folder: Path, workers: int | None = None, steps: int | None = None) -> Findings:
    """Every population, trained or loaded, and everything measured on it."""
    main = [measure(f, size.main, folder, workers) for f in shortened(known.MAIN, steps)]
    others = [measure(f, size.others, folder, workers) for f in shortened(known.OTHERS, steps)]
    prefixes = [measure(f, size.prefixes, folder, workers) for f in shortened(known.PREFIXES, steps)]
    table = [measure_cell(cell, size.table, folder, workers, steps) for cell in known.TABLE[: size.cells]]
    varied = known.VARIED if size.varied else ()
    variants = [measure_variant(f, size.varied, folder, workers) for f in shortened(varied, steps)]
    panels = []
    for panel in known.FIGURES if size.figures else ():
        population, _ = obtain(shortened([panel.family], steps)[0], size.figures, folder, workers)
        panels.append((panel, population, accuracy_of(population).least))
    return Findings(
        count=size.main,
        main=main,
        others=others,
        prefixes=prefixes,
        prefix_variation=[prefix_variation(m.population) for m in prefixes],
        table=table,
        variants=variants,
        start={m.family.name: counting_start(m.population) for m in [*main, *prefixes]},
        panels=panels,
        floors=rule_floors(in_distribution(make_recipe("dyck-standard"), FINAL_STRINGS)),
        uniform=constructed_uniform(),
    )


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    measured = {m.family.name: m.to_dict() for m in f.families}
    for name, value in known.PAPER_VARIATION.items():
        measured[name]["paper_variation"] = value
    for m, own in zip(f.prefixes, f.prefix_variation, strict=True):
        measured[m.family.name]["variation_on_prefixes"] = [e.to_dict() for e in own.variation]
    return {
        "seeds": f.count,
        "sentence": PAPER_SENTENCE,
        "floors": f.floors,
        "families": measured,
        "constructed_uniform": f.uniform,
        "table_1": {row.cell.name: row.to_dict() for row in f.table},
        "varied": {v.family.name: v.to_dict() for v in f.variants},
        "counting_start": {name: {k: e.to_dict() for k, e in kinds.items()} for name, kinds in f.start.items()},
        "figures": {panel.label: {"models": panel.family.name, "worst": least} for panel, _, least in f.panels},
    }
