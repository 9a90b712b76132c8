#!/bin/sh
# SPDX-License-Identifier: MIT
# Run the Kconfig parser in the current folder ($(O)) and refuse what it lets pass.
#   kconfig.sh sync                from .config, write auto.conf and autoconf.h
#   kconfig.sh defconfig FILE      a new .config from FILE, each line of which must take effect
#   kconfig.sh savedefconfig       write ./defconfig
#   kconfig.sh MODE                any other mode of the parser: oldconfig, randconfig, ...
#
# The parser exits with 0 after most complaints, drops unknown symbols and clamps values without a
# word. Here any word on its standard error, an unknown symbol and a line without effect are errors.
set -eu
: "${srctree:?}" "${CONF:=kconfig-conf}"
cfg=${KCONFIG_CONFIG:-.config}
words=include/config/words

if ! command -v "$CONF" >/dev/null 2>&1; then
	echo "*** $CONF is not installed (Debian: kconfig-frontends-nox)" >&2
	exit 1
fi
mkdir -p include/config include/generated

die() {
	echo "*** $*" >&2
	exit 1
}

# conf [ARGS...]: run the parser; what it says on standard error is an error
conf() {
	rc=0
	"$CONF" "$@" Kconfig 2>$words || rc=$?
	# randconfig announces its seed
	if grep -v '^KCONFIG_SEED=' $words >&2 || [ $rc != 0 ]; then
		die "the configuration is bad (above: what $CONF says)"
	fi
	grep '^KCONFIG_SEED=' $words || :
}

# known FILE: every symbol that FILE sets is declared in some Kconfig
known() {
	sed -n 's/^[[:space:]]*\(menu\)\{0,1\}config[[:space:]]\{1,\}\([A-Z0-9_]*\).*/\2/p' \
		"$srctree"/Kconfig "$srctree"/*/Kconfig "$srctree"/*/*/Kconfig \
		include/generated/Kconfig.probe 2>/dev/null | sort -u >include/config/symbols
	sed -n -e 's/^CONFIG_\([A-Za-z0-9_]*\)=.*/\1/p' \
		-e 's/^# CONFIG_\([A-Za-z0-9_]*\) is not set.*/\1/p' "$1" |
		sort -u >include/config/used
	unknown=$(comm -13 include/config/symbols include/config/used)
	[ -z "$unknown" ] || die "$1: unknown symbol:" $unknown
}

# effective FILE: every line of FILE is true in .config
effective() {
	bad=$(awk -v cfg="$cfg" '
		BEGIN { while ((getline line < cfg) > 0) have[line] = 1 }
		/^CONFIG_/ && !($0 in have) { print; next }
		/^# CONFIG_.* is not set/ && ($2 "=y" in have) { print; next }
		!/^#/ && !/^CONFIG_/ && NF { print }' "$1")
	[ -z "$bad" ] || { echo "$bad" >&2; die "$1: the lines above have no effect"; }
}

case $1 in
sync)
	known "$cfg"
	conf -s --olddefconfig
	KCONFIG_AUTOHEADER=include/generated/autoconf.h.new conf -s --silentoldconfig
	# written even when equal: keep the old one, or everything would be built again
	cmp -s include/generated/autoconf.h.new include/generated/autoconf.h ||
		cp include/generated/autoconf.h.new include/generated/autoconf.h
	touch include/config/auto.conf
	;;
defconfig)
	[ -f "$2" ] || die "there is no $2; known are:" $(cd "$srctree/configs" && ls)
	known "$2"
	# a bad one must not leave a configuration behind
	KCONFIG_CONFIG=include/config/trial conf -s --defconfig="$2"
	(cfg=include/config/trial; effective "$2")
	mv include/config/trial "$cfg"
	;;
savedefconfig)
	conf --savedefconfig=defconfig
	;;
*)
	[ ! -f "$cfg" ] || known "$cfg"
	if [ "$1" = oldconfig ]; then	# it asks questions: let it have the terminal
		exec "$CONF" --oldconfig Kconfig
	fi
	conf --"$1"
	;;
esac
