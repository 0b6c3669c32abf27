"""Prints docs/reference.md: every command with its options, and the fields of the two YAML files. `make reference`."""

from __future__ import annotations

from typing import Any

import typer.main

from holdfast.cli.main import app_of
from holdfast.pipeline.config import json_schema as pipeline_schema
from holdfast.rules.rulefile import json_schema as rules_schema

HEAD = """# Reference

Made by `make reference` from the program itself; a test fails where it is not up to date. Results go to stdout,
progress and messages to stderr. Exit status: 0 clean; 1 violations that count (`--fail-on`); 2 bad usage or input;
3 internal error; 130 interrupted.
"""


def command_text(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join([f"holdfast {name}", *(["[OPTIONS]"] if options else []), *(_placeholder(a) for a in arguments)])
    lines = [f"### holdfast {name}", "", _text((command.help or "").strip()), "", f"    {usage}", ""]
    rows = [(_placeholder(a), a.help or "", "") for a in arguments]
    rows += [(", ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts)), p.help or "", _default(p)) for p in options]
    if rows:
        lines += ["| | | default |", "|---|---|---|"]
        lines += [f"| {_cell(left)} | {_cell(text)} | {_cell(default)} |" for left, text, default in rows]
    return "\n".join([*lines, ""])


def _placeholder(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.nargs == 1 or argument.metavar else f"{name}..."


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or value == [] or callable(value) or parameter.required:
        return "required" if parameter.required else ""
    return str(getattr(value, "value", value))


def _cell(text: str) -> str:
    """Text in a cell of a table: one line, in which a bar ends nothing."""
    return _text(" ".join(text.split())).replace("|", "\\|")


def _text(text: str) -> str:
    """Text that Markdown does not take for a tag; what stands in backticks is as it is."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def schema_text(schema: dict[str, Any], title: str, names: list[str]) -> str:
    lines = [f"## {title}", ""]
    for name in names:
        model = schema if name == "" else schema["$defs"][name]
        if name:
            lines += [f"### {name}", "", _cell(model.get("description", "")), ""]
        lines += ["| field | | default |", "|---|---|---|"]
        for field, about in model["properties"].items():
            default = about.get("default")
            shown = (
                "required" if field in model.get("required", ()) else "" if default in (None, [], {}) else str(default)
            )
            lines.append(f"| `{field}` | {_cell(about.get('description', '') or _choices(about))} | {_cell(shown)} |")
        lines.append("")
    return "\n".join(lines)


def _choices(about: dict[str, Any]) -> str:
    values = about.get("enum") or ([about["const"]] if "const" in about else [])
    return ", ".join(str(value) for value in values)


def reference() -> str:
    group = typer.main.get_command(app_of())
    commands = "\n".join(command_text(name, command) for name, command in sorted(group.commands.items()))  # type: ignore[attr-defined]
    rules = schema_text(rules_schema(), "The rule file", ["", "RuleEntry"])
    pipeline = pipeline_schema()
    parts = ["", *sorted(name for name, model in pipeline["$defs"].items() if "properties" in model)]
    return "\n".join([HEAD, "## Commands", "", commands, rules, schema_text(pipeline, "The pipeline file", parts)])


if __name__ == "__main__":
    print(reference(), end="")
