"""A world outside the package: which letter came last, told after every token."""

from case_studies.declaration import Declaration

DECLARED = Declaration("last-letter-heads", "how alike heads find the last letter", "regular_language.study:STUDY")
