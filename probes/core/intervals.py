"""How analyzers make intervals: each kind once, with `level=` where 95 % is not what is asked.

The makers are those of `interp.stats`, since training and evaluation report estimates too.
"""

from interp.stats import clopper_pearson, jackknife, jackknife_pairs, mean_over_inputs, mean_over_seeds, t_interval

__all__ = ["clopper_pearson", "jackknife", "jackknife_pairs", "mean_over_inputs", "mean_over_seeds", "t_interval"]
