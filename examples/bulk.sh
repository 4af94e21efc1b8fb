#!/usr/bin/env bash
# Cuts out a whole prefix of object storage without a daemon, twice: the second run skips what is done.
#
#     examples/bulk.sh s3://shop/photos s3://shop/cutouts
#     examples/bulk.sh file:///data/photos file:///data/cutouts
#
# Credentials come from the environment (AWS_ACCESS_KEY_ID, …); see docs/bulk.md. BACKDROP names the binary.
set -euo pipefail
from=$1 to=$2
backdrop=${BACKDROP:-backdrop}

"$backdrop" bulk "$from" "$to" --dry-run
"$backdrop" bulk "$from" "$to" --set edge=hard --set max_dim=2000
"$backdrop" bulk "$from" "$to" --set edge=hard --set max_dim=2000
