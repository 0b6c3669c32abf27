"""Builds the documentation site into `site/`; any warning is an error. Run by `make docs`.

The tools have an environment of their own, `.tools/docs`, made from the hashed `requirements-docs.lock`. The code is
read, not imported: nothing else needs to be installed. `python scripts/docs.py serve` shows the site while you write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".tools" / "docs"
LOCK = ROOT / "requirements-docs.lock"
PYTHON = HOME / "bin" / "python"


def install() -> None:
    """Makes the environment; does nothing while the lock and the Python are the same."""
    mark = HOME / "installed"
    wanted = f"{sys.version}\n{LOCK.read_text(encoding='utf-8')}"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return
    print("docs: installing the tools of the site into .tools/docs", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
    mark.write_text(wanted, encoding="utf-8")


def main() -> int:
    install()
    command = sys.argv[1:] or ["build", "--strict", "--clean"]
    quiet = {"NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([str(PYTHON), "-m", "mkdocs", *command], cwd=ROOT, env=os.environ | quiet).returncode


if __name__ == "__main__":
    sys.exit(main())
