"""`dyck-attention`: models that solve Dyck equally well, and how differently they attend.

Wen et al. 2023, section 4.1 and App. D: accuracy on held-out strings, last-layer attention patterns (Figs. 1, 2,
7-9, 11), attention variation on one fixed sentence and over grammars and depths (Table 1). `run` trains what is
missing, measures, writes index.html and results.json. Nothing here states a finding in advance.
"""

from dataclasses import dataclass
from typing import Any

from case_studies.dyck_attention import DECLARED
from case_studies.dyck_attention import families as known
from case_studies.dyck_attention.apart import measure_kinds, measure_pairs
from case_studies.dyck_attention.arms import arms_of
from case_studies.dyck_attention.arms import to_dict as arms_to_dict
from case_studies.dyck_attention.deep import DEPTH, measure_deep
from case_studies.dyck_attention.measure import (
    accuracy_of,
    constructed_uniform,
    counting_start,
    measure,
    measure_cell,
    measure_variant,
    prefix_variation,
)
from case_studies.dyck_attention.origins import measure_origins
from case_studies.dyck_attention.origins import to_dict as origins_to_dict
from case_studies.dyck_attention.report import Findings, report
from case_studies.study import Plan, Run, Study, wanted
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
    closers: int  # the main families and those of prefixes, with the loss on closers
    released: int  # the same as the released code has them
    table_released: int  # Table 1 so
    table_prefixes: int  # the same on prefixes
    without: int  # the released code with one part as ours
    crossed: int  # first weights, and as many orders of data, that are crossed


QUICK = Size(
    main=8,
    others=5,
    prefixes=5,
    table=5,
    varied=0,
    figures=0,
    cells=2,
    closers=5,
    released=0,
    table_released=0,
    table_prefixes=0,
    without=0,
    crossed=0,
)
FULL = Size(
    main=40,
    others=40,
    prefixes=40,
    table=40,
    varied=40,
    figures=8,
    cells=len(known.TABLE),
    closers=40,
    released=40,
    table_released=20,
    table_prefixes=10,
    without=20,
    crossed=8,
)


def populations(size: Size) -> Plan:
    """Every group of families."""
    return {
        "main": wanted(known.MAIN, size.main),
        "others": wanted(known.OTHERS, size.others),
        "prefixes": wanted((*known.PREFIXES, *known.OTHER_PREFIXES), size.prefixes),
        "table": wanted([cell.family for cell in known.TABLE[: size.cells]], size.table),
        "varied": wanted(known.VARIED, size.varied),
        "fewer": wanted(known.FEWER, size.varied, first=size.varied),
        "figures": wanted([panel.family for panel in known.FIGURES], size.figures),
        "closers": wanted((*known.CLOSERS, *known.CLOSERS_PREFIXES), size.closers),
        "released": wanted((*known.RELEASED, *known.RELEASED_PREFIXES), size.released),
        "table_released": wanted([cell.released for cell in known.TABLE[: size.cells]], size.table_released),
        "table_prefixes": wanted([cell.prefixes for cell in known.TABLE[: size.cells]], size.table_prefixes),
        "without": wanted(known.WITHOUT, size.without),
        "crossed": wanted(known.crossed(size.crossed), size.crossed**2),
    }


def collect(run: Run[Size]) -> Findings:
    """Everything measured on every population."""
    ours = {name: list(run.obtain(name)) for name in ("main", "others", "prefixes")}
    main, others, prefixes = ([measure(one) for one in listing] for listing in ours.values())
    cells = {name: list(run.obtain(name)) for name in ("table", "table_released", "table_prefixes")}
    table, table_released, table_prefixes = (
        [measure_cell(cell, one) for cell, one in zip(known.TABLE, listing, strict=False)] for listing in cells.values()
    )
    deep = [one for listing in cells.values() for one in listing if one.population.config.n_layers == DEPTH]
    varied = list(run.obtain("varied"))
    variants, fewer, without = (
        [measure_variant(one) for one in group] for group in (varied, run.obtain("fewer"), run.obtain("without"))
    )
    released, figures = (list(run.obtain(name)) for name in ("released", "figures"))
    printed = [*ours["main"], *ours["prefixes"][: len(known.PREFIXES)]]
    arms = arms_of(printed, list(run.obtain("closers")), released)
    panels = [
        (panel, one.population, accuracy_of(one.population).least)
        for panel, one in zip(known.FIGURES, figures, strict=False)
    ]
    every = {one.family.name: one for one in (*printed, *ours["others"], *released, *varied, *figures)}
    pairs = {
        name: (every[first.name], every[second.name])
        for name, (first, second) in known.ONE_APART.items()
        if {first.name, second.name} <= set(every)
    }
    return Findings(
        count=run.seeds("main"),
        main=main,
        others=others,
        prefixes=prefixes,
        prefix_variation=[prefix_variation(m.population) for m in prefixes],
        table=table,
        variants=[*variants, *fewer],
        arms=arms,
        table_released=table_released,
        table_prefixes=table_prefixes,
        without=without,
        origins=measure_origins(list(run.obtain("crossed"))),
        pairs=measure_pairs(pairs),
        kinds=[measure_kinds(every[f.name]) for f in known.TWO_KINDS if f.name in every],
        deep=[measure_deep(one) for one in deep],
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
        "arms": arms_to_dict(f.arms),
        "origins": origins_to_dict(f.origins),
        "apart": {a.name: a.to_dict() for a in f.pairs},
        "two_kinds": {a.name: a.to_dict() for a in f.kinds},
        "three_layers": {d.name: d.to_dict() for d in f.deep},
        "table_1_released": {row.cell.name: row.to_dict() for row in f.table_released},
        "table_1_prefixes": {row.cell.name: row.to_dict() for row in f.table_prefixes},
        "varied": {v.family.name: v.to_dict() for v in f.variants},
        "without": {v.family.name: v.to_dict() for v in f.without},
        "counting_start": {name: {k: e.to_dict() for k, e in kinds.items()} for name, kinds in f.start.items()},
        "figures": {
            panel.label: {"models": panel.family.name, "worst": least, "n": len(population)}
            for panel, population, least in f.panels
        },
    }


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, populations)
run = STUDY.run
