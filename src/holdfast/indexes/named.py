"""The indexes by name."""

from __future__ import annotations

from holdfast.errors import HoldfastError, NotAvailable, shown
from holdfast.indexes.box import BoxIndex
from holdfast.indexes.chain import ChainIndex
from holdfast.indexes.index import MakeIndex

INDEXES = ("box", "chain", "less_than")
DEFAULT = "box"


def index_named(name: str) -> MakeIndex:
    """What makes an index: `box`, the default; `chain` (IncDC) and `less_than` (Weever), for comparison.

    >>> index_named("chain").__name__
    'ChainIndex'
    """
    if name == "box":
        return BoxIndex
    if name == "chain":
        return ChainIndex
    if name == "less_than":
        return _less_than()
    raise HoldfastError(f"there is no index {shown(name)}; one of {', '.join(INDEXES)}")


def _less_than() -> MakeIndex:
    try:
        from holdfast.indexes.less_than import LessThanIndex
    except ImportError:
        raise NotAvailable("the index less_than needs pyroaring: pip install 'holdfast-data[less-than]'") from None
    return LessThanIndex
