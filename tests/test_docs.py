"""What the documentation says is true."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer.main

from holdfast.cli.main import app_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob(".github/**/*.md")]
)


def script(name: str):
    """A module of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_example_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    out = capsys.readouterr().out
    expected = re.findall(r"to_pylist\(\)\)\s+# (.*)", code)[0]
    assert expected in out and "fewest rows to remove" in out and "violations  rule" in out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_files_that_the_documentation_names_exist():
    for page in (ROOT / "docs/papers.md", ROOT / "CONTRIBUTING.md"):
        for name in re.findall(
            r"`((?:rules|table|kernels|store|generate|tests|benchmarks|docs)/[\w/]+\.(?:py|md))`", page.read_text()
        ):
            assert (ROOT / name).exists() or (ROOT / "src/holdfast" / name).exists(), name


def test_every_command_and_option_is_documented():
    """The reference is made from the program; the kinds of rules and the pages of the tutorial are written."""
    assert (ROOT / "docs" / "reference.md").read_text() == script("reference").reference(), "run `make reference`"
    group = typer.main.get_command(app_of())
    for name, command in group.commands.items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name} has no help text"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "rules").glob("*.md")), ids=lambda p: p.stem)
def test_the_worked_example_of_each_kind_runs(page, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
    exec(code, {})
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"      # (.*)", code)
    assert promised and all(line in printed for line in promised)


def test_make_targets_that_the_documentation_names_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)`", page.read_text())) <= targets


@pytest.mark.parametrize(("name", "least"), [("requirements.lock", 50), ("requirements-docs.lock", 30)])
def test_no_registry_is_named_and_the_lock_is_hashed(name, least):
    lock = (ROOT / name).read_text()
    assert "://" not in lock and "--index" not in lock and "--find-links" not in lock
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    assert all("--hash=sha256:" in entry for entry in entries) and len(entries) > least


def test_nothing_names_the_wrong_distribution():
    """`holdfast` on the package index is another program; ours is `holdfast-data`."""
    wrong = re.compile(r"""pip install (?:-\S+ )*['"]?holdfast(?!-data)\b|['"]holdfast\[""")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name] or [*ROOT.glob("src/**/*.py"), *PAGES]
    assert len(paths) > 100
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()}
    found = {str(path.relative_to(ROOT)): match[0] for path, text in texts.items() if (match := wrong.search(text))}
    assert found == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "holdfast-data" and project["scripts"] == {"holdfast": "holdfast.cli.main:run"}


def test_tables_of_the_reference_have_three_cells():
    for line in (ROOT / "docs" / "reference.md").read_text().splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4, line


@pytest.mark.parametrize("name", ["index", "tutorial"])
def test_pages_show_what_the_commands_print(name):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert page.count("$ holdfast ") >= 4
    assert script("transcripts").written(page) == page, "run `make reference`"


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M))
    written = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    assert {page for page in written if not page.startswith("decisions/")} <= navigation  # those are listed by the site
    assert navigation - written == {"contributing.md", "changes.md", "security.md"}  # made from files of the root


def test_workflows_run_targets_that_exist_on_the_pythons_that_are_promised():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    named = set(re.findall(r"run: make ([a-z-]+)", workflow))
    assert {"setup", "lint", "types", "imports", "tests", "wheel", "docs"} <= named <= targets
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert re.findall(r"3\.\d+", matrix) == [c.split()[-1] for c in classifiers if "Python :: 3." in c]


def test_nothing_that_tools_leave_behind_is_committed():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    left = (".schemathesis/", ".hypothesis/", ".tools/", ".venv", "site/", "dist/", "artifacts/", "spark-warehouse/")
    assert [name for name in listed if name.startswith(left) or "__pycache__" in name] == []
