"""The tax table of the literature: one row per person, with the four rules of Weever's Table 4.

key(area, phone); zip -> city; state, has_child -> child_exemption; and within a state, a higher salary has no lower tax
rate. Up to ten million rows.
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
    """Makes people by number. Areas repeat in a cycle, so a phone number is unique within its area."""

    seed: int
    zips: int  # a multiple of STATES

    def __call__(self, first: int, count: int) -> pa.Table:
        numbers = np.arange(first, first + count)
        area = numbers % AREAS
        state = area % STATES
        zip_ = pick(self.seed, 1, numbers, self.zips // STATES) * STATES + state
        child, married = pick(self.seed, 2, numbers, 2), pick(self.seed, 3, numbers, 2)
        salary = 500 * (10 + pick(self.seed, 4, numbers, 390))
        return pa.table(
            {
                "first_name": chosen(made_up(400, 3), pick(self.seed, 5, numbers, 400)),
                "last_name": chosen(made_up(900, 7), pick(self.seed, 6, numbers, 900)),
                "area": pa.array(200 + area),
                "phone": self._phones(numbers // AREAS),
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
        phones = [(r * 7_919 + 1_234_567) % 10_000_000 for r in range(low, high + 1)]
        return chosen([f"{n // 10_000:03d}-{n % 10_000:04d}" for n in phones], rank - low)

    @staticmethod
    def _rate(state: Numbers, salary: Numbers) -> Numbers:
        """The tax rate in thousandths of a percent, with a step for each salary bracket."""
        return 500 + 37 * state + (salary // 2500) * (20 + state % 13)


def _state_names() -> list[str]:
    return [f"{chr(65 + i // 10)}{chr(75 + i % 10)}" for i in range(STATES)]


def tax(rows: int = 10_000, seed: int = 0) -> GeneratedStream:
    """A stream of changes to a tax table with this many rows.

    >>> tax(1000).tables["tax"].num_rows
    1000
    """
    make = _People(seed, min(MAX_ZIPS, max(1, rows // 1000) * STATES))  # about twenty people per zip
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
