#!/usr/bin/env bash
# The product by itself, as `pip install .` leaves it: no extras, no paper. Needs the folder of its
# commands: tests/alone/run.sh .venv-alone/bin
set -euo pipefail
bin=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" # so that nothing is imported from the sources

fail() {
    echo "test-alone: $*" >&2
    exit 1
}
says() { # says TEXT FILE
    grep -qF -- "$1" "$2" || fail "'$1' is not said in: $(cat "$2")"
}
refused() { # refused TEXT COMMAND...: exit status 2, one message, no traceback
    local words=$1 status=0
    shift
    "$@" >said 2>&1 || status=$?
    [ "$status" = 2 ] || fail "status $status, not 2, of: $*"
    says "$words" said
    if grep -q Traceback said; then fail "a traceback of: $*"; fi
}
rows() { wc -l <"$1"; }

for package in geopandas rasterio pooch riesz_paper sklearn starlette; do
    if "$bin/python" -c "import $package" 2>/dev/null; then fail "$package is installed"; fi
done

"$bin/riesz" --help >help
for command in init check fit predict report demo; do says "  $command " help; done
for command in experiment data; do
    if grep -q "^  $command " help; then fail "riesz $command is there without the paper"; fi
    refused "No such command" "$bin/riesz" "$command"
done

refused "pip install 'riesz[app]'" "$bin/riesz" app --no-browser

"$bin/python" >points.csv <<'TABLE'
print("x,y,value")
for i in range(6):
    for j in range(5):
        x, y = i + 0.1 * j, j - 0.05 * i
        print(f"{x},{y},{3 + 0.4 * x - 0.3 * y + 0.1 * (-1) ** (i * j)}")
TABLE
"$bin/riesz" init points.csv --value value --out problem.toml
sed -i 's/^max_edge = .*/max_edge = 1.5/; s/^inducing = .*/inducing = 8/' problem.toml
"$bin/riesz" check problem.toml >checked
says "30 rows of points.csv" checked
"$bin/riesz" fit problem.toml --out run --quiet --json >fitted
says '"observations": 30' fitted
"$bin/riesz" predict run --stat mean,sd,exceed:4 --points points.csv --out at-points.csv
[ "$(rows at-points.csv)" = 31 ] || fail "at-points.csv has $(rows at-points.csv) lines, not 31"
says "x,y,value,measurement_mean,measurement_sd,measurement_exceed_4" at-points.csv
"$bin/riesz" predict run --grid 5x4 --out on-grid.csv
says "x,y,measurement_mean" on-grid.csv
refused ".[gis]" "$bin/riesz" predict run --cell 1 --out map.tif

"$bin/riesz" demo --out demo --quiet --json >demonstrated
says '"out": "demo"' demonstrated
for file in problem.toml with-metals.toml jura.csv cadmium.png report.html table.md results.json; do
    [ -s "demo/$file" ] || fail "the demo left no $file"
done
"$bin/python" - <<'TABLE'
import json

rows = {(row["method"], row["knows"]): row for row in json.load(open("demo/results.json"))["rows"]}
ours = rows["ours", "place, Pb, Ni, Zn"]
assert ours["mae"] < min(row["mae"] for row in rows.values() if row["role"] != "ours"), ours
assert 0.9 <= ours["coverage95"] <= 1, ours
TABLE
echo "test-alone: all commands work with what pip install . brings"
