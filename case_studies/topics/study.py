"""`topics`: where a one-layer Transformer keeps the topics of its documents.

Li, Li, Risteski 2023; thesis section 2.1, Figs 2.1-2.10, Tables 2.1, 2.2. `run` trains what is missing, measures,
writes index.html and results.json. Nothing here states a finding in advance.
"""

from dataclasses import asdict, dataclass
from typing import Any

from case_studies.study import Obtained, Plan, Run, Study, wanted
from case_studies.topics import DECLARED
from case_studies.topics import families as known
from case_studies.topics.descent import answers, initial_scale, measure_growth, spread_of_all
from case_studies.topics.embedding import measure_alone
from case_studies.topics.lookup import Relations
from case_studies.topics.measure import (
    TAUS,
    exact_descent,
    exact_row,
    landscapes,
    measure_boundary,
    measure_exact,
    measure_group,
    measure_row,
    measure_stage,
    optima,
)
from case_studies.topics.readings import left_over
from case_studies.topics.released import EVERY, STEPS, TABLE_2_1, TABLE_2_2, Length
from case_studies.topics.released_rows import measure_released
from case_studies.topics.report import Findings, report
from case_studies.topics.turning import measure_turning
from interp.grammars import TopicGrammar
from interp.population import Population


@dataclass(frozen=True)
class Size:
    """Seeds of the figures and tables, and of the exact law and which settings have two stages: every text says n."""

    main: int
    few: int


QUICK, FULL = Size(2, 2), Size(10, 4)


def populations(size: Size) -> Plan:
    """Every group of families, a figure's under its label."""
    return {
        "exact": wanted(known.EXACT, size.few),
        **{group.label: wanted(group.families, size.main) for group in known.GROUPS},
        **{group.label: wanted(group.families, size.main) for group in known.TRIED},
        "embedding": wanted([*known.EMBEDDING_ALONE, *(alone for alone, _ in known.LONGER)], size.main),
        "everything": wanted([whole for _, whole in known.LONGER], size.main),
        "table": wanted([family for family, _ in known.TABLE], size.main),
        "stages": wanted(known.STAGES, size.main),
        "boundaries": wanted([*known.TWO_STAGES, *known.STAGE_1], size.main),
        "faint": wanted(known.FAINT, size.main),
    }


def collect(run: Run[Size]) -> Findings:
    """Everything measured on every population."""
    idealised, grammar = TopicGrammar(law="idealised"), TopicGrammar()
    exact = [exact_row("gradient descent from zero, float64", None, exact_descent(idealised), idealised)]
    exact += [measure_exact(one) for one in run.obtain("exact")]
    boundaries = [(one, measure_boundary(one)) for one in run.obtain("boundaries")]
    return Findings(
        count=run.seeds(known.GROUPS[0].label),
        groups=[measure_group(group, run.obtain(group.label)) for group in known.GROUPS],
        tried=[measure_group(group, run.obtain(group.label)) for group in known.TRIED],
        alone=[measure_alone(one, _everything(run, one)) for one in run.obtain("embedding")],
        exact=exact,
        table=[measure_row(one, paper) for one, (_, paper) in zip(run.obtain("table"), known.TABLE, strict=True)],
        released=measure_released(TABLE_2_1, _length(run, "Table 2.1"), grammar, run.populations),
        diagonal=measure_released(TABLE_2_2, _length(run, "Table 2.2"), grammar, run.populations),
        left=left_over(grammar),
        stages=[measure_stage(one) for one in run.obtain("stages")],
        boundaries=[found for _, found in boundaries],
        turning=[t for one, found in boundaries if (t := measure_turning(one, found.result)) is not None],
        growth=[measure_growth(one) for one in run.obtain("faint")],
        answers=answers(grammar),
        landscapes=landscapes(),
        optima=optima(),
    )


def _everything(run: Run[Size], alone: Obtained) -> Population:
    """The population in which everything is trained, by the loss of this one and for as many steps."""
    groups = (known.GROUPS[0].label, "everything")
    return next(one.population for g in groups for one in run.obtain(g) if one.family.name == alone.family.name)


