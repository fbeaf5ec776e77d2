"""What the numbers of the audit's rules are, in words, for whoever reads the tables without the code."""

from collections.abc import Mapping

from probes.audit.conditions import Condition
from probes.audit.use_rules import COSTS, NO_CHANGE, UNSEEN

# Conditions that several rules share, by the name that the tables give them.
CONDITIONS: Mapping[str, Condition] = {
    "nothing moves": NO_CHANGE, "the mean costs": COSTS, "it gives what no exchange shows": UNSEEN,
}  # fmt: skip

# By title: what the numbers are of, and each number.
NUMBERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Numbers of the inputs and the pattern": (
        "Over the queries (rows) to which the claim applies, on the half of the inputs that decides.",
        {
            "rows": "queries to which the relation applies",
            "sequences": "inputs that these are in",
            "least": "the claim score that is asked for",
            "score": "claim score: mean of (m - c) / (1 - c), m the weight on the claimed keys, c their share of what "
            "is visible",
            "top1": "share of the rows in which the largest weight is on a claimed key, the first token apart",
            "within": "evenness among the claimed keys, of a claim that says so",
            "share": "share of the rows that fit: of a claim about weight those with a claimed key on top, of a claim "
            "of evenness those that score more than one half",
            "rivals": "other relations; of each `different`: rows in which it names other keys; `lead`: by how much "
            "the claim scores more there; `lead_a`: the same on the other half",
            "p_value": "permutation test: weight exchanged among keys alike in class and distance",
            "untrained": "the best score of heads of untrained models of this shape",
        },
    ),
    "Numbers of the use": (
        "Shares of the margin (the logit of the right answer less that of the donor's answer) that an edit takes away, "
        "unless said otherwise. A *donor* is an input with another answer: a minimal pair, or another input. *Net*: "
        "less what a *sham* does, a change of the same size in another direction.",
        {
            "items": "inputs that have a donor and a place where the claim can matter",
            "unseen": "the share of all inputs on which there may be an effect although none of so few shows one",
            "dead": "why no edit of this model can be trusted",
            "margin": "the intact margin, in logits",
            "output_change": "the most that any output changes from input to input, by its size",
            "answer_change": "the most that the answer changes when the token that decides is exchanged, by its size",
            "aimed": "share of the inputs whose claimed edges ever read a token that the donor changes",
            "paired": "whether donors are minimal pairs",
            "every": "the exchange of the claimed edges in all heads at once",
            "token": "the exchange of the token itself",
            "total": "the exchange of the values that the claimed edges read for those of the donor's run, net",
            "raw": "the same as it is, the sham not taken off",
            "direct": "`total` with later patterns and the scales of norms as in the intact run",
            "turned": "share of the inputs whose right answer the exchange turns over, net",
            "fill": "the mean over inputs and donors in the place of these values",
            "fill_lost": "share of the inputs whose right answer is no longer the largest output then",
            "direct_fill": "`fill` with later patterns and the scales of norms as in the intact run",
            "pattern_change": "the largest change of a weight of these heads from an input to its donor",
            "look": "the donor's pattern over the own values: what of it goes through the claimed edges, net",
            "look_raw": "the same as it is",
            "both": "the donor's pattern and its values: what of it goes through the claimed edges, net",
            "both_raw": "the same as it is",
            "gone": "the mean of all that these heads give in the place of it",
            "with_partners": "`total` once partners are ablated: up to three other heads, found on the other half",
            "raw_with_partners": "the same as it is",
            "held_with_partners": "`direct` once they are ablated",
            "fill_beside": "`fill` once they are ablated",
            "left_beside": "the margin that is left once they are ablated, a share of the intact one",
            "look_beside": "`look` once partners are ablated",
            "look_beside_raw": "the same as it is",
            "both_beside": "`both` once they are ablated",
            "both_beside_raw": "the same as it is",
            "gone_beside": "`gone` once they are ablated",
            "left_look_beside": "the margin that is left once they are ablated, a share of the intact one",
            "in_company": "the exchange while other heads, found on the other half, give what they give for the donor",
            "whole": "all that the heads give exchanged for what they give on another input",
            "whole_turned": "share of the inputs whose right answer this turns over",
            "whole_lost": "share of the inputs whose right answer is no longer the largest output with the mean "
            "of all that the heads give in its place",
            "whole_beside": "`whole` once partners are ablated",
            "whole_in_company": "`whole` while other heads give what they give for the donor",
            "given": "all that the heads give exchanged for what they give on any other input of the task, also on one "
            "that has none of the claimed edges",
            "given_turned": "share of the inputs whose right answer this turns over",
            "given_lost": "share of the inputs whose right answer is then no longer the largest output",
            "elsewhere": "the same exchange of all but the claimed edges, which keep their weights and values",
            "elsewhere_turned": "share of the inputs whose right answer this turns over",
            "elsewhere_lost": "share of the inputs whose right answer is then no longer the largest output",
            "unshown": "of heads claimed together those of which neither what they move alone nor what they add to all "
            "the others is 0.05 of the margin for sure",
            "idle": "of heads claimed together those that add nothing to any of the others; of each, what is found of "
            "it alone",
            "left_out": "share of the inputs on which no claimed edge could matter, which are left out",
            "untried": "heads that were not tried as partners",
            "unnatural": "share of the inputs whose last residual norm an edit takes beyond the 1 % and 99 % quantiles",
        },
    ),
    "Numbers of a population": (
        "Shares of the seeds, with exact intervals.",
        {
            "holds": "the pattern holds",
            "not_failing": "the pattern holds or is undecided",
            "used": "the head is used",
            "redundant": "the head is redundant",
            "unused": "the head is unused",
            "not_asked": "use was not asked",
            "of_use": "used or redundant",
            "used_ahead": "a number of seeds: how many more are used than redundant",
            "supported": "the claim is supported",
            "misleading": "the claim is misleading",
            "not_refuted": "the claim is not refuted",
        },
    ),
}
