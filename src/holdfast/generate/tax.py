"""The tax table of the literature: one row a person, the four rules of Weever's Table 4 planted.

key(area, phone); zip -> city; state, has_child -> child_exemption; and in one state, who earns more pays no lower
rate. Any size to ten million rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.generate.stream import GeneratedStream, Spoiler
from holdfast.generate.values import Numbers, cents, chosen, made_up, pick, replaced

STATES, MAX_ZIPS, AREAS = 50, 20_000, 300
RULES = [
    "key(area, phone)",
    "zip -> city",
    "zip -> state",
    "state, has_child -> child_exemption",
    "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
]


@dataclass(frozen=True)
class _People:
    """Rows by number. Areas go round and round, so a person's phone is unique within the area."""

    seed: int
    zips: int  # a multiple of STATES

    def __call__(self, first: int, count: int) -> pa.Table:
        at = np.arange(first, first + count)
        area = at % AREAS
        state = area % STATES
        zip_ = pick(self.seed, 1, at, self.zips // STATES) * STATES + state
        child, married = pick(self.seed, 2, at, 2), pick(self.seed, 3, at, 2)
        salary = 500 * (10 + pick(self.seed, 4, at, 390))
        return pa.table(
            {
                "first_name": chosen(made_up(400, 3), pick(self.seed, 5, at, 400)),
                "last_name": chosen(made_up(900, 7), pick(self.seed, 6, at, 900)),
                "area": pa.array(200 + area),
                "phone": self._phones(at // AREAS),
                "city": chosen(made_up(self.zips // 4 + 1, 11), zip_ // 4),
                "state": chosen(_state_names(), state),
                "zip": chosen([f"{10_000 + 4 * z}" for z in range(self.zips)], zip_),
                "marital_status": chosen(["M", "S"], married),
                "has_child": chosen(["N", "Y"], child),
                "salary": pa.array(salary),
                "rate": cents(self._rate(state, salary), 3),
                "single_exemption": pa.array(np.where(married == 1, 1000 + 40 * state, 0)),
                "child_exemption": pa.array(np.where(child == 1, 500 + 30 * state, 0)),
            }
        )

    @staticmethod
    def _phones(rank: Numbers) -> pa.Array:
        low, high = int(rank.min()), int(rank.max())
        numbers = [(r * 7_919 + 1_234_567) % 10_000_000 for r in range(low, high + 1)]
        return chosen([f"{n // 10_000:03d}-{n % 10_000:04d}" for n in numbers], rank - low)

    @staticmethod
    def _rate(state: Numbers, salary: Numbers) -> Numbers:
        """Thousandths of a percent; a step for each bracket of the salary."""
        return 500 + 37 * state + (salary // 2500) * (20 + state % 13)


def _state_names() -> list[str]:
    return [f"{chr(65 + i // 10)}{chr(75 + i % 10)}" for i in range(STATES)]


def tax(rows: int = 10_000, seed: int = 0) -> GeneratedStream:
    """The tax table with this many rows, and changes to it.

    >>> tax(1000).tables["tax"].num_rows
    1000
    """
    make = _People(seed, min(MAX_ZIPS, max(1, rows // 1000) * STATES))  # about twenty people for a zip
    return GeneratedStream(
        tables={"tax": make(0, rows)},
        keys={"tax": ("area", "phone")},
        rules=[f"tax: {rule}" for rule in RULES],
        moving="tax",
        make=make,
        touch=lambda rows: replaced(rows, last_name=chosen(["Moved"], np.zeros(rows.num_rows, np.int64))),
        spoilers=[
            Spoiler("tax: zip -> city", "tax", lambda row: replaced(row, city=pa.array(["Nowhere"]))),
            Spoiler(
                "tax: state, has_child -> child_exemption",
                "tax",
                lambda row: replaced(row, child_exemption=pa.array([1])),
            ),
            Spoiler(
                f"tax: {RULES[-1]}",
                "tax",
                lambda row: replaced(row, salary=pa.array([200_000]), rate=cents(np.array([1]), 3)),
            ),
        ],
        seed=seed,
    )
