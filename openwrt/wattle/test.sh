#!/bin/sh
# Called by the feed's CI in an image of the target: test.sh PACKAGE VERSION

case "$1" in
wattle)
	wattle --version | grep -F "wattle $2" || exit 1
	wattle keygen /etc/wattle/node.key || exit 1
	wattle check /etc/wattle/wattle.json
	;;
esac
