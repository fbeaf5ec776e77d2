"""The audit beside the naive rule: the same claims about the same models, and the same errors counted in one unit."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from interp.errors import RequestError
from interp.numbers import ABSENT, count, number
from interp.stats import clopper_pearson
from interp.threads import one_thread
from probes.audit.bench.trained.cases import KINDS
from probes.audit.bench.trained.errors import ERRORS, OF_USE, Counted, Told, grouped, models_from_json, row
from probes.audit.bench.trained.families import FAMILIES
from probes.audit.bench.trained.naive import By, Means, means_of
from probes.audit.bench.trained.table import COUNTS
from probes.audit.bench.trained.truth import check_subject

DIGITS = 6  # of the numbers that are kept; words are made of them as they are kept
RULES: dict[By, str] = {"score": "naive, by score", "top": "naive, by largest weight"}
HEAD = ("kind", "claims", "asked", "claims with an error", *ERRORS, "wrong verdict")
USES = re.compile(r"\S+ (mainly )?uses ")  # how a claim about the use of one head begins
Data = Mapping[str, Any]
Name = tuple[str, int, str]  # family, seed, claim


# -- running it ---------------------------------------------------------------------------------------------


def measured(folder: Path, family: str, seed: int) -> dict[str, Any]:
    """What the rule needs of each claim about one model that passes the check of truths, JSON-ready.

    The rule is given the strings on which truths are checked, which no audit sees.
    """
    with one_thread():
        subject = FAMILIES[family].make(seed, folder)
        _, kept, _ = check_subject(subject, seed)
        means = means_of(subject.model, [one.spoken.claim for one in kept], subject.examples, subject.grammar)
    claims = [
        {
            "claim": one.spoken.claim.text, "kind": one.spoken.kind, "pattern": one.pattern, "use": one.use,
            "asks": one.spoken.claim.uses is not None,
            **{name: round(value, DIGITS) for name, value in vars(found).items()},
        }
        for one, found in zip(kept, means, strict=True)
    ]  # fmt: skip
    return {"family": family, "seed": seed, "cluster": FAMILIES[family].cluster(seed), "claims": claims}


def check_same_claims(data: Data, models: Iterable[Data]) -> None:
    """Raise `RequestError` unless the rule was asked what the audit was asked, of the same truths.

    A result keeps the names of claims that came out with an error, and counts the others by model, kind and truth.
    """
    audited: Counter[tuple[Any, ...]] = Counter()
    for one in models_from_json(data["told"]):
        audited[one.family, one.seed, one.cluster, one.kind, one.pattern, one.use] += one.claims
    asked, truths = Counter[tuple[Any, ...]](), dict[Name, tuple[Any, ...]]()
    for model in models:
        for c in model["claims"]:
            asked[model["family"], model["seed"], model["cluster"], c["kind"], c["pattern"], c["use"]] += 1
            truths[model["family"], model["seed"], c["claim"]] = (c["kind"], c["pattern"], c["use"])
    if asked != audited or len(truths) != asked.total():
        raise RequestError(f"half {data['half']}: the naive rule was not asked the claims that the audit was asked")
    for w in data["wrong"]:
        if truths.get(_name(w)) != (w["kind"], w["truth"]["pattern"], w["truth"]["use"]):
            raise RequestError(f"half {data['half']}: {w['claim']!r} of {w['family']}/{w['seed']} was another claim")


def told_by(models: Iterable[Data], by: By) -> list[Told]:
    """Every claim, with the words of one variant of the rule."""
    out = []
    for model in models:
        for c in model["claims"]:
            means = {name: c[name] for name in ("score", "top", "lowers")}
            out.append(Told(
                model["family"], model["seed"], model["cluster"], c["claim"], c["kind"], c["pattern"], c["use"],
                c["asks"], *Means(**means).words(by, c["asks"]), means,
            ))  # fmt: skip
    return out


# -- counting -----------------------------------------------------------------------------------------------


def wrong_verdict(told: Data) -> bool:
    """Whether a claim that came out with an error (`Told.to_dict`) got a verdict that its truth excludes."""
    truth, verdict = told["truth"], told["said"]["verdict"]
    if verdict == "undecided":
        return False
    if not truth["pattern"]:
        return bool(verdict != "refuted")
    if not USES.match(told["claim"]):
        return bool(verdict != "supported")
    right = {**dict.fromkeys(OF_USE, "supported"), "unused": "misleading"}.get(truth["use"])
    return right is not None and bool(verdict != right)


def table(data: Data, models: Sequence[Data]) -> str:
    """Markdown: by kind, those in which any of the three errs one by one; and who alone is right where."""
    check_same_claims(data, models)
    counted, wrong = {"the audit": models_from_json(data["told"])}, {"the audit": list(data["wrong"])}
    for by, name in RULES.items():
        told = told_by(models, by)
        counted[name] = grouped(told)
        wrong[name] = [t.to_dict() for t in told if t.outcome != "right"]
    failing = [kind for kind in KINDS if any(w["kind"] == kind for each in wrong.values() for w in each)]
    rest = [kind for kind in KINDS if kind not in failing and any(c.kind == kind for c in counted["the audit"])]
    others = "the other kind" if len(rest) == 1 else f"the {COUNTS.get(len(rest), len(rest))} other kinds"
    groups = {kind: [kind] for kind in failing} | ({others: rest} if rest else {})
    lines = [HEAD, ["---"] * len(HEAD)]
    for label, kinds in (groups | {"all": [*failing, *rest]}).items():
        lines += [
            [label, *_cells([c for c in counted[name] if c.kind in kinds], name, wrong[name])] for name in counted
        ]
    markdown = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    alone = [_alone(wrong["the audit"], wrong[name], name) for name in RULES.values()]
    return "\n\n".join([markdown, *alone, gaps(models)])


def gaps(models: Iterable[Data]) -> str:
    """How far the rule's numbers are apart for claims of either truth: what other bounds could have told."""
    claims = [c for model in models for c in model["claims"]]
    there = [[c for c in claims if c["pattern"] is so] for so in (True, False)]
    used = [[c for c in there[0] if (c["use"] in OF_USE) is so and c["use"] != "not asked"] for so in (True, False)]
    told = []
    looks, uses = ("whose pattern is there", "in others"), ("whose head is of use", "where it is of none")
    for name, words, (yes, no), (here, elsewhere) in (
        ("score", "Scores", there, looks),
        ("top", "Shares of rows with the largest weight on it", there, looks),
        ("lowers", "Shares of the margin that an ablation takes", used, uses),
    ):
        if yes and no:
            least, most = (number(end(c[name] for c in of), 3) for end, of in ((min, yes), (max, no)))
            told.append(f"{words} are at least {least} in claims {here}, at most {most} {elsewhere}.")
    return " ".join(told)


