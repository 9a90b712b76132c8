#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/check.sh finds what it is there to find: each case breaks one thing in a small tree.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
make_toy
cp "$srctree/MAINTAINERS" "$toy/"
# the small tree is not as good as the real one
find "$toy" -name '*.[ch]' ! -path '*/build/*' ! -name 'npu_kselftest.h' ! -path '*/scripts/*' \
	-exec sed -i '1i /* SPDX-License-Identifier: MIT */' {} +
find "$toy" -name Makefile ! -path "$toy/Makefile" ! -path '*/selftests/*' \
	-exec sed -i '1i # SPDX-License-Identifier: MIT' {} +
sed -i '1i # SPDX-License-Identifier: MIT' "$toy/libnpu.map"

check() {	# check NAME: that check of the small tree
	O=$toy/build "$toy/scripts/check.sh" "$@" </dev/null
}

good() {	# good NAME: it passes
	check "$1" >"$work/said" 2>&1
	cat "$work/said"
	grep -q "^ok    $1" "$work/said"
}

# bad NAME TEXT FILE LINE...: with the lines at the end of FILE, the check fails and says TEXT
bad() {
	name=$1 text=$2 file=$3
	shift 3
	rm -f "$work/kept"
	mkdir -p "$(dirname "$toy/$file")"
	[ ! -f "$toy/$file" ] || cp "$toy/$file" "$work/kept"
	[ -f "$toy/$file" ] || [ "$name" = spdx ] ||
		echo '/* SPDX-License-Identifier: MIT */' >"$toy/$file"
	printf '%s\n' "$@" >>"$toy/$file"
	refuses "^FAIL  $name" check "$name" && grep -q -e "$text" "$work/said"
	rc=$?
	[ $rc = 0 ] || echo "it does not say: $text"
	rm "$toy/$file"
	[ ! -f "$work/kept" ] || mv "$work/kept" "$toy/$file"
	return $rc
}

real_tree() {	# by text alone; what compiles or parses is left to check-ci
	O=$objtree "$srctree/scripts/check.sh" --quick spdx style words shell layers map \
		contract errors comments maintained readme
}

self_included() {	# of any driver, without a line about it
	put drivers/other/new.c <<-'END'
		/* SPDX-License-Identifier: MIT */
		#include "drivers/other/other.h"
		#include "npu/types.h"
	END
	good layers
	rc=$?
	rm -r "$toy/drivers/other"
	return $rc
}

api='#define NPU_API __attribute__((visibility("default")))'

ok 'the real tree' real_tree
ok 'spdx: the tree passes' good spdx
ok 'spdx: a file without' bad spdx 'new.c: no SPDX' hal/new.c 'int x;'
ok 'spdx: a test on the harness under MIT' \
	bad spdx 'GPL-2.0-only' selftests/hal/t.c '/* SPDX-License-Identifier: MIT */' \
	'#include "selftests/npu_kselftest.h"'
ok 'spdx: GPL in the library' bad spdx 'GPL outside' hal/new.c \
	'/* SPDX-License-Identifier: GPL-2.0 */'
ok 'style: white space at the end' bad style 'white space' hal/new.c 'int x; '
ok 'style: a long line' bad style 'over 100' hal/new.c "/* $(printf '%0100d' 0) */"
ok 'style: spaces in front' bad style 'with spaces' hal/new.c '        int x;'
ok 'layers: the tree passes' good layers
for case in 'hal/new.c drivers/simnpu/simnpu.h' 'hal/new.c runtime/init.h' 'hal/new.c npu/npu.h' \
	'drivers/null/new.c runtime/init.h' 'drivers/null/new.c drivers/simnpu/simnpu.h' \
	'drivers/other/new.c drivers/null/null.h' 'drivers/new.c drivers/null/null.h' \
	'drivers/other/new.c npu/npu.h' \
	'drivers/simnpu/new.c drivers/simnpu/model/model.h' \
	'drivers/simnpu/model/new.c hal/stream.h' 'drivers/simnpu/kernels/new.c uapi/simnpu.h' \
	'runtime/new.c drivers/simnpu/simnpu.h' 'samples/new.c hal/stream.h' \
	'tools/new.c runtime/init.h' 'uapi/new.h hal/base.h' 'include/npu/new.h hal/base.h'; do
	ok "layers: ${case% *} includes ${case#* }" bad layers "must not include ${case#* }" \
		"${case% *}" "#include \"${case#* }\""
done
ok 'layers: a driver includes what is its own' self_included
ok 'layers: the back door in production code' bad layers 'for tests' runtime/new.c \
	'#include "drivers/simnpu/simnpu_test.h"'
ok 'layers: a header without its path' bad layers 'not a path from the top' hal/new.c \
	'#include "toy.h"'
ok 'layers: ops called outside hal' bad layers 'called by hal alone' runtime/new.c \
	'int x(void) { return s->ops->query(s); }'
ok 'map: declared and not listed' bad map 'npu_new: declared' include/npu/new.h "$api" \
	'NPU_API int npu_new(int (*fn)(void));'
