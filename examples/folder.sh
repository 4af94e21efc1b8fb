#!/usr/bin/env bash
# Cuts out every JPEG of a folder and its subfolders over HTTP with curl, four at a time, and lists the photos that failed.
#
#     BACKDROP_URL=http://127.0.0.1:8080 BACKDROP_KEY=bd_live_… examples/folder.sh photos cutouts
#
# photos/a/b.jpg becomes cutouts/a/b.jpg.webp: no two photos have one result. Ends with 1 if a photo failed. Without a daemon,
# `backdrop remove photos -o cutouts --set format=webp` does much the same, with all picture formats.
set -euo pipefail
export FROM=$1 TO=$2 URL=${BACKDROP_URL:-http://127.0.0.1:8080} KEY=$BACKDROP_KEY
mkdir -p "$TO"

cut_out() {
  local result=$TO/$1.webp file=$FROM/$1
  mkdir -p "${result%/*}"
  # In quotes curl takes , and ; of a name as they are.
  file=${file//\\/\\\\}
  file=${file//\"/\\\"}
  # --retry also waits for the Retry-After of 429 and 503. What curl writes may be an error, or a part.
  if curl --silent --show-error --fail-with-body --retry 5 -H "Authorization: Bearer $KEY" \
    -F "file=@\"$file\"" -F format=webp "$URL/remove" -o "$result.part"; then
    mv "$result.part" "$result"
  else
    echo "failed: $FROM/$1 $(cat "$result.part" 2>/dev/null)" >&2
    rm -f "$result.part"
    return 1
  fi
}
export -f cut_out

failed=0
(cd "$FROM" && find . -type f \( -iname '*.jpg' -o -iname '*.jpeg' \) -print0) |
  xargs -0 -P 4 -I {} bash -c 'cut_out "${1#./}"' _ {} || failed=1
echo "$(find "$TO" -name '*.webp' | wc -l) cutouts in $TO"
exit "$failed"
