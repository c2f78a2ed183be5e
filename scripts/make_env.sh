#!/usr/bin/env bash
# Make a Python environment with cdcwb in it, editable:
#
#     [PYTHON=python3.12] scripts/make_env.sh FOLDER EXTRA CONSTRAINTS [CONSTRAINTS …]
#
# A later constraints file wins over an earlier one, name by name. Where uv is installed, it installs. FOLDER/.ready is
# written when all went well.
set -euo pipefail
folder=$1 extra=$2
shift 2
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  { echo "cdcwb needs Python 3.11 or later as $python; name another one: make PYTHON=python3.12 …" >&2; exit 1; }
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  { echo "$python has no venv module; install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }

echo "making the environment in $folder (about a minute, and 1.5 GB) …"
rm -f "$folder/.ready"
"$python" -m venv "$folder"
awk '{name = $0; sub(/==.*/, "", name)} /==/ {if (!(name in pin)) order[++count] = name; pin[name] = $0}
     END {for (i = 1; i <= count; i++) print pin[order[i]]}' "$@" >"$folder/constraints.txt"
log=$folder/install.log
pip=("$folder/bin/python" -m pip --disable-pip-version-check install)
if command -v uv >/dev/null; then pip=(uv pip install --compile-bytecode --python "$folder/bin/python"); fi
pip+=(--constraint "$folder/constraints.txt")
if ! { "${pip[@]}" --upgrade pip && "${pip[@]}" --editable ".[$extra]"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "the environment could not be made; all of the installer's output is in $log" >&2
  exit 1
fi
if [ "$extra" = dev ]; then # elsewhere they are compiled at the first use
  echo "compiling the decoders' loops …"
  "$folder/bin/python" -m cdcwb.cli.kernels || true
fi
touch "$folder/.ready"
