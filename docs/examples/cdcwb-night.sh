#!/bin/sh
# Every night: what came into a folder is added to what is kept of it, and reported on.
set -eu

landing=/var/lib/cdc/shop
kept=/var/lib/cdcwb/kept/shop
reports=/var/lib/cdcwb/reports/shop

mkdir -p "$kept"
today=$kept/$(date -u +%Y%m%dT%H%M%SZ)
if [ -e "$kept/latest" ]; then
    cdcwb save "$(readlink -f "$kept/latest")" "$landing" --to "$today"
else
    cdcwb save "$landing" --to "$today"
fi
ln -sfn "$today" "$kept/latest"
exec cdcwb report all "$today" --to "$reports" --fail-if "open_transactions > 0"
