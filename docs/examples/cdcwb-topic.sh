#!/bin/sh
# Every ten minutes: what came into the topics is added to what is kept of them, and reported on.
# Exit code 5: the cluster does not answer. What is kept stays as it was, and the next run catches up.
set -eu

topics='kafka://broker:9092/^shop\..*'
kept=/var/lib/cdcwb/kept/shop
reports=/var/lib/cdcwb/reports/shop

mkdir -p "$(dirname "$kept")"
cdcwb follow "$topics" --to "$kept" --once
exec cdcwb report all "$kept" --to "$reports" --fail-if "problems_by_severity.error > 0"
