"""Hooks of the documentation site: pages made from the code, from the notebooks and from the root of the repository.

| pages | from |
|---|---|
| `api/` | everything in `holdfast.__all__`, by kind; the text is in the docstrings |
| `examples/` | the notebooks under `examples/`, with their outputs |
| `decisions/index.md` | the titles of the notes |
| `contributing.md`, `changes.md`, `security.md` | the files that a repository has at its root |

Links between these files are relative to the repository, so that they also work where the repository is browsed; here
they are turned into links of the site. A page with a diagram gets Mermaid from the package `mmdc`: nothing is fetched.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md", "SECURITY.md": "security.md"}
NOTEBOOKS = {f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted(ROOT.glob("examples/*.ipynb"))}
PLACES = {"examples/README.md": "examples/index.md"} | ROOT_PAGES | NOTEBOOKS  # file: page
MERMAID = "assets/mermaid.min.js"
API = {
    "functions": ("Functions", "What `import holdfast as hf` offers to call."),
    "rules": ("Rules", "Rules are values: hashable, with a canonical text, and without data."),
    "classes": ("Classes", "What functions take and return."),
    "errors": ("Errors", "All are `HoldfastError`; the message says what to do."),
}
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills the parts of the navigation that follow from what there is."""
    parts = {
        "examples/": ["examples/index.md", *NOTEBOOKS.values()],
        "api/": ["api/index.md", *(f"api/{name}.md" for name in API)],
        "decisions/": ["decisions/index.md", *(f"decisions/{path.name}" for path in _decisions())],
    }
    config.nav = _filled(config.nav, parts)
    return config


def _filled(nav: Any, parts: dict[str, list[str]]) -> Any:
    if isinstance(nav, list):
        return [_filled(item, parts) for item in nav]
    if isinstance(nav, dict):
        return {title: _filled(item, parts) for title, item in nav.items()}
    return parts.get(nav, nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages and Mermaid."""
    pages = {
        **{page: (ROOT / name).read_text(encoding="utf-8") for name, page in ROOT_PAGES.items()},
        "examples/index.md": (ROOT / "examples" / "README.md").read_text(encoding="utf-8"),
        **{page: notebook_page(ROOT / name) for name, page in NOTEBOOKS.items()},
        **dict(api_pages()),
        "decisions/index.md": decisions_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    mermaid = str(package_files("mmdc") / "assets" / "mermaid.js")
    files.append(File.generated(config, MERMAID, abs_src_path=mermaid))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns links between files of the repository into links between pages."""
    origin = {to: name for name, to in PLACES.items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[2]))
        if target not in PLACES and target != "README.md" and not target.startswith("docs/"):
            return match[0]
        to = "index.md" if target == "README.md" else PLACES.get(target, target.removeprefix("docs/"))
        return match[1] + posixpath.relpath(to, posixpath.dirname(page.file.src_uri) or ".") + match[3]

    return _LINK.sub(moved, markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Loads Mermaid where there is a diagram, and only there."""
    if 'class="mermaid"' not in output:
        return output
    source = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{source}"></script></head>', 1)


# --- Python ---------------------------------------------------------------------------------------------------


def api_pages() -> Iterator[tuple[str, str]]:
    """The index of all exported names, and a page for each kind of them."""
    package = griffe.load("holdfast", search_paths=[ROOT / "src"], resolve_aliases=True)
    names: dict[str, list[tuple[str, str, str]]] = {kind: [] for kind in API}
    for name in sorted(map(str, package.exports or ()), key=str.lower):
        path = package.imports.get(name, f"holdfast.{name}")  # `holdfast.check` is a function, and a module too
        exported = package.modules_collection[path]
        about = exported.docstring.value.strip().split("\n\n")[0] if exported.docstring else ""
        names[_kind(exported)].append((name, exported.canonical_path, " ".join(about.split())))
    index = ["# Python", "", "Everything that `import holdfast as hf` exports; the rest is free to change", ""]
    index[2] += " ([what stays compatible](../deprecation.md))."
    for kind, (title, about) in API.items():
        rows = [f"| [`{n}`]({kind}.md#{path}) | {_in_a_cell(text)} |" for n, path, text in names[kind]]
        index += [f"## {title}", "", about, "", "| | |", "|---|---|", *rows, ""]
        yield f"api/{kind}.md", "\n\n".join([f"# {title}", about, *(f"::: {path}" for _, path, _ in names[kind])])
    yield "api/index.md", "\n".join(index)


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _kind(exported: Any) -> str:
    if not exported.is_class:
        return "functions"
    if exported.name == "HoldfastError" or any(base.name == "HoldfastError" for base in exported.mro()):
        return "errors"
    return "rules" if exported.canonical_path.startswith("holdfast.rules.rule.") else "classes"


# --- notebooks and decisions --------------------------------------------------------------------------------


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: text, code and what the code gave."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [part for cell in cells for part in _cell(cell)]
    return "\n\n".join([*parts, f"*This page is the notebook `examples/{path.name}` of the repository.*"])


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if html := "".join(data.get("text/html", [])):
            yield f'<div class="notebook-output">{html}</div>'
        elif text := "".join(data.get("text/plain", output.get("text", []))):
            yield f"```text\n{text.rstrip()}\n```"


def _decisions() -> list[Path]:
    return sorted(ROOT.glob("docs/decisions/[0-9]*.md"))


def decisions_page() -> str:
    titles = [(path, path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")) for path in _decisions()]
    head = "# Decisions\n\nWhere the code departs from what was planned or from a paper, and why.\n"
    return "\n".join([head, *(f"- [{path.name[:4]}]({path.name}): {title}" for path, title in titles), ""])
