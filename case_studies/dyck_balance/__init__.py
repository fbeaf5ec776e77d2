"""Balance violation and length generalisation, standard against contrastive training."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "dyck-balance",
    "balance violation against length generalisation, contrastive training (4.2)",
    "case_studies.dyck_balance.study:STUDY",
)
