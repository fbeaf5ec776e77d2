"""The numbers that define the words of an audit, each with its reason. One place; not tuned to any bench.

All are bounds on Estimates at level 1 - `ALPHA` / m, m being the number of claims audited together.
"""

ALPHA = 0.05  # shared by the claims audited together; p-values are Holm-corrected over them

# Stopping early: a look at a part of the inputs, then at all of them for what is still open.
FIRST_LOOK = 0.25  # of the inputs: what is clear at all is clear there
FIRST_INPUTS = 100  # at least: `MIN_SEQUENCES` in the half that decides
LEAST_EARLY = 200  # inputs in all; of fewer, the first look would be more than half of the work
SPENT = (0.2, 0.8)  # of ALPHA, by look; sums to 1. Most at the last, which is then hardly weaker than a single one

# 0. Eligible. Otherwise `undecided`. Counted in the half of the inputs that decides.
MIN_ROWS = 100  # rows where the relation applies: half a row in two of the 200 inputs that decide by default ...
MIN_SEQUENCES = 50  # ... in as many different inputs: Student's t on a share is fair from there on
MIN_DIFFERENT = 50  # rows on which the relation names other keys than a rival, for the same reason
RIVAL_SEQUENCES = 10  # inputs that those rows must come from for the two to be compared: position 60 may exist in one

# 1. Pattern.
SCORE = 0.25  # of (m - c) / (1 - c), sinks included: low enough for a head that rests on START most of the time
MAINLY = 0.5  # the same, for "mainly attends to"
TOP1 = 0.75  # how often the largest weight, sinks apart, is on the relation: trained heads do in .8 to 1 of the rows
EVEN = 0.8  # score of a relation of kind `even`: a fifth of the weight may lie elsewhere than evenness has it
LEAD = 0.05  # by which a rival must score higher to refute, a fifth of SCORE: less is no other story
ROW = 0.5  # of a relation of kind `even`: a row fits if its score is above this ...
MIXED = (0.2, 0.8)  # ... and a claim whose rows fit in such a share is right of some rows only: it fails

TAIL_INPUTS = 200  # drawn of each other law that a world names, on which a claim that holds is looked at again

# 2. Power, as a share of the intact margin.
POWER = 0.25  # what the claimed edges of all heads at once, or the token itself, must move: five times UNUSED
AIMED = 0.5  # most: share of the inputs whose claimed edges must read what the donor changes, for the token to count
SAME_PATTERN = 1e-3  # weights that change less from input to donor are where they were: nothing is told by that
EXACT = 1e-5  # a change below this share of the largest logit is float32's rounding, and counts as none at all

# 3. Use: effect e of a value interchange, as a share of the intact margin (2: the donor's answer as sure as ours).
USED = 0.10  # a tenth of what takes the margin to nothing, a twentieth of an answer exchanged for the donor's
UNUSED = 0.05  # |e| below it, alone and with partners ablated: an equivalence, not a failure to reject; half of USED
TURNED = 0.25  # share of the answers turned over that shows a use, whatever the margins are: as much as POWER asks
PARTNERS = 3  # heads of the largest partner set
CANDIDATES = 12  # heads looked at as partners; company is drawn from all
RANKED = 64  # heads of a model, at most, of which each is tried beside the claimed ones to choose the candidates
GAIN = 0.01  # a partner that adds less to e is not worth a place
SEARCH_SETS = 32  # sets of partners, and of company, drawn where head by head comes to nothing
SEARCH_ITEMS = 48  # items of half A on which partners and company are looked for ...
FEW_ITEMS = 16  # ... and of a model of more than `RANKED` heads, whose runs take seconds
FEW_SETS = 8  # and so many sets of those: of halves of twelve, two heads are both in one of eight in 87 of 100 draws
SOME_HEADS = 4  # heads audited for a claim about "some head", the best fitting first ...
MOST_FITTING = 16  # ... and so many of all that score what it asks for: intervals are a fifth wider than for four
SHARED_DONOR = 2  # items that may share a donor; they count as one in intervals

# 4. Natural residual norms lie between these quantiles of the intact ones; more outside than this share is flagged.
NATURAL = (0.01, 0.99)
UNNATURAL = 0.10

# 5. Populations: a word is said of a population if it holds of more than this share of its seeds.
MOST_SEEDS = 0.5
