"""When a pipeline looks for changes."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Trigger(BaseModel):
    """When to look for changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: str | None = Field(
        None, description="An interval such as `10 seconds`. Without it, apply what is available and stop."
    )

    @field_validator("every")
    @classmethod
    def _is_a_time(cls, every: str | None) -> str | None:
        if every is not None:
            seconds(every)
        return every


_SECONDS = {"ms": 0.001, "millisecond": 0.001, "s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600}


def seconds(text: str) -> float:
    """The seconds of a time such as `10 seconds`, `500 ms` or `2 minutes`.

    >>> seconds("2 minutes"), seconds("500 ms")
    (120.0, 0.5)
    """
    match = re.fullmatch(r"\s*([0-9]+|[0-9]*\.[0-9]+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is not a time; write `10 seconds` or `2 minutes`")
    unit = match[2] if match[2] in _SECONDS else match[2].removesuffix("s")
    return float(match[1]) * _SECONDS[unit]
