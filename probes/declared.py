"""Our analyzers, as they declare themselves. Imports no torch."""

from collections.abc import Sequence

from probes.declaration import TASK, TEXT, Analyzer, Flag

MATRIX = Flag(
    "matrix",
    "matrix",
    "of `analyze topics`: default value, or embedding if learned",
    "it is for `analyze {readers}`, not {name}",
    choices=("value", "embedding", "attention"),
)
_BRACKETS = ("dyck", "copying", "brackets")
OURS: Sequence[Analyzer] = (
    Analyzer(
        "balance",
        "balance violation of the last attention layer, and of what the model predicts",
        "probes:analyze_balance",
        "untrained models, position control",
        worlds=_BRACKETS,
    ),
    Analyzer(
        "drift",
        "mass on the last write as it lies further back",
        "probes:analyze_drift",
        "untrained models, even attention",
        worlds=("flipflop",),
    ),
    Analyzer(
        "glitches",
        "errors a read on the law of training, on sparse and on dense strings",
        "probes:analyze_glitches",
        "untrained models, guessing, a memory of 8 tokens",
        worlds=("flipflop",),
    ),
    Analyzer(
        "stack",
        "how far heads attend to the last unmatched open bracket",
        "probes:analyze_stack_likeness",
        "untrained models, permuted targets, rival heads",
        worlds=_BRACKETS,
        flags=(TEXT, TASK),
    ),
    Analyzer(
        "topics",
        "topic blocks in W_V, embeddings or attention",
        "probes:analyze_topic_blocks",
        "permuted topics",
        worlds=("topics",),
        foreign=False,
        flags=(MATRIX,),
    ),
    Analyzer(
        "variation",
        "how differently the models of a population attend",
        "probes:analyze_variation",
        "untrained, sharpness-matched and uniform random patterns",
        flags=(TEXT, TASK),
    ),
)
