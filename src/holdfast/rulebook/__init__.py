"""The engine: rows change, and the rulebook says what that changed. Durable after every `apply`."""

from holdfast.rulebook.book import Rulebook
from holdfast.rulebook.options import DEFAULT_KEEP

__all__ = ["DEFAULT_KEEP", "Rulebook"]
