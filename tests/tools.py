"""Other tools, each in an environment of its own under .tools/: made when first needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parent.parent / ".tools"
PACKAGES = {
    "gx": ("great_expectations==1.24.1", "sqlalchemy==2.0.57"),
    "dbt": ("dbt-core==1.9.11", "dbt-duckdb==1.9.6"),
    "odcs": ("open-data-contract-standard==3.2.0", "jsonschema==4.26.0", "pyyaml==6.0.3"),
    "soda": ("soda-duckdb==4.28.0",),
    "schemathesis": ("schemathesis==4.32.5",),
    "dqx": ("databricks-labs-dqx==0.17.0", "pyspark==4.0.1", "pandas==2.3.3"),
}
QUIET = {"DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true", "GX_ANALYTICS_ENABLED": "false"}


def tool(name: str) -> Path:
    """The directory of a tool's programs; the test is skipped, with a reason, where it cannot be installed."""
    home = HOME / name
    mark = home / "installed"
    wanted = "\n".join(PACKAGES[name])
    if not mark.exists() or mark.read_text() != wanted:
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([*pip, *PACKAGES[name]], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"{name} cannot be installed: {error}")
        mark.write_text(wanted)
    return home / "bin"


def run(name: str, code: str, *arguments: object, status: int = 0) -> str:
    """What Python code in a tool's environment prints."""
    return called([tool(name) / "python", "-c", code, *arguments], status=status)


def called(command: list[object], status: int | None = 0, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, cwd=cwd, env=os.environ | QUIET
    )
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done.stdout
