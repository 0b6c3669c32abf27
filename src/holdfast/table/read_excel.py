"""Reads a sheet of an Excel workbook: `sales.xlsx`, or `sales.xlsx::Orders` where there are several. Cells become the
texts that a CSV file would have, so that kinds are recognised in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import NotAvailable, ReadError, detail, shown
from holdfast.table.schema import unknown_name

EXCEL_NAMES = (".xlsx", ".xlsm")


def read_excel(path: Path, sheet: str | None = None) -> pa.Table:
    """The cells of a sheet below its first row, which has the names of the columns. Empty rows do not count, as in a
    text file. O(cells)."""
    openpyxl = _openpyxl(path)
    try:
        values = list(_cells(openpyxl, path, sheet, data_only=True))
        formulas = list(_cells(openpyxl, path, sheet, data_only=False))
    except (OSError, ReadError):
        raise
    except Exception as error:  # a damaged workbook raises whatever its first damaged part leads to
        raise ReadError(f"{path}: this is no Excel workbook: {detail(error)}") from None
    _require_values(path, values, formulas)
    values = _filled(values)
    names = [_name(path, place, value) for place, value in enumerate(values[0])] if values else []
    if not names:
        raise ReadError(f"{path}: the sheet is empty")
    columns = list(zip(*values[1:], strict=True)) if len(values) > 1 else [()] * len(names)
    arrays = [pa.array(_texts(column), pa.string()) for column in columns]
    return pa.Table.from_arrays(arrays, names=names)


def _openpyxl(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise NotAvailable(f"{path}: Excel workbooks need openpyxl: pip install 'holdfast-data[excel]'") from None
    return openpyxl


def _cells(openpyxl: Any, path: Path, sheet: str | None, *, data_only: bool) -> Iterator[tuple[Any, ...]]:
    """The rows of a sheet; with `data_only`, of formulas their last values."""
    book = openpyxl.load_workbook(path, read_only=True, data_only=data_only)
    try:
        names = [page.title for page in book.worksheets]
        if sheet is not None and sheet not in names:
            raise ReadError(f"{path}: {unknown_name('sheet', sheet, names)}")
        used = [page for page in book.worksheets if page.title == sheet or sheet is None]
        used = [page for page in used if sheet is not None or any(_has_cells(row) for row in page.values)]
        if len(used) > 1:
            several = ", ".join(shown(page.title) for page in used)
            raise ReadError(f"{path} has several sheets: {several}; name one: {path}::{used[0].title}")
        for page in used:
            yield from page.values
    finally:
        book.close()


def _has_cells(row: tuple[Any, ...]) -> bool:
    return any(value is not None for value in row)


def _filled(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows that have a cell, all as wide as the widest."""
    found = list(filter(_has_cells, rows))
    width = max((place + 1 for row in found for place, value in enumerate(row) if value is not None), default=0)
    return [(*row[:width], *[None] * (width - len(row))) for row in found]


def _require_values(path: Path, values: list[tuple[Any, ...]], formulas: list[tuple[Any, ...]]) -> None:
    """Refuses formulas whose values are not in the file: programs that only write files do not compute them. If others
    have values, a formula without one is empty."""
    first, has_values = None, False
    for number, (row, written) in enumerate(zip(values, formulas, strict=True), start=1):
        for place, (value, formula) in enumerate(zip(row, written, strict=True), start=1):
            if value is None and formula is not None:
                first = first or (number, place, str(formula))
            has_values |= value is not None and value != formula
    if first is not None and not has_values:
        number, place, formula = first
        raise ReadError(
            f"{path}, row {number}, column {place}: the value of the formula {shown(formula)} is not in the file; open "
            f"it in a spreadsheet program and save it"
        )


def _name(path: Path, place: int, value: object) -> str:
    if value is None:
        raise ReadError(f"{path}: column {place + 1} has no name in the first row")
    return str(value)


def _texts(values: tuple[Any, ...]) -> list[str | None]:
    has_times = any(isinstance(value, datetime) and value.time() != time() for value in values)
    return [None if value is None else _text(value, has_times) for value in values]


def _text(value: object, has_times: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat() if has_times else value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
