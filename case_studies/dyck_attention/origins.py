"""What makes attention vary between seeds: their first weights, the data they read, or which meets which."""

from collections.abc import Sequence
from typing import Any

from case_studies.page import Table
from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.words import Cell, Row
from interp.numbers import estimate
from probes.variation import OriginsResult, share_of_origins

Origins = Sequence[tuple[Family, str, OriginsResult]]  # a family, the digest of its models, and the split


def measure_origins(obtained: Sequence[Obtained]) -> Origins:
    """The split of every crossed population that is whole: a run that asks for other numbers of seeds has none."""
    found = []
    for one in obtained:
        levels = one.population.provenance["settings"]["crossed"]
        if len(one.population) == levels**2:
            found.append((one.family, one.digest, share_of_origins(one.population)))
    return found


def origin_parts(origins: Origins) -> list[str | Table]:
    """A table of all layers, and the sentence that says which share is the largest."""
    if not origins:
        return []
    rows: list[Row] = []
    for family, _, result in origins:
        for layer, whole in enumerate(result.variation):
            shares = [Cell(share) for share in result.shares(layer).values()]
            rows.append([f"{family.name}, layer {layer}", Cell(whole), *shares])
    levels = origins[0][2].levels
    return [
        f"Here {levels} first weights are crossed with {levels} orders of data, {levels**2} models per family. Models "
        "that share their weights differ by data, models that share data by weights; what is left to models that share "
        "neither is due to which weights meet which data.",
        Table(
            ["family", "variation", "first weights", "order of data", "which meets which"],
            rows,
            "Shares of the variation between models that share neither. Without an influence of its own of either, the "
            "three would be 0, 0 and 1; before training they are 1, 0 and 0. A share may be estimated below 0 where "
            f"there is next to nothing. n: levels of weights and of data, {levels} each.",
        ),
        " ".join(_told(family, result) for family, _, result in origins),
    ]


def _told(family: Family, result: OriginsResult) -> str:
    """The largest share of the last layer, and whether its interval is apart from those of the others."""
    words = {"weights": "first weights", "data": "the order of data", "both": "which weights meet which data"}
    shares = result.shares(len(result.variation) - 1)
    name, most = max(shares.items(), key=lambda item: item[1].value or 0.0)
    others = [share for other, share in shares.items() if other != name]
    known = most.low is not None and all(share.high is not None for share in others)
    apart = known and all((share.high or 0.0) < (most.low or 0.0) for share in others)
    sure = "more than either of the others" if apart else "not separated from the others by these intervals"
    told = f"the largest share, {estimate(most, n=True)}, is that of {words[name]}: {sure}."
    return f"In the last layer of {family.name} {told}"


def to_dict(origins: Origins) -> dict[str, Any]:
    """JSON-ready."""
    return {
        family.name: {
            "digest": digest,
            "variation": [e.to_dict() for e in result.variation],
            "shares": [{k: e.to_dict() for k, e in result.shares(i).items()} for i in range(len(result.variation))],
        }
        for family, digest, result in origins
    }
