# Stand-in for OpenWrt's /lib/functions.sh: what wattle's scripts call, from how it is documented to behave.

# config_load NAME, config_get VARIABLE SECTION OPTION [DEFAULT]: from /etc/config/NAME as it lies there.
config_load() {
	UCI_FILE=/etc/config/$1
}

uci_values() {
	# SECTION OPTION KIND: the values, one a line
	section=
	while read -r word name value; do
		name=${name#\'} name=${name%\'} value=${value#\'} value=${value%\'}
		case "$word" in
		config) section=$value ;;
		"$3") [ "$section" = "$1" ] && [ "$name" = "$2" ] && echo "$value" ;;
		esac
	done <"$UCI_FILE"
	return 0
}

config_get() {
	got=$(uci_values "$2" "$3" option | tail -n 1)
	eval "$1=\${got:-\$4}"
}

config_get_bool() {
	config_get "$@"
	eval "got=\$$1"
	case "$got" in
	1 | on | true | yes | enabled) eval "$1=1" ;;
	*) eval "$1=0" ;;
	esac
}

config_list_foreach() {
	for got in $(uci_values "$1" "$2" list); do "$3" "$got"; done
}

add_group_and_user() {
	echo "add_group_and_user $pkgname" >>/tmp/record
}

# The services of a package are found by its list of files; they are enabled and started, also in an upgrade.
default_postinst() {
	for list in "/usr/lib/opkg/info/${pkgname:-wattle}.list" "/lib/apk/packages/${pkgname:-wattle}.list"; do
		[ -f "$list" ] || continue
		for script in $(grep '^/etc/init\.d/' "$list"); do
			"$script" enable
			"$script" start
		done
	done
}

default_prerm() {
	for script in $(cat /usr/lib/opkg/info/wattle.list /lib/apk/packages/wattle.list 2>/dev/null | grep '^/etc/init\.d/' | sort -u); do
		[ "$PKG_UPGRADE" = 1 ] || "$script" disable
		"$script" stop
	done
}
