"""Topics in a pretrained encoder's attention and embeddings, on Wikipedia."""

from case_studies.declaration import Declaration, Option

DECLARED = Declaration(
    "topics-wikipedia",
    "topics in a pretrained encoder's attention and embeddings, on real text (Tables 2.3-2.5)",
    "case_studies.topics_wikipedia.study:STUDY",
    trains=False,
    options=(
        Option("corpus", "FILE", "a dump (.xml.bz2), one document per line, or vital-articles"),
        Option("model", "NAME", "an encoder's folder or Hugging Face name"),
    ),
)
