"""Attention patterns of Transformers that solve Dyck equally well."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "dyck-attention",
    "accuracy, attention maps and variation across seeds (Wen et al. 2023, 4.1)",
    "case_studies.dyck_attention.study:STUDY",
)
