#!/bin/sh
# Opens reports in Debian's Chromium. Where that is not to be had, says so and is content:
# whoever has no browser can still run all other tests.
set -u
bin=${1:?the bin folder of the environment}

skip() {
    echo "test-browser: skipped, $1"
    exit 0
}

has_browser() { command -v chromium >/dev/null && command -v chromedriver >/dev/null; }

install_browser() {
    command -v apt-get >/dev/null || skip "there is no chromium with chromedriver, and no apt-get to install them"
    [ "$(id -u)" = 0 ] || skip "there is no chromium with chromedriver; as root: apt-get install chromium chromium-driver"
    log=$(mktemp)
    { timeout 300 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 600 \
        apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >"$log" 2>&1 </dev/null
    status=$?
    [ $status = 0 ] || tail -n 3 "$log"
    rm -f "$log"
    [ $status = 0 ] && has_browser || skip "apt-get could not install chromium and chromium-driver"
}

has_browser || install_browser
if ! "$bin/python" -c 'import selenium' 2>/dev/null; then
    "$bin/python" -m pip install --quiet --constraint constraints.txt 'selenium>=4.20,<5' ||
        skip "pip could not install selenium"
fi
exec "$bin/python" -m pytest -m browser tests/browser
