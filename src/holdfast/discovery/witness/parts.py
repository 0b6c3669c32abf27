"""Parts of claims that are asked in their place: the few pairs that satisfy a part answer all claims that contain it.

(The idea of SelectIndex of IncDC, which chooses the predicates that an index is for, and of the shared indexes of
IncPOD. Here a part is any conjunction, and a sample of pairs says that few satisfy it.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.witness.predicate_space import PredicateSpace, Term
from holdfast.rules.masks import Masks, Numbers, none
from holdfast.rules.operator import Op

_FEW_PARTNERS = 4.0  # of a row, on average, for a part to be asked
_MOST_TERMS = 3  # of a part, unless it is a whole claim
_AT_ONCE = 512  # claims for which parts are chosen together
_PAIRS_PER_CHECK = 1 << 24  # of parts and sampled pairs, or of parts and claims


class Sampled(NamedTuple):
    """The atoms that a sample of pairs lacks, and how many partners of a row a pair of the sample stands for."""

    lacked: Masks
    partners: float


def chosen_parts(space: PredicateSpace, claims: Masks, samples: Sequence[Sampled], common: Masks) -> Masks:
    """Parts such that each claim contains one. A row has few partners with which it satisfies a part that several
    claims share, as far as samples of pairs tell. Greedy: the part of most claims comes first. A claim that shares no
    such part with another is asked itself. `common`: conjunctions that are known to have too many pairs."""
    chosen = [none(len(space.atoms))]
    for first in range(0, len(claims), _AT_ONCE):
        rest = claims[first : first + _AT_ONCE]
        rest = rest[~_contain(np.concatenate(chosen), rest).any(axis=0)]
        chosen += list(_greedy(space, rest, samples, common))
    return np.concatenate(chosen)


def _greedy(space: PredicateSpace, claims: Masks, samples: Sequence[Sampled], common: Masks) -> Iterator[Masks]:
    shared = _shared(space, claims)
    shared = shared[~_contain(shared, common).any(axis=1)]
    rare = shared[sum(_satisfied(shared, s.lacked) * s.partners for s in samples) <= _FEW_PARTNERS]
    contains = _contain(rare, claims)
    missing = np.ones(len(claims), np.bool_)
    while len(rare):
        gains = contains[:, missing].sum(axis=1)
        best = int(gains.argmax())
        if gains[best] < 2:
            break
        yield rare[best : best + 1]
        missing &= ~contains[best]
    yield claims[missing]


def _shared(space: PredicateSpace, claims: Masks) -> Masks:
    """Conjunctions that several claims contain, those with equalities first: their pairs are found soonest."""
    uses = Counter(part for claim in claims for part in _parts(space.terms(claim)))
    several = [part for part, count in uses.items() if count > 1]
    several.sort(key=lambda part: (-sum(op is Op.EQ for _, op in part), len(part), part))
    return np.concatenate([none(len(space.atoms)), *(space.conjunction(part) for part in several)])


def _parts(terms: list[Term]) -> Iterator[tuple[Term, ...]]:
    for size in range(1, min(_MOST_TERMS, len(terms)) + 1):
        yield from combinations(terms, size)


def _contain(parts: Masks, claims: Masks) -> Flags:
    """[part, claim]: whether the claim contains the part."""
    out = np.ones((len(parts), len(claims)), np.bool_)
    for word in range(parts.shape[1]):
        out &= (parts[:, word, None] & ~claims[None, :, word]) == 0
    return out


def _satisfied(parts: Masks, lacked: Masks) -> Numbers:
    """How many pairs of a sample satisfy each part."""
    out, size = np.zeros(len(parts), np.int64), max(1, _PAIRS_PER_CHECK // max(1, len(lacked)))
    for first in range(0, len(parts), size):
        some = parts[first : first + size]
        lacks = np.zeros((len(some), len(lacked)), np.bool_)
        for word in range(parts.shape[1]):
            lacks |= (some[:, word, None] & lacked[None, :, word]) != 0
        out[first : first + size] = (~lacks).sum(axis=1)
    return out
