#!/usr/bin/env bash
# Copy the jars of the broker that tests/live starts, with what they depend on, into a folder:
#
#     scripts/live_jars.sh FOLDER
#
# Maven resolves them from the repositories of its own configuration (tests/live/pom.xml names them). FOLDER/.ready is
# written when all went well.
set -euo pipefail
folder=$1
pom=$(dirname "${BASH_SOURCE[0]}")/../tests/live/pom.xml
[ "$folder/.ready" -nt "$pom" ] && exit
command -v mvn >/dev/null || { echo "Maven is missing: install maven (Debian, Ubuntu: apt-get install maven)" >&2; exit 1; }
echo "copying the jars of a Kafka broker to $folder …"
log=$(mktemp)
rm -rf "$folder"
if ! mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies -DincludeScope=runtime \
  -DoutputDirectory="$(realpath -m "$folder")" >"$log" 2>&1; then
  tail -n 10 "$log" >&2
  echo "Maven could not resolve the jars; all of its output is in $log" >&2
  exit 1
fi
rm -f "$log"
touch "$folder/.ready"
