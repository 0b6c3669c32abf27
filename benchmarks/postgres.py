"""The same violations counted by a PostgreSQL trigger, in a cluster of its own that lives for one benchmark."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Rule, as_dc
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema

_TYPES = {Kind.INTEGER: "bigint", Kind.DECIMAL: "numeric", Kind.TEXT: "text"}


def programs() -> Path | None:
    """Where PostgreSQL's server programs are, or None. Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *([Path(found).parent] if found else [])]
    needed = ("initdb", "pg_ctl", "psql")
    return next((place for place in reversed(places) if all((place / name).exists() for name in needed)), None)


@contextmanager
def server(bin_: Path) -> Iterator[Path]:
    """A running server with a fresh cluster; gives the directory of its socket. Root runs it as `postgres`."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(directory, user)
    run = ["-D", str(directory / "cluster")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "user": user, "cwd": directory}
    subprocess.run([bin_ / "initdb", *run, "--auth=trust", "-U", "bench"], check=True, **quiet)
    options = f"-k {directory} -c listen_addresses='' -c fsync=off -c shared_buffers=1GB"
    try:
        subprocess.run([bin_ / "pg_ctl", *run, "-w", "-o", options, "start"], check=True, **quiet)
        yield directory
    finally:
        subprocess.run([bin_ / "pg_ctl", *run, "-m", "immediate", "stop"], check=False, **quiet)
        shutil.rmtree(directory, ignore_errors=True)


def _sql(bin_: Path, socket: Path, text: str) -> None:
    command = [bin_ / "psql", "-h", socket, "-U", "bench", "-d", "postgres", "-q", "-v", "ON_ERROR_STOP=1"]
    subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)


def trigger_sql(rule: Rule, schema: Schema) -> str:
    """A trigger that counts the new row's violations, with an index for every column (Weever, section 6.1): B-trees
    for inequalities, hashes for the others."""
    pairs = [p for p in as_dc(rule).predicates if isinstance(p, Compare) and isinstance(p.right, Cell)]  # type: ignore[arg-type]
    indexes = {p.left.column: "btree" if p.op.is_order else "hash" for p in pairs}
    conditions = [
        " AND ".join(f"{row}.{p.left.column} {_symbol(p.op)} {other}.{p.right.column}" for p in pairs)
        for row, other in (("NEW", "x"), ("x", "NEW"))
    ]
    made = "".join(f"CREATE INDEX ON data USING {kind} ({column});\n" for column, kind in indexes.items())
    counts = " + ".join(f"(SELECT count(*) FROM data x WHERE {condition})" for condition in conditions)
    return f"""{made}ANALYZE data;
        CREATE FUNCTION check_row() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO found SELECT {counts};
            RETURN NEW;
        END $$;
        CREATE TRIGGER checked BEFORE INSERT ON data FOR EACH ROW EXECUTE FUNCTION check_row();"""


def _symbol(op: Op) -> str:
    return "<>" if op is Op.NE else op.value


def by_trigger(table: pa.Table, rule: Rule, schema: Schema, rows: int, inserts: int) -> float | None:
    """Microseconds of elapsed time for each inserted row; None without PostgreSQL."""
    bin_ = programs()
    if bin_ is None:
        return None
    with server(bin_) as socket:
        base, new = socket / "base.csv", socket / "new.csv"
        for path, part in ((base, table.slice(0, rows)), (new, table.slice(rows, inserts))):
            pa.csv.write_csv(part, path, pa.csv.WriteOptions(include_header=False))
            path.chmod(0o644)
        columns = ", ".join(f"{c.name} {_TYPES[c.kind]}" for c in schema.columns)
        socket.chmod(0o755)
        _sql(bin_, socket, f"CREATE TABLE data ({columns}); CREATE TABLE found (n bigint);")
        _sql(bin_, socket, f"\\copy data FROM '{base}' CSV")
        _sql(bin_, socket, trigger_sql(rule, schema))
        started = time.perf_counter()
        _sql(bin_, socket, f"\\copy data FROM '{new}' CSV")
        return (time.perf_counter() - started) * 1e6 / inserts
