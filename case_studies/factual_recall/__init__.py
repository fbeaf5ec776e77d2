"""Factual recall: the stage that knows the relation alone, heads by what they read, and how many facts fit."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "factual-recall",
    "models of a table of facts: a stage at p(a | r), heads that read subject or relation, facts by size",
    "case_studies.factual_recall.study:STUDY",
)
