"""What can be said of attention heads: claims, the relations and conditions they name, and the words for them."""

from interp.claims import Condition, Items, Keys, Kind, Made, Pairs, Question, Relation, Tokens
from interp.claims.general import complement, offset, position, position_at_least, token, token_is
from interp.claims.register import (
    Register,
    check_usable,
    conditions,
    has_keys,
    question_for,
    relations,
    roles_of,
    same_relation,
    suggestions,
    truth_of,
    usable,
)
from interp.worlds.dyck.claims import RELATIONS, bracket_tokens, bracket_type, brackets_of_type, depth_at_least
from probes.claims.claim import Claim, check_each_once, heads_text, wordings
from probes.claims.scores import RelationScores, relation_scores
from probes.claims.words import FORM, TASKS, own_relations

BUILT_IN = Register(relations)
BUILT_IN_CONDITIONS = Register(conditions)

__all__ = [
    "BUILT_IN",
    "BUILT_IN_CONDITIONS",
    "FORM",
    "RELATIONS",
    "TASKS",
    "Claim",
    "Condition",
    "Items",
    "Keys",
    "Kind",
    "Made",
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
    "has_keys",
    "heads_text",
    "offset",
    "own_relations",
    "position",
    "position_at_least",
    "question_for",
    "relation_scores",
    "roles_of",
    "same_relation",
    "suggestions",
    "token",
    "token_is",
    "truth_of",
    "usable",
    "wordings",
]
