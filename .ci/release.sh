#!/usr/bin/env bash
# Builds the sdist and the wheel and tries each in an empty environment. Uploads nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$PWD/.venv/bin/uv
rm -rf dist
"$uv" build --quiet --sdist --wheel --out-dir dist
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for package in dist/*.whl dist/*.tar.gz; do
  "$uv" venv --quiet --clear "$folder/env"
  "$uv" pip install --quiet --python "$folder/env/bin/python" "$package"
  (cd "$folder" && rm -rf first.py .zenturio && env/bin/zen init python && env/bin/zen run first.py > run.txt && env/bin/zen best first -n 1)
  echo "$package: a study ran"
done
# A packager runs the tests from the sdist.
tar -xzf dist/*.tar.gz -C "$folder"
test -d "$folder"/zenturio-*/tests
ls -l dist
