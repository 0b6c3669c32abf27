#!/bin/sh
# Rewrites requirements.lock, one universal, hashed list of everything (core, extras, development tools), and
# requirements-docs.lock, the same for the tools of the documentation site.
# Needs uv on PATH. The locks name no index address; pip finds the packages where it always does.
set -eu
cd "$(dirname "$0")/.."
lock() {
    uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
        --no-emit-find-links --python-version 3.11 "$@"
}
lock --all-extras --group dev pyproject.toml --output-file requirements.lock
lock --group docs --output-file requirements-docs.lock
