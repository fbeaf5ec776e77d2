"""`topics`: how one attention layer learns topics, on synthetic documents."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "topics",
    "where a one-layer model keeps the topics of its documents (Li et al. 2023)",
    "case_studies.topics.study:STUDY",
)
