"""The kinds of answer that a scheme asks for; a trainer says which of them it can learn.

kind        an item's target in the bundle              a prediction's payload
nominal     "positive"                                  {"label", "probabilities"?}
ordinal     "3" (a label; the order is `labels`)        {"label", "probabilities"?}
multilabel  ["price", "service"] (sorted, may be [])    {"labels", "probabilities"?}
continuous  48.0                                        {"value"}
text        "a line"                                    {"text"}
span        [{"start", "end", "label"}], code points    {"spans": the same}
geometry    [{"type", "label", "coordinates"}]          {"objects": the same}
ranking     ["price", "speed"] (best first)             {"order": the same}

A payload may also hold "nearest_similarity", 0..1: how like the nearest train item the item is.
"""

from __future__ import annotations

NOMINAL = "nominal"
ORDINAL = "ordinal"
MULTILABEL = "multilabel"
CONTINUOUS = "continuous"
TEXT = "text"
SPAN = "span"
GEOMETRY = "geometry"
RANKING = "ranking"
PREFERENCE = "preference"
"""No scheme asks for it: a binary pairwise scheme as a preference trainer is scored on it."""

ALL = (NOMINAL, ORDINAL, MULTILABEL, CONTINUOUS, TEXT, SPAN, GEOMETRY, RANKING)
