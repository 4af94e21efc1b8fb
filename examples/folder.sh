#!/usr/bin/env bash
# Cuts out every JPEG of a folder over HTTP with curl, four at a time, and lists the photos that failed.
#
#     BACKDROP_URL=http://127.0.0.1:8080 BACKDROP_KEY=bd_live_… examples/folder.sh photos cutouts
#
# Without a daemon, `backdrop remove photos -o cutouts --set format=webp` does the same, with all picture formats.
set -euo pipefail
from=$1 to=$2
export URL=${BACKDROP_URL:-http://127.0.0.1:8080} KEY=$BACKDROP_KEY TO=$to
mkdir -p "$to"

cut_out() {
  local name=${1##*/}
  # --retry also waits for the Retry-After of 429 and 503.
  curl --silent --show-error --fail-with-body --retry 5 -H "Authorization: Bearer $KEY" \
    -F "file=@$1" -F format=webp "$URL/remove" -o "$TO/${name%.*}.webp" || { echo "failed: $1" >&2; return 1; }
}
export -f cut_out

find "$from" -type f \( -iname '*.jpg' -o -iname '*.jpeg' \) -print0 | xargs -0 -P 4 -I {} bash -c 'cut_out "$1"' _ {}
echo "$(find "$to" -name '*.webp' | wc -l) cutouts in $to"
