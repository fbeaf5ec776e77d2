"""How often the audit is wrong about models that training made: claims whose truth follows from how they were made."""

from probes.audit.bench.trained.beside import check_same_claims, measured
from probes.audit.bench.trained.families import FAMILIES
from probes.audit.bench.trained.fresh import FRESH
from probes.audit.bench.trained.models import Frozen, FrozenModel
from probes.audit.bench.trained.naive import LOWERS, SCORE, TOP
from probes.audit.bench.trained.run import TrainedResult, check_family, run_trained_bench
from probes.audit.bench.trained.table import by_seeds, fresh_table, long_table, short_table
from probes.audit.bench.trained.tasks import VOCABULARY

__all__ = [
    "FAMILIES",
    "FRESH",
    "LOWERS",
    "SCORE",
    "TOP",
    "VOCABULARY",
    "Frozen",
    "FrozenModel",
    "TrainedResult",
    "by_seeds",
    "check_family",
    "check_same_claims",
    "fresh_table",
    "long_table",
    "measured",
    "run_trained_bench",
    "short_table",
]
