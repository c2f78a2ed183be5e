#!/usr/bin/env bash
# Make sure that a program which pip cannot install is there:
#
#     scripts/ensure.sh PYTHON java|browser|databases
#
# PYTHON is an environment with cdcwb in it, whose own checks decide; databases are the servers that tests/live starts.
# On Debian and Ubuntu the program is installed where that takes no password (root, or sudo -n); in any other case one
# line says what to install.
set -euo pipefail
python=$1 wanted=$2
case $wanted in
  java) checks="Java" what="Java 17 or 21" packages=("openjdk-17-jre-headless" "openjdk-21-jre-headless") ;;
  browser) checks="Chromium,chromedriver" what="Chromium and its driver" packages=("chromium chromium-driver fonts-liberation") ;;
  databases) checks="" what="PostgreSQL and MariaDB" packages=("postgresql mariadb-server") ;;
  *) echo "usage: $0 PYTHON java|browser|databases" >&2; exit 2 ;;
esac

is_there() {
  if [ "$wanted" = databases ]; then
    command -v mariadbd >/dev/null && compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
    return
  fi
  "$python" -c 'import sys
from cdcwb.doctor import examine
sys.exit(any(check.name in sys.argv[1].split(",") and not check.ok for check in examine()))' "$checks"
}

is_there && exit
root=()
if [ "$(id -u)" != 0 ]; then root=(sudo -n); fi
if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
  echo "installing $what with apt-get …"
  log=$(mktemp)
  "${root[@]}" apt-get update >"$log" 2>&1 || true # an old list may do
  for choice in "${packages[@]}"; do
    # shellcheck disable=SC2086 # a choice may be several packages
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $choice >>"$log" 2>&1 && break
  done
  if is_there; then rm -f "$log"; exit; fi
  tail -n 5 "$log" >&2
fi
echo "$what is missing: install ${packages[0]} (Debian, Ubuntu), or see 'cdcwb doctor' for other ways" >&2
exit 1
