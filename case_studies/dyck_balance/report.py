"""The page of `dyck-balance`. Every sentence is made from the numbers."""

from case_studies.corrections import ALPHA
from case_studies.dyck_balance.comparisons import ACCURACY, BETA, CORRELATION
from case_studies.dyck_balance.figures import clouds, grid_figure
from case_studies.dyck_balance.measure import DATA, RULES, SHOWN, Findings
from case_studies.dyck_balance.sentences import answers, definition_sentence, grid_sentences
from case_studies.dyck_balance.tables import (
    arm_table,
    correlation_table,
    further_parts,
    grid_table,
    paired_table,
    paper_table,
    settings_table,
)
from case_studies.page import Page, Section


def report(f: Findings, command: str) -> Page:
    """The report of the measured arms."""
    found = f.compared
    every = [*(a for both in f.pairs.values() for a in both), *f.further, *f.spread]
    primary = sum(c.primary for c in found.values())
    return Page(
        title="Balance and length generalisation",
        asked=(
            "Does a model that lets matched brackets cancel generalise better to strings 18 times longer than its "
            f"training strings, and does training for balance help? {f.count} seeds per arm, trained in three ways."
        ),
        said=[
            "The less matched brackets violate balance, the better a model closes strings of 400-500 brackets (Wen et "
            "al. 2023, 4.2, Fig. 3; on prefixes no relation, Fig. 10).",
            "A contrastive regulariser, which asks that a balanced prefix changes no logit, lowers balance violation "
            "and raises that accuracy.",
        ],
        answer=answers(found),
        sure=(
            f"95 % intervals over {f.count} seeds per arm; differences between arms are paired by seed (same initial "
            "weights, same strings), and rank correlations are within an arm, where 0 is unrelated: pooled, they would "
            f"mostly tell the arms apart. {primary} comparisons are primary and were named before their run; the "
            f"other {len(found) - primary} are Holm-corrected together. Decided at {ALPHA}; none is said of a "
            f"correlation within ±{CORRELATION}, of a change of accuracy within ±{ACCURACY} or of β within ±{BETA}, if "
            "two one-sided tests say so."
        ),
        lead=clouds(f, "complete"),
        compared=[
            paper_table(found),
            f"Why this rule ({RULES[SHOWN]}): it is the rule of the papers' code, on those closing brackets that "
            "closing the bracket before cannot get right, so that it is far from its ceiling; that floor is 0.",
        ],
        sections=[
            Section("Contrastive against standard", [paired_table(found), arm_table(f)]),
            Section(
                "Balance violation and accuracy at length 400-500",
                [
                    *(part for data in DATA for part in further_parts(f, data)),
                    definition_sentence(found),
                    correlation_table(found),
                    clouds(f, "prefix"),
                ],
            ),
            Section(
                "An arm that spreads balance",
                [
                    "Weights of the regulariser and lengths of training on a grid, with the loss on all tokens.",
                    *grid_sentences(found, len(f.spread)),
                    grid_table(f.spread, found),
                    grid_figure(f.spread, found),
                ],
            ),
        ],
        settings=[settings_table(every)],
        command=command,
        digests=[(a.family.name, a.digest) for a in every],
    )
