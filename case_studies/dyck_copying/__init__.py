"""Attention patterns of Transformers that copy: what they look like, and whether they are used."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "dyck-copying",
    "interpretable attention patterns of models that only copy, and whether they are used (App. B.1)",
    "case_studies.dyck_copying.study:STUDY",
)
