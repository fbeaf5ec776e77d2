"""Why a one-layer model may fail to learn a binary chain: its landscape, its reduced flow, and training as measured."""

from case_studies.declaration import Declaration

DECLARED = Declaration(
    "markov-landscape",
    "unigram points of one-layer models of a binary Markov chain, and which training gets stuck there (Makkuva et al.)",
    "case_studies.markov_landscape.study:STUDY",
)