def _length(run: Run[Size], table: str) -> Length:
    """How much of the released code's training: runs like those of the exact law, and the asked share of the steps."""
    asked, whole = run.group("table")[0].family.recipe.settings.steps, known.FIGURE_STEPS
    return Length(run.seeds("exact"), max(1, STEPS[table] * asked // whole), max(1, EVERY * asked // whole))


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    groups = {}
    for g in (*f.groups, *f.tried):
        groups[g.group.label] = {
            arm.family.name: {
                "digest": arm.digest,
                "structure": arm.result.structure,
                "p_value": arm.result.p_value,
                "loss": arm.loss.to_dict(),
                "block_mean": arm.block_mean.to_dict(),
                "other_mean": arm.other_mean.to_dict(),
                "theory": {name: e.to_dict() for name, e in arm.result.theory.items()},
                **{
                    name: getattr(arm.result, name).to_dict()
                    for name in ("contrast", "raw_contrast", "diagonality", "uniformity", "ari")
                },
            }
            for arm in g.arms
        }
    return {
        "seeds": f.count,
        "figures": groups,
        "embedding_alone": {a.family.name: a.to_dict() for a in f.alone},
        "exact": {
            row.name: {
                "digest": row.digest,
                **{n: getattr(row, n).to_dict() for n in ("excess", "largest", "row_zero", "family")},
            }
            for row in f.exact
        },
        "table_2_1": {
            row.family.name: {
                "digest": row.digest,
                "structures": row.structures,
                "loss": row.loss.to_dict(),
                **_relations(row.right),
                "released_lookup": _relations(row.released),
                "released_lookup_whole": _relations(row.whole),
                "share_on_one_word": row.one_word.to_dict(),
                "paper": row.paper,
            }
            for row in f.table
        },
        "table_2_1_released": {row.setting.name: row.to_dict() for row in f.released},
        "table_2_2": {row.setting.name: row.to_dict() for row in f.diagonal},
        "left_over": {
            "_".join(key): {"share": one.share, "mean": one.mean, "ratio": one.ratio} for key, one in f.left.items()
        },
        "stage_2": {
            row.family.name: {
                "digest": row.digest,
                "ratio": {str(step): e.to_dict() for step, e in row.curve.items()},
                "relations": _relations(row.relations)["relations"],
                "optima": None if row.optima is None else asdict(row.optima),
            }
            for row in f.stages
        },
        "two_stages": {
            b.family.name: {
                "digest": b.digest,
                "two_stages": b.result.two_stages,
                "reason": b.result.reason,
                **{n: getattr(b.result, n).to_dict() for n in ("boundary", "share", "value_done", "attention_done")},
            }
            for b in f.boundaries
        },
        "turning": {t.family.name: t.to_dict() for t in f.turning},
        "faint": {
            "trained": {
                g.family.name: {
                    "digest": g.digest,
                    "block_mean": {str(step): e.to_dict() for step, e in g.block.items()},
                    "other_mean": {str(step): e.to_dict() for step, e in g.other.items()},
                    "passes_at_step": {label: e.to_dict() for label, e in g.passed.items()},
                }
                for g in f.growth
            },
            "expected": {
                a.setting.name: {
                    "setting": asdict(a.setting),
                    "steps": a.steps,
                    "earliest": a.earliest,
                    "latest": a.latest,
                    "others": a.others,
                    "p": a.p,
                }
                for a in f.answers
            },
            "initial_scale": {n: initial_scale(s, TopicGrammar()) for n, s in known.PAPER_FAINT_SPREAD.items()},
            "spread_of_all": {n: spread_of_all(s, TopicGrammar()) for n, s in known.PAPER_FAINT_SPREAD.items()},
        },
        "landscapes": {
            "block": {
                str(tau): {"gamma": o.gamma, "loss": o.loss} for tau, o in zip(TAUS, f.optima["block"], strict=True)
            },
            "diagonal": {
                str(tau): {"alpha": o.alpha, "beta": o.beta, "loss": o.loss}
                for tau, o in zip(TAUS, f.optima["diagonal"], strict=True)
            },
        },
    }


def _relations(r: Relations) -> dict[str, Any]:
    return {"ratio": r.ratio.to_dict(), "relations": {name: e.to_dict() for name, e in r.means.items()}}


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, populations)
run = STUDY.run
