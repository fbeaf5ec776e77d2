"""What can be said of attention heads: claims, the relations and conditions they name, and the words for them."""

from interp.claims import Condition, Items, Keys, Kind, Made, Pairs, Question, Relation, Tokens
from interp.claims.combined import complement, evenly, evenly_among
from interp.claims.general import offset, position, position_at_least, token, token_is
from interp.claims.places import tokens_of
from interp.claims.register import (
    Register,
    check_usable,
    conditions,
    has_keys,
    named_relations,
    question_for,
    relations,
    roles_of,
    same_relation,
    suggestions,
    truth_of,
    usable,
)
from interp.claims.rows import (
    not_so,
    position_at_most,
    position_between,
    position_is,
    target_gap_at_least,
    token_in,
    token_is_not,
)
from interp.worlds.dyck.claims import (
    RELATIONS,
    bracket_tokens,
    bracket_type,
    brackets_of_type,
    depth_at_least,
    depth_at_most,
    depth_is,
)
from probes.claims.claim import Claim, check_each_once, heads_text, wordings
from probes.claims.own import read_own
from probes.claims.scores import RelationScores, relation_scores
from probes.claims.sentence import FORM, Own, meanings
from probes.claims.words import TASKS, own_conditions, own_questions, own_relations

BUILT_IN = Register(relations)  # rivals of every claim
NAMED = Register(named_relations)  # and what claims alone may name
BUILT_IN_CONDITIONS = Register(conditions)

__all__ = [
    "BUILT_IN",
    "BUILT_IN_CONDITIONS",
    "FORM",
    "NAMED",
    "RELATIONS",
    "TASKS",
    "Claim",
    "Condition",
    "Items",
    "Keys",
    "Kind",
    "Made",
    "Own",
    "Pairs",
    "Question",
    "Relation",
    "RelationScores",
    "Tokens",
    "bracket_tokens",
    "bracket_type",
    "brackets_of_type",
    "check_each_once",
    "check_usable",
    "complement",
    "depth_at_least",
    "depth_at_most",
    "depth_is",
    "evenly",
    "evenly_among",
    "has_keys",
    "heads_text",
    "meanings",
    "not_so",
    "offset",
    "own_conditions",
    "own_questions",
    "own_relations",
    "position",
    "position_at_least",
    "position_at_most",
    "position_between",
    "position_is",
    "question_for",
    "read_own",
    "relation_scores",
    "roles_of",
    "same_relation",
    "suggestions",
    "target_gap_at_least",
    "token",
    "token_in",
    "token_is",
    "token_is_not",
    "tokens_of",
    "truth_of",
    "usable",
    "wordings",
]
