"""Predicates: what a `where` says, evaluated exactly by pyarrow and cautiously on what is known of a file."""

from needlefish.table.predicate.evidence import Evidence, may_match
from needlefish.table.predicate.expression import to_expression
from needlefish.table.predicate.tree import And, Compare, Constant, IsNull, Like, OneOf, Or, Predicate, both, fields_of
from needlefish.table.predicate.where import parse_where

__all__ = [
    "And",
    "Compare",
    "Constant",
    "Evidence",
    "IsNull",
    "Like",
    "OneOf",
    "Or",
    "Predicate",
    "both",
    "fields_of",
    "may_match",
    "parse_where",
    "to_expression",
]
