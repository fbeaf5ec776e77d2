"""The shared matrices of `probes.lottery` under their older name."""

from probes.lottery import SharedMatrixResult, demonstrate_shared_matrix

__all__ = [
    "SharedMatrixResult",
    "demonstrate_shared_matrix",
]
