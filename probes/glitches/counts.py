"""Errors a read with an interval: reads of one string are no independent trials."""

import math

import numpy as np
from numpy.typing import ArrayLike

from interp.stats import Estimate
from probes.core import clopper_pearson


def share_of_reads(wrong: ArrayLike, asked: ArrayLike) -> Estimate:
    """Share of reads answered wrong, of counts a string [string], with a Clopper-Pearson interval.

    Errors come in clumps (a string whose write is lost gives several), so that reads count for fewer independent
    trials than they are: as many as reads / deff, where deff is the variance of the ratio over strings beside that of
    independent reads, never below 1 (Korn and Graubard 1998). Of no error, or of errors alone, no variance is seen:
    then each string counts as one trial. Ends are those of whole counts, rounded outwards. With one read a string this
    is Clopper and Pearson's interval. `n`: these trials, and not reads.
    """
    bad, every = np.asarray(wrong, dtype=np.float64), np.asarray(asked, dtype=np.float64)
    bad, every = bad[every > 0], every[every > 0]
    reads, errors, strings = int(every.sum()), int(bad.sum()), len(every)
    if not reads:
        return Estimate.undefined("nothing is read", 0, "trials")
    share = errors / reads
    trials, few, many = strings, round(share) * strings, round(share) * strings
    if 0 < errors < reads:
        residual = float(((bad - share * every) ** 2).sum())
        clumped = max(1.0, round(residual / (reads * share * (1 - share)), 9))
        trials = max(1, math.floor(reads / clumped))
        few, many = math.floor(errors / clumped), min(trials, math.ceil(errors / clumped))
    low, high = clopper_pearson(few, trials).low, clopper_pearson(many, trials).high
    assert low is not None
    assert high is not None
    return Estimate(share, min(low, share), max(high, share), trials, "trials")
