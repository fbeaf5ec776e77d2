"""Our analyzers, as they declare themselves, and the kinds of their results. Imports no torch."""

from collections.abc import Mapping, Sequence

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
        "errors per read on the law of training, on sparse and on dense strings",
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
# Kind of result -> "module:class", and "module:function" of each function that gives one, or a list of them.
RESULTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "audit": ("probes.audit:AuditResult", ("probes.audit:audit_claim", "probes.audit:audit_claims")),
    "balance": ("probes.balance:BalanceResult", ("probes.balance:analyze_balance",)),
    "bench": ("probes.audit.bench:BenchResult", ("probes.audit.bench:run_bench",)),
    "drift": ("probes.drift:DriftResult", ("probes.drift:analyze_drift",)),
    "glitches": ("probes.glitches:GlitchResult", ("probes.glitches:analyze_glitches",)),
    "lottery": ("probes.lottery:LotteryResult", ("probes.lottery:demonstrate_lottery_ticket",)),
    "origins": ("probes.variation:OriginsResult", ("probes.variation:share_of_origins",)),
    "scan": ("probes.audit:ScanResult", ("probes.audit:scan_heads",)),
    "shared-matrix": ("probes.lottery:SharedMatrixResult", ("probes.lottery:demonstrate_shared_matrix",)),
    "stack": ("probes.stack:StackResult", ("probes.stack:analyze_stack_likeness",)),
    "topics": ("probes.topics:TopicBlocksResult", ("probes.topics:analyze_topic_blocks",)),
    "trained-bench": ("probes.audit.bench.trained:TrainedResult", ("probes.audit.bench.trained:run_trained_bench",)),
    "two-stages": ("probes.topics:TwoStageResult", ("probes.topics:analyze_two_stages",)),
    "variation": ("probes.variation:VariationResult", ("probes.variation:analyze_variation",)),
}
