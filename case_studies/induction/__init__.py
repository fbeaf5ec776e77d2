"""Two-layer induction circuits, made by training: what their heads do, and in which order they come."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "induction",
    "two-layer induction circuits on recall and in-context Markov chains: heads, edits, and phases of training",
    "case_studies.induction.study:STUDY",
)
