"""The lottery ticket of Theorem 2 made real: masks on a random Transformer that turn it into a given one."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "lottery-ticket",
    "random Transformers pruned into trained and constructed ones (Wen et al. 2023, Theorem 2)",
    "case_studies.lottery_ticket.study:STUDY",
)
