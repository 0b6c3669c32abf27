"""The formats of an export, by name."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import HoldfastError, shown
from holdfast.exchange import data_contract, dbt, dqx, great_expectations, metanome, soda, sql_checks
from holdfast.exchange.contract import Contract, Files
from holdfast.rules.sql import DIALECTS

FORMS: dict[str, Callable[[Contract, str], Files]] = {
    "sql": sql_checks.files,
    "dbt": dbt.files,
    "great-expectations": great_expectations.files,
    "dqx": dqx.files,
    "soda": soda.files,
    "odcs": data_contract.files,
    "metanome": metanome.files,
}


def export(contract: Contract, form: str, dialect: str = "duckdb") -> Files:
    """The rules in one format, as texts by file name. `contract.dropped` lists what the format cannot express."""
    if form not in FORMS:
        raise HoldfastError(f"{shown(form)} is not one of the forms {', '.join(FORMS)}")
    if dialect not in DIALECTS:
        raise HoldfastError(f"{shown(dialect)} is not one of the dialects {', '.join(DIALECTS)}")
    return FORMS[form](contract, dialect)
