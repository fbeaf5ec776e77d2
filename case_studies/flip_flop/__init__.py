"""Attention glitches: Transformers that read a flip-flop right in training, and not quite beyond it."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "flip-flop",
    "attention glitches of flip-flop models, what lessens them, and what a head's looks predict of them",
    "case_studies.flip_flop.study:STUDY",
)
