"""Words in column names."""

from __future__ import annotations

import re

KEY_WORDS = {"id", "key", "code", "no", "nr", "num", "number", "fk", "pk", "ref"}


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, without the s of a plural.

    >>> words_of("custKey"), words_of("order_items"), words_of("HTTPCode2")
    (['cust', 'key'], ['order', 'item'], ['http', 'code', '2'])
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)
    return [p.lower().removesuffix("s") if len(p) > 3 else p.lower() for p in parts]


def names_a_key(name: str) -> bool:
    """Whether a name has a word that keys often have, such as id or code."""
    return bool(KEY_WORDS.intersection(words_of(name)))
