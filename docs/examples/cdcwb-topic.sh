#!/bin/sh
# Every ten minutes: the new messages of the topics are captured and appended to a saved capture, which is reported on.
# Exit code 5: the cluster does not answer. The saved capture stays as it was, and the next run catches up.
set -eu

topics='kafka://broker:9092/^shop\..*'
messages=/var/lib/cdcwb/messages/shop
saved=/var/lib/cdcwb/saved/shop
reports=/var/lib/cdcwb/reports/shop

mkdir -p "$(dirname "$messages")" "$(dirname "$saved")"
cdcwb capture "$topics" --to "$messages"
if [ -d "$saved" ]; then
    cdcwb save "$saved" "$messages" --to "$saved" --overwrite
else
    cdcwb save "$messages" --to "$saved"
fi
exec cdcwb report all "$saved" --to "$reports" --fail-if "problems_by_severity.error > 0"
