#!/bin/sh
# SPDX-License-Identifier: MIT
# bootstrap.sh installs what is missing and no more, and says what it cannot install.
. "${srctree:?run me by make check}/selftests/build/lib.sh"

tree=$work/tree
bin=$work/bin
mkdir -p "$tree" "$bin"
cp "$srctree/bootstrap.sh" "$tree/"

# A machine: $work/installed lists its packages, $work/calls what was asked of it.
fake() {
	cat >"$bin/$1"
	chmod +x "$bin/$1"
}
fake dpkg-query <<END
#!/bin/sh
for p; do :; done
grep -qx -e "\$p" "$work/installed" && printf installed
END
fake apt-get <<END
#!/bin/sh
echo "apt-get \$*" >>"$work/calls"
[ -e "$work/broken" ] && exit 100
for p; do
	case \$p in -*|update|install) ;; *) echo \$p >>"$work/installed" ;; esac
done
exit 0
END
fake make <<END
#!/bin/sh
echo "make \$*" >>"$work/calls"
case "\$*" in *_defconfig) mkdir -p "$tree/build" && touch "$tree/build/.config" ;; esac
END
fake id <<END
#!/bin/sh
cat "$work/uid"
END
fake sudo <<END
#!/bin/sh
[ -e "$work/sudoer" ] || exit 1
[ "\$1" = -n ] && exit 0
echo "sudo \$1" >>"$work/calls"
exec "\$@"
END

machine() {	# machine UID PACKAGES...: a new one
	rm -rf "$tree/build" "$work/sudoer" "$work/broken"
	: >"$work/calls"
	echo "$1" >"$work/uid"
	shift
	printf '%s\n' "$@" >"$work/installed"
}

bootstrap() {
	PATH=$bin:$PATH "$tree/bootstrap.sh" "$@" </dev/null
}

packages() {
	"$tree/bootstrap.sh" packages "$1"
}

called() {	# called PATTERN...: each in $work/calls
	for p; do
		grep -q -e "$p" "$work/calls" && continue
		echo "not called: $p"
		cat "$work/calls"
		return 1
	done
}

not_called() {
	! grep -e "$1" "$work/calls"
}

fresh() {
	machine 0 base-files
	bootstrap demo && called 'apt-get.*update' 'apt-get.* install .*kconfig-frontends-nox' \
		'make .*simnpu_defconfig' 'make .*all' 'make .*demo'
}

second() {
	: >"$work/calls"
	bootstrap demo && not_called apt-get && not_called defconfig && called 'make .*demo'
}

one_missing() {
	machine 0 $(packages check | tr ' ' '\n' | grep -vx perl)
	bootstrap check && called 'install perl$' 'make .*check'
}

by_sudo() {
	machine 1000 base-files
	touch "$work/sudoer"
	bootstrap demo && called 'sudo env' 'apt-get.* install '
}

helpless() {
	machine 1000 $(packages demo | tr ' ' '\n' | grep -vx make)
	refuses 'neither root nor sudo.*: make' bootstrap demo && not_called .
}

no_root_needed() {
	machine 1000 $(packages check)
	bootstrap check && not_called apt-get && not_called sudo && called 'make .*check'
}

keeps_config() {
	machine 0 $(packages demo)
	mkdir -p "$tree/build" && touch "$tree/build/.config"
	bootstrap demo && not_called defconfig
}

no_debian() {	# a machine without apt goes on with what it has
	machine 1000
	mv "$bin/dpkg-query" "$work/"
	mkdir -p "$work/few"
	for c in sh sed id make dirname nproc mkdir touch cat; do
		[ -e "$bin/$c" ] || ln -sf "$(command -v $c)" "$work/few/$c"
	done
	PATH=$bin:$work/few "$tree/bootstrap.sh" demo >"$work/said" 2>&1
	rc=$?
	mv "$work/dpkg-query" "$bin/"
	cat "$work/said"
	[ $rc = 0 ] && grep -q 'no Debian.*kconfig-frontends-nox' "$work/said" &&
		called 'make .*demo'
}

broken_apt() {
	machine 0 base-files
	touch "$work/broken"
	! bootstrap demo && not_called '^make '
}

failing_tests() {	# the exit status of make is that of bootstrap.sh
	machine 0 $(packages check)
	cp "$bin/make" "$work/make"
	printf 'case "$*" in *check) exit 3 ;; esac\n' >>"$bin/make"
	bootstrap check
	rc=$?
	mv "$work/make" "$bin/make"
	is 3 $rc
}

ok 'a fresh machine: installs, configures, builds, runs' fresh
ok 'a second run installs and configures nothing' second
ok 'installs only what is missing' one_missing
ok 'by sudo' by_sudo
ok 'without root and sudo: names what is missing' helpless
ok 'without root, all there' no_root_needed
ok 'a configuration that is there is kept' keeps_config
ok 'a machine that is no Debian' no_debian
ok 'a package that cannot be installed fails' broken_apt
ok 'failing tests fail' failing_tests
ok 'an unknown word' refuses 'bootstrap.sh demo' bootstrap nonsense
ok 'no word' refuses 'bootstrap.sh demo' bootstrap
done_testing