def both_halves(halves: Mapping[str, Data], found: Data) -> str:
    """The tables of all halves of which there are results of both, the half that was set aside first."""
    parts = []
    for half, data in halves.items():
        if half not in found["halves"]:
            continue
        seeds = sorted({model["seed"] for model in data["told"]})
        title = (
            f"Half: {half}, seeds {seeds[0]} to {seeds[-1]}; {data['claims']:,} claims about {data['models']} models."
        )
        parts += [title, table(data, found["halves"][half])]
    return "\n\n".join(parts)


# -- inside -------------------------------------------------------------------------------------------------


def _cells(mine: Sequence[Counted], name: str, wrong: Sequence[Data]) -> list[Any]:
    one = row(mine)
    clusters = {(c.family, c.seed): c.cluster for c in mine}
    kinds = {c.kind for c in mine}
    bad = {clusters[w["family"], w["seed"]] for w in wrong if w["kind"] in kinds and wrong_verdict(w)}
    verdicts = clopper_pearson(len(bad), one.models, over="seeds")
    shares = [rate.share for rate in one.rates.values()]
    return [one.claims, name, one.claims - one.right, *(count(s) if s.n else ABSENT for s in shares), count(verdicts)]


def _alone(audit: Sequence[Data], naive: Sequence[Data], name: str) -> str:
    """Claims with which only one of the two erred, by family and kind, as sentences."""
    first, second = ({_name(w): w for w in each} for each in (audit, naive))
    audit_right = [w for key, w in second.items() if key not in first]
    naive_right = [w for key, w in first.items() if key not in second]
    both = len(set(first) & set(second))
    return (
        f"The audit against {name}: only the audit is right of {_where(audit_right)}; only the rule is right of "
        f"{_where(naive_right)}; both err on {both} claim{'' if both == 1 else 's'}."
    )


def _where(wrong: Sequence[Data]) -> str:
    """ "20 claims (20 conditional of switch: false support)"."""
    found = Counter((w["kind"], w["family"], w["outcome"]) for w in wrong)
    listed = ", ".join(f"{n} {kind} of {family}: {outcome}" for (kind, family, outcome), n in found.items())
    return f"{len(wrong)} claim{'' if len(wrong) == 1 else 's'}" + (f" ({listed})" if listed else "")


def _name(wrong: Data) -> Name:
    return wrong["family"], wrong["seed"], wrong["claim"]
