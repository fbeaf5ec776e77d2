"""`flip-flop`: attention glitches, what lessens them, and what a head's looks predict of them.

B. Liu's thesis (2024), section 3.5. `run` trains what is missing, counts wrong reads in and beyond training's law,
follows attention as the last write lies further back, and asks over many seeds whether anything that can be seen in
training's law tells who glitches beyond it. Nothing here states a finding in advance.
"""

from dataclasses import dataclass
from typing import Any

from case_studies.flip_flop import DECLARED
from case_studies.flip_flop.afterwards import (
    attention,
    faultless,
    faultless_at,
    lstms_faultless,
    right,
    shares,
    versus_errors,
)
from case_studies.flip_flop.lstm import count_errors, train_lstm
from case_studies.flip_flop.measure import BASE, OTHERS, OWN, READS, Found, Measured, measure, of
from case_studies.flip_flop.predict import LAWS, among_clean, any_error, learned, predictions, ranks, rivals, unlearned
from case_studies.flip_flop.report import MIXTURE, ONE, PENALTIES, TWO, report
from case_studies.study import Plan, Run, Study, wanted
from probes.glitches import LAWS as EVERY_LAW
from probes.glitches import glitch_strings


@dataclass(frozen=True)
class Size:
    """`many`: seeds of the two base arms; `seeds`: of each other; `lstms`: how many are trained beside them."""

    many: int
    seeds: int
    lstms: int


def populations(size: Size) -> Plan:
    """Base arms of many seeds, and all others."""
    return {
        "base": wanted([arm.family for arm in BASE], size.many),
        "others": wanted([arm.family for arm in OTHERS], size.seeds),
    }


def collect(run: Run[Size]) -> Found:
    """Every arm measured, and the LSTMs."""
    measured = [measure(arm, one) for arm, one in zip(BASE, run.obtain("base"), strict=True)]
    grammar: Any = measured[-1].population.grammar
    measured += [measure(arm, one) for arm, one in zip(OTHERS, run.obtain("others"), strict=True)]
    strings = {f"{law:g}": glitch_strings(grammar, law, grammar.length, READS, 0) for law in EVERY_LAW}
    steps = {one.family.recipe.settings.steps for one in run.group("base")}
    trained = [train_lstm(grammar, seed, *([min(steps)] if min(steps) < 100 else [])) for seed in range(run.size.lstms)]
    lstms = [{law: count_errors(one, grammar, tokens) for law, tokens in strings.items()} for one in trained]
    return Found(measured, lstms)


def to_results(found: Found) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n, and each seed's."""
    return {
        "seeds": len(found.measured[0].population),
        "arms": {m.arm.family.name: _of_arm(m) for m in found.measured},
        "predictions": {name: one.to_dict() for name, one in predictions(found.measured).items()},
        "secondary": {
            f"{m.arm.family.name}, {words}: {score}": {
                "any_error": any_error(m, law, score).to_dict(),
                "among_clean": among_clean(m, law, score).to_dict(),
                "rank_correlation": ranks(m, law, score).to_dict(),
            }
            for m in found.measured
            for law, words in LAWS.items()
            for score in m.scores
        },
        "unlearned": {m.arm.family.name: {law: unlearned(m, law).to_dict() for law in LAWS} for m in found.measured},
        "learned": {
            m.arm.family.name: {law: {name: one.to_dict() for name, one in learned(m, law).items()} for law in LAWS}
            for m in found.measured
        },
        "rivals": {
            f"{m.arm.family.name}, {words}": {name: one.to_dict() for name, one in rivals(m, law).items()}
            for m in found.measured
            if m.scores
            for law, words in LAWS.items()
        },
        "lstms": [{law: one.to_dict() for law, one in each.items()} for each in found.lstms],
        "lstms_faultless": lstms_faultless(found).to_dict(),
        "afterwards": _afterwards(found.measured),
    }


def _afterwards(measured: list[Measured]) -> dict[str, Any]:
    """What was asked after the first look."""
    one, two = of(measured, ONE), of(measured, TWO)
    reads = two.glitches.reads[OWN]
    tested = shares(two, [of(measured, name) for name in (MIXTURE, *PENALTIES)], (MIXTURE, PENALTIES[1]))
    return {
        "versus_errors": {name: pair.to_dict() for name, pair in versus_errors(measured).items()},
        "attention": {
            m.arm.family.name: {name: share.to_dict() for name, share in attention(m).items()} for m in measured
        },
        "right": {m.arm.family.name: right(m).to_dict() for m in measured},
        "faultless": {m.arm.family.name: faultless(m).to_dict() for m in measured},
        "shares": {
            arm: {words: pair.to_dict() for (name, words), pair in tested.items() if name == arm}
            for arm in dict.fromkeys(name for name, _ in tested)
        },
        "one_layer_at_reads_of_two": {"reads": reads, "faultless_seeds": faultless_at(one, OWN, reads)},
    }


def _of_arm(m: Measured) -> dict[str, Any]:
    return {
        "digest": m.digest,
        "options": dict(m.arm.family.options),
        "diverged": m.population.provenance["diverged"],
        "glitches": m.glitches.to_dict(),
        "drift": m.drift.to_dict(),
        "scores": {name: values.tolist() for name, values in m.scores.items()},
        "accuracy_read": m.accuracy,
    }


STUDY = Study(DECLARED, Size(8, 4, 2), Size(200, 40, 20), collect, to_results, report, populations)
run = STUDY.run
