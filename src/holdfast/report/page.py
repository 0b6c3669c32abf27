"""`holdfast report`: one self-contained HTML file, for light and dark screens and for print."""

from __future__ import annotations

from importlib.resources import files
from typing import Any
from urllib.parse import quote

from holdfast.report.charts import overview_charts, trends_chart
from holdfast.report.facts import KIND_NAMES, Facts, amount, facts_of, references_of, require_ui
from holdfast.report.graph import graph_svg
from holdfast.rulebook import Rulebook
from holdfast.rules.wording import counted, percent

_MAX_TRENDS = 6


def environment(*packages: str) -> Any:
    """The templates of reports and other packages. Values are escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader(package) for package in ("holdfast.report", *packages)]
    templates = Environment(loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    templates.filters |= {"percent": percent, "number": lambda n: "" if n is None else f"{n:,}"}
    templates.filters["url"] = lambda text: quote(str(text), safe="")
    templates.globals |= {"counted": counted, "kind_names": KIND_NAMES, "amount": amount}
    return templates


def report_html(book: Rulebook, name: str) -> str:
    """The report about the current version of a rulebook."""
    require_ui("a report")
    facts = facts_of(book, name)
    template = environment().get_template("report.html")
    text: str = template.render(facts=facts, style=style(), charts=_charts(facts), graph=_graph(book))
    return text


def style() -> str:
    return files("holdfast.report").joinpath("templates/style.css").read_text(encoding="utf-8")


def _charts(facts: Facts) -> list[tuple[str, str]]:
    charts = overview_charts(facts.timeline, facts.trends)
    most_violated = dict(list(facts.trends.items())[:_MAX_TRENDS])
    if any(len(points) > 1 for points in most_violated.values()):
        charts.append(("Error of the most violated rules", trends_chart(most_violated)))
    return charts


def _graph(book: Rulebook) -> str:
    return graph_svg(list(book.schemas), references_of(book))
