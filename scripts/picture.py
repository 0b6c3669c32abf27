"""Makes docs/assets/overview.png: the overview page of a generated shop after some batches. Run by
`make picture`; needs Chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import holdfast as hf
from holdfast.generate import orders
from holdfast.workflow.decisions import deciding
from holdfast.workflow.suggestions import best_survivors, refresh_suggestions

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "assets" / "overview.png"


def shop(place: Path) -> None:
    """A rulebook of orders and customers, some batches later."""
    data = orders(3000)
    rules = ["customers: zip -> city", "orders: product -> price", "orders.customer in customers.id"]
    with hf.Rulebook.create(
        place, data.tables, key=data.keys, rules=rules, kinds=("key", "fd", "ind"), max_size=2
    ) as book:
        for batch in data.batches(13, 60):
            book.apply(batch.changes)
        with deciding(book) as decisions:
            refresh_suggestions(decisions, book, best_survivors(book, 4))


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / "shop.book"
        shop(place)
        command = [sys.executable, "-m", "holdfast.cli.main", "serve", str(place), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1120, "height": 900})
            page.goto(found[0])
            page.wait_for_timeout(500)
            page.screenshot(path=PICTURE)
            browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
