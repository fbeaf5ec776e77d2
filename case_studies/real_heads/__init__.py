"""Every head of a real language model: which look alike, and which of those do the work."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "real-heads",
    "every head of a real language model and of an encoder: which patterns hold, and which heads cost something",
    "case_studies.real_heads.study:STUDY",
    trains=False,
)