ok 'map: listed and not declared' bad map 'npu_gone: in libnpu.map' libnpu.map '	npu_gone;'
put hal/contract.h <<'END'
/* SPDX-License-Identifier: MIT */
/* It does. [C-TOY-1] */
END
put selftests/hal/toy_test.c <<'END'
/* SPDX-License-Identifier: MIT */
/* C-TOY-1 */
END
ok 'contract: matches' good contract
ok 'contract: a sentence without a test' bad contract 'C-TOY-2: no test' hal/new.h '/* [C-TOY-2] */'
ok 'contract: a test without a sentence' bad contract 'C-TOY-3: a test' selftests/hal/b.c \
	'/* C-TOY-3 */'
ok 'contract: an id twice' bad contract 'two sentences' hal/new.h '/* [C-TOY-1] */'
put hal/catalogue.c <<'END'
/* SPDX-License-Identifier: MIT */
	CODE(EINVAL, "x", "y", "z"),
END
put selftests/errors.list <<'END'
# SPDX-License-Identifier: MIT
EINVAL hal/codes_test einval
END
put selftests/hal/codes_test.c <<'END'
/* SPDX-License-Identifier: MIT */
TEST(other)
{
	EXPECT_EQ(-ENOMEM, x());
}
TEST_F(toy, einval)
{
	EXPECT_EQ(-EINVAL, x());
}
END
ok 'errors: each code has its test' good errors
ok 'errors: a code that is given and not explained' bad errors 'ENOMEM: given' hal/new.c \
	'int x(void) { return hal_fail(-ENOMEM, "x", "y"); }'
ok 'errors: a code that the interface names and nobody explains' bad errors 'EIO: given' \
	include/npu/new.h '/* Return: 0, -EIO */'
ok 'errors: a code without a test' bad errors 'EPERM: no test' hal/catalogue.c \
	'	CODE(EPERM, "x", "y", "z"),'
ok 'errors: a code twice' bad errors 'twice: EINVAL' hal/catalogue.c \
	'	CODE(EINVAL, "x", "y", "z"),'
ok 'errors: a test that does not exist' bad errors 'no test hal/codes_test gone' \
	selftests/errors.list 'EINVAL hal/codes_test gone'
ok 'errors: a test of something else' bad errors 'other does not name it' \
	selftests/errors.list 'EINVAL hal/codes_test other'
ok 'errors: a test of no code' bad errors 'EIO: in selftests/errors.list' \
	selftests/errors.list 'EIO hal/codes_test einval'
ok 'headers: one that needs another first' bad headers 'alone' include/npu/new.h \
	'#ifndef NEW_H' '#define NEW_H' 'size_t npu_x(void);' '#endif'
if gcc -m32 -ffreestanding -fsyntax-only -x c - </dev/null 2>/dev/null; then
	put uapi/toy.h <<-'END'
		/* SPDX-License-Identifier: MIT */
		#include <linux/types.h>
		struct toy {
			__u64 a;
			__u32 b;
			__u32 pad;
		};
	END
	ok 'uapi: the same in 32 and 64 bits' good uapi
	ok 'uapi: a pointer' bad uapi 'struct new' uapi/new.h 'struct new {' '	void *p;' '};'
	ok 'uapi: alignment' bad uapi 'struct new' uapi/new.h '#include <linux/types.h>' \
		'struct new {' '	__u32 a;' '	__u64 b;' '};'
	ok 'uapi: an ioctl number' bad uapi 'TOY_IOCTL_X' uapi/new.h '#include <linux/ioctl.h>' \
		'struct new {' '	int a;' '};' '#define TOY_IOCTL_X _IOW(1, 2, long)'
fi
ok 'configs: a help of one line' bad configs 'help of two lines' hal/Kconfig \
	'config NEW' '	bool "new"' '	help' '	  One line.'
ok 'configs: a defconfig with an unknown symbol' bad configs 'NO_SUCH' configs/new_defconfig \
	CONFIG_NO_SUCH=y
ok 'shell: bash' bad shell 'does not start' scripts/new.sh '#!/bin/bash'
ok 'comments: the tree passes' good comments
ok 'comments: of a function in one line' bad comments 'new.h:2: the comment' include/npu/new.h \
	'/** npu_x() - it does. Return: 0 */'
ok 'comments: Return in the middle' bad comments 'new.h:5: "Return:"' hal/new.h \
	'/**' ' * x() - it does' ' *' ' * It does. Return: 0.' ' */'
find "$toy" -type f ! -path '*/build/*' -printf 'F: %P\n' >>"$toy/MAINTAINERS"
(cd "$toy" && sed -n '/^F: /s///p' MAINTAINERS | while read -r f; do
	[ -e "$f" ] || sed -i "\\|^F: $f\$|d" MAINTAINERS
 done)
ok 'maintained: the tree passes' good maintained
ok 'maintained: a file that is gone' bad maintained 'gone.c: no such' MAINTAINERS 'F: gone.c'
ok 'maintained: a file of no section' bad maintained 'libnpu.txt: in no section' libnpu.txt 'x'
in_toy simnpu_defconfig all >/dev/null 2>&1
ok 'symbols: the build passes' good symbols
ok 'symbols: listed and not there' bad symbols 'npu_gone' libnpu.map '	npu_gone;'
done_testing
