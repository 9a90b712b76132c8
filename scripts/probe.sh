#!/bin/sh
# SPDX-License-Identifier: MIT
# Print a Kconfig file that says what this host's compiler and libraries can do.
set -u
cc=${CC:-gcc}

have() {	# have SYMBOL HEADER FLAGS...: does a program with HEADER link with FLAGS?
	sym=$1 header=$2
	shift 2
	if printf '%s\nint main(void) { return 0; }\n' "${header:+#include <$header>}" |
	   $cc -x c - -o /dev/null "$@" >/dev/null 2>&1; then
		ans=y
	else
		ans=n
	fi
	printf 'config %s\n\tdef_bool %s\n\n' "$sym" "$ans"
}

# Does the loader of the C library read packed relocations, and the linker write them?
have_packed_relocs() {
	printf '#include <features.h>\n#if !__GLIBC_PREREQ(2, 36)\n#error\n#endif\nint x;\n' |
		$cc -x c - -o /dev/null -shared -fPIC -Wl,--fatal-warnings \
			-Wl,-z,pack-relative-relocs >/dev/null 2>&1 && ans=y || ans=n
	printf 'config HAVE_PACKED_RELOCS\n\tdef_bool %s\n\n' "$ans"
}

echo '# SPDX-License-Identifier: MIT'
have HAVE_ASAN '' -fsanitize=address,undefined
have HAVE_TSAN '' -fsanitize=thread
have HAVE_ZLIB zlib.h -lz
have HAVE_STATIC '' -static
have HAVE_LIBURING liburing.h
have_packed_relocs
