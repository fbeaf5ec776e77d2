"""One population: its loss beside the rungs, and how differently its models attend."""

from dataclasses import dataclass
from typing import Any

from case_studies.page import Figure, Page, Table
from case_studies.populations import Family
from case_studies.study import Plan, Run, Study, wanted
from interp.numbers import estimate, number
from interp.plots import attention_heatmap
from probes import analyze_variation
from regular_language import DECLARED

TEXT = "a..b.aa..b...."


@dataclass(frozen=True)
class Size:
    seeds: int


def populations(size: Size) -> Plan:
    return {"all": wanted([Family("last letter", "last-letter", {})], size.seeds)}


def collect(run: Run[Size]) -> Any:
    (one,) = run.obtain("all")
    return one, analyze_variation(one.population, TEXT).variation[-1]


def to_results(found: Any) -> dict[str, Any]:
    return {"variation": found[1].to_dict(), "metrics": found[0].population.final_metrics()}


def report(found: Any, command: str) -> Page:
    (one, variation), columns = found, ("loss", "accuracy", "rung/uniform", "rung/letters only")
    rows = [[f"seed {row['seed']}", *(number(row[name]) for name in columns)] for row in one.population.final_metrics()]
    return Page(
        title="Heads that tell the last letter",
        asked="Do models that solve a regular language equally well attend alike?",
        said=[],  # what a paper says, where there is one
        answer=[
            f"Their attention varies by {estimate(variation, n=True)} on {TEXT}; before training it is "
            f"{number(variation.null['untrained'])}."
        ],
        sure="95 % interval over seeds, of which three at least are needed; the null is the same seeds untrained.",
        lead=Figure(attention_heatmap(one.population, TEXT, overlay="last_letter"), "The last letter boxed."),
        compared=[Table(["model", *columns], rows)],
        sections=[],
        settings=[Table(["models", "preset"], [["last letter", "last-letter"]])],
        command=command,
        digests=[(one.family.name, one.digest)],
    )


STUDY = Study(DECLARED, Size(4), Size(40), collect, to_results, report, populations)
