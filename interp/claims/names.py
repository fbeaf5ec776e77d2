"""What heads are called in the field, wherever they are, and what that says of their attention."""

from interp.claims.types import Called

CALLED = (
    Called("is a previous-token head", "the previous token", ("is a preceding-token head", "is a prev-token head")),
    Called("is a current-token head", "the current token", ("is a self-attending head", "attends to itself only")),
    Called(
        "is a first-token head",
        "the first token",
        (
            "is a sink",
            "is a sink head",
            "is an attention sink",
            "is an attention sink head",
            "is a BOS head",
            "is a beginning-of-sequence head",
            "is a start-of-sequence head",
        ),
    ),
    Called("is a next-token head", "the next token", ("is a following-token head",)),
    Called(
        "is a duplicate-token head",
        "earlier copies of the current token",
        ("is a duplicate head", "is a copy-detection head", "detects duplicate tokens", "detects duplicates"),
    ),
    Called(
        "is an induction head",
        "the token after an earlier copy of the current token",
        ("performs induction", "does induction"),
    ),
    Called("is a mirror head", "the mirror position"),
    Called(
        "attends uniformly",
        "all visible tokens evenly",
        (
            "attends evenly",
            "is a uniform head",
            "is a uniform-attention head",
            "is an averaging head",
            "has uniform attention",
            "attends broadly",
        ),
    ),
    Called("is a positional head", "", ("attends by position",), "say which: 'attends to the previous token', "
           "'attends to position 3', 'attends to the token 2 positions before'"),
    Called("is a copying head", "", ("copies", "copies tokens", "is a copy head", "copies the token"),
           "what is attended to: 'attends to the current token', 'attends to earlier copies of the current token'; and "
           "what for: 'uses the current token to ...'"),
    Called("is a copy-suppression head", "", ("is a negative head", "is a name-mover head", "is a successor head",
           "is an inhibition head", "is an S-inhibition head", "is a backup head"),
           "this says what is written, not where the head attends: claim 'attends to RELATION' or 'uses RELATION to "
           "do its task'"),
)  # fmt: skip
