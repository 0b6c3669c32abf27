#!/bin/sh
# Rewrites requirements.lock: one universal, hashed list of everything (core, extras, development tools).
# Needs uv on PATH. The lock names no index address; pip finds the packages where it always does.
set -eu
cd "$(dirname "$0")/.."
exec uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
    --no-emit-find-links --python-version 3.11 --all-extras --group dev pyproject.toml --output-file requirements.lock
