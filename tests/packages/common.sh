# shellcheck shell=bash
# Helpers of the tests of packages, which source this file: a daemon on a free port, a photo, a clip, a stopwatch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
binary=$(realpath "${1:?usage: ${0##*/} BINARY}")
version=$("$binary" --version | cut -d ' ' -f 2)
work=$(mktemp -d)
key=bd_live_0123456789abcdefghijABCDEFGHIJ01
daemon=
trap 'stop_daemon; clean; rm -rf "$work"' EXIT
# A test that installs something replaces this.
clean() { :; }

fail() {
  echo "FAILED: $*" >&2
  [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
  exit 1
}

# start_daemon COMMAND...: runs `serve` on free ports and sets url.
start_daemon() {
  # Not the log of the daemon before.
  : >"$work/log"
  BACKDROP_LISTEN=127.0.0.1:0 BACKDROP_ADMIN_LISTEN=127.0.0.1:0 BACKDROP_DEVICE=cpu BACKDROP_LOG_FORMAT=json \
    BACKDROP_BOOTSTRAP_KEY=$key "$@" >"$work/log" 2>&1 &
  daemon=$!
  until address=$(grep -s '"listening"' "$work/log" | jq -er .fields.address); do
    kill -0 "$daemon" 2>/dev/null || fail "the daemon did not start"
    sleep 0.05
  done
  url=http://$address
}

stop_daemon() {
  [ -n "$daemon" ] || return 0
  # The process itself where a wrapper became it, else the wrapper's child.
  kill -TERM "$(pgrep -P "$daemon" -x backdrop || echo "$daemon")" 2>/dev/null || true
  wait "$daemon" || true
  daemon=
}

is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]; }

# cut_photo [PHOTO]
cut_photo() {
  curl --silent --show-error --fail --retry 5 --retry-connrefused -H "Authorization: Bearer $key" \
    -F file=@"${1:-tests/photos/astronaut.jpg}" "$url/remove" -o "$work/cutout.png"
  is_png "$work/cutout.png" || fail "the cutout is no PNG"
}

cut_clip() {
  ffmpeg -nostdin -loglevel error -y -loop 1 -i tests/photos/astronaut.jpg -t 0.2 -r 10 -vf scale=128:128 -pix_fmt yuv420p "$work/clip.mp4"
  local job status result
  job=$(curl --silent --show-error --fail -H "Authorization: Bearer $key" -F file=@"$work/clip.mp4" -F format=webm "$url/video/remove" | jq -er .job_id)
  for _ in $(seq 1200); do
    status=$(curl --silent --fail -H "Authorization: Bearer $key" "$url/jobs/$job")
    case $(jq -r .status <<<"$status") in
    done) break ;;
    error) fail "the clip failed: $status" ;;
    esac
    sleep 0.1
  done
  result=$(jq -er .result_url <<<"$status") || fail "the clip did not end: $status"
  case $result in http*) ;; *) result=$url$result ;; esac
  curl --silent --show-error --fail "$result" -o "$work/clip.webm"
  ffprobe -loglevel error -select_streams v -show_entries stream=codec_name -of csv=p=0 "$work/clip.webm" | grep -q vp9 || fail "the clip is no webm"
}

now() { date +%s.%N; }
# seconds_since TIME
seconds_since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f", to - from }'; }
