"""What the literature says of attention heads, audited over populations, copying models and a real encoder."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "head-claims",
    "what the literature says of attention heads, audited over seeds and on a real encoder",
    "case_studies.head_claims.study:STUDY",
)
