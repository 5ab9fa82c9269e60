#!/bin/sh
# Starts a node for the benchmark: node.sh CONFIG SIDE. The keys beside this script are for nothing else.
here=$(cd "$(dirname "$0")" && pwd)
chmod 600 "$here"/*.key
sed -i "s#@HERE@#$here#" "$1"
exec "${WATTLE:-$here/../../target/release/wattle}" run --config "$1"
