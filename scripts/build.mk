# SPDX-License-Identifier: MIT
# Reads the folders' Makefiles and holds the rules. Non-recursive: one make sees everything.
#
# A folder's Makefile may set (X-$(CONFIG_FOO) works as X-y everywhere):
#   obj-y         objects of the library, and folders to descend into (with a slash at the end)
#   hot-y         those of them that each task passes: compiled for speed, the others for size
#   subdir-y      folders to descend into, where there are no library objects
#   prog-y        programs; NAME-objs (default NAME.o), LDLIBS_NAME, NAME-internal := y to link
#                 the library's internals instead of its exported functions
#   modules-y     shared objects with kernels, NAME.so from NAME.c
#   test-y        test programs linked with the internals; NAME-objs and LDLIBS_NAME as above
#   test-so-y     test programs linked with the exported functions only
#   test-sh-y     test scripts, NAME.sh
#   test-alone-y  those of the above that must not run beside another
#   test-full-y   those of the above that only check-full runs
#   ccflags-y     flags for every object of this folder; CFLAGS_copy.o for one object
#
# Objects lie in $(O)/obj, mirroring the source tree; programs mirror it in $(O) itself.

VERSION := 0.1.0
SOVERSION := 0

comma := ,
empty :=

# ---- reading the folders ----
lists := obj hot subdir prog modules test test-so test-sh test-alone test-full
lib-objs :=
hot-objs :=
progs :=
modules :=
tests-c :=
tests-so :=
tests-sh :=
tests-alone :=
tests-full :=

# $(call norm,PATHS): without /../ and relative to $(objtree)
norm = $(patsubst $(objtree)/%,%,$(abspath $1))
assign = $(eval $1 := $2)

# $(call read-objs,DIR,OBJS): note per-object flags; results in the paths of the objects
read-objs = $(foreach o,$2,$(call read-flags,$(call norm,obj/$1$o),$o)$(call norm,obj/$1$o))
read-flags = $(if $(strip $(ccflags-y) $(CFLAGS_$2)),$(call \
	assign,cflags.$1,$(ccflags-y) $(CFLAGS_$2)))$(call assign,CFLAGS_$2,)

# $(call read-prog,DIR,NAME,KIND)
define read-prog
$(eval objs.$1$2 := $(call read-objs,$1,$(or $($2-objs),$2.o)))
$(eval libs.$1$2 := $(LDLIBS_$2))
$(eval kind.$1$2 := $(if $(filter y,$($2-internal)),internal,$3))
$(eval $2-objs :=)$(eval LDLIBS_$2 :=)$(eval $2-internal :=)
endef

# A test in an -alone or -full list that stands in no other is an ordinary one of its kind.
all-lists = $(test-y) $(test-so-y) $(test-sh-y)
more-tests = $(filter-out $(all-lists),$(sort $(test-alone-y) $(test-full-y)))

# $(call read-folder,DIR/)
define read-folder
$(foreach l,$(lists),$(foreach s,y n,$(eval $l-$s :=))$(eval $l- :=))
$(eval ccflags-y :=)
$(eval include $(srctree)/$1Makefile)
$(eval test-sh-y += $(filter %.sh,$(more-tests)))
$(eval test-y += $(more-tests))
$(eval lib-objs += $(call read-objs,$1,$(filter %.o,$(obj-y))))
$(eval hot-objs += $(call norm,$(addprefix obj/$1,$(hot-y))))
$(foreach p,$(prog-y),$(call read-prog,$1,$p,public))
$(foreach p,$(test-y),$(call read-prog,$1,$p,internal))
$(foreach p,$(test-so-y),$(call read-prog,$1,$p,public))
$(eval progs += $(addprefix $1,$(prog-y)))
$(foreach m,$(modules-y:.so=.o),$(call read-flags,$(call norm,obj/$1$m),$m))
$(eval modules += $(addprefix $1,$(modules-y)))
$(eval tests-c += $(addprefix $1,$(test-y)))
$(eval tests-so += $(addprefix $1,$(test-so-y)))
$(eval tests-sh += $(addprefix $1,$(test-sh-y)))
$(eval tests-alone += $(addprefix $1,$(test-alone-y)))
$(eval tests-full += $(addprefix $1,$(test-full-y)))
$(eval dirs.$1 := $(sort $(filter %/,$(obj-y) $(subdir-y))))
$(foreach d,$(dirs.$1),$(call read-folder,$1$d))
endef

lib-folders := $(patsubst $(srctree)/%Makefile,%,$(wildcard \
	$(foreach d,hal drivers runtime compat,$(srctree)/$(d)/Makefile)))
prog-folders := $(if $(CONFIG_TOOLS),tools/) $(if $(CONFIG_SAMPLES),samples/)
ifneq ($(CONFIG_SELFTESTS),)
prog-folders += selftests/
endif
$(foreach d,$(lib-folders),$(call read-folder,$d))
ours := $(lib-objs)
$(foreach d,$(prog-folders),$(call read-folder,$d))
ifneq ($(words $(ours)),$(words $(lib-objs)))
$(error obj-y names an object outside $(lib-folders): $(filter-out $(ours),$(lib-objs)))
endif

tests-built := $(tests-c) $(tests-so) $(tests-sh)
prog-objs := $(sort $(foreach p,$(progs) $(tests-c) $(tests-so),$(objs.$p)))
module-objs := $(modules:%.so=obj/%.o)
cold-objs := $(filter-out $(hot-objs),$(lib-objs))

# ---- flags ----
# flags that somebody gave are for all objects alike
ifeq ($(origin CFLAGS),undefined)
cold-cflags := -Os
endif
CFLAGS ?= $(if $(CONFIG_CC_OPTIMIZE_SIZE),-Os,-O2) -g
# every object tells libFuzzer where it goes
ifneq ($(filter fuzz fuzz-ioctl fuzz-weights,$(MAKECMDGOALS)),)
override CFLAGS += -fsanitize=fuzzer-no-link
endif
warnings := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wundef -Wvla -Werror
# gcc warns of fences under ThreadSanitizer, and loses track of values in instrumented code; what
# clang does not know of these it is told to ignore
warnings += $(if $(CONFIG_SANITIZE_NONE),,-Wno-unknown-warning-option -Wno-tsan \
	-Wno-maybe-uninitialized)
cxx-warnings := -Wall -Wextra -Wundef -Wvla -Werror
sanitize := $(if $(CONFIG_SANITIZE_ADDRESS),-fsanitize=address$(comma)undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer) \
	$(if $(CONFIG_SANITIZE_THREAD),-fsanitize=thread -fno-omit-frame-pointer)
# what debuggers unwind by is with the rest of what they need, and goes when a program is stripped
codegen := -pthread -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-strict-aliasing \
	-fno-common -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections \
	$(sanitize) $(if $(CONFIG_COVERAGE),--coverage)
kconfig-h := -Iinclude -include $(srctree)/scripts/kconfig.h
base-cflags := $(codegen) $(warnings) -std=gnu11

# The library, tests and tools see the whole tree; samples and modules what a user would see.
inner-cflags = $(base-cflags) -D_GNU_SOURCE $(kconfig-h) -I$(srctree) -I$(srctree)/include
outer-cflags = $(base-cflags) -I$(srctree)/include
test-cflags = $(inner-cflags) -Wno-missing-prototypes -Wno-unused-parameter \
	-isystem include/kselftest \
	-DTEST_SRCTREE='"$(srctree)"' -DTEST_OBJTREE='"$(objtree)"'
flags-of = $(if $(filter obj/samples/% $(module-objs),$1),$(outer-cflags),$(if \
	$(filter obj/selftests/%,$1),$(test-cflags),$(inner-cflags))) \
	$(CPPFLAGS) $(CFLAGS) $(if $(filter $1,$(cold-objs)),$(cold-cflags)) $(cflags.$1)

ldflags := -pthread $(sanitize) $(if $(CONFIG_COVERAGE),--coverage) -Wl,--as-needed \
	-Wl,--gc-sections
# code and constants share pages, which spares what fills up a page at each border;
# a relocation without a symbol, as in tables of ops, takes a bit and not 24 bytes when packed;
# clang leaves the sanitizers' functions to the program: no -z defs then
so-ldflags := $(if $(CONFIG_HAVE_PACKED_RELOCS),-Wl$(comma)-z$(comma)pack-relative-relocs) \
	-shared -Wl,-soname,libnpu.so.$(SOVERSION) -Wl,-z,nodelete -Wl,-z,noseparate-code \
	-Wl,--version-script=$(srctree)/libnpu.map \
	$(if $(strip $(sanitize)),,-Wl$(comma)-z$(comma)defs)
libs := -lpthread -ldl

# A change of compiler or flags builds everything again; one of the list of objects links again.
# $(call remember,FILE,TEXT): FILE holds TEXT, and is only written when that is new. Stripped: at
# some lengths make 4.3 reads the newline at the end, too.
same = $(if $(subst x$1,,x$2)$(subst x$2,,x$1),,y)
remember = $(if $(call same,$(strip $2),$(strip $(file <$1))),,$(file >$1,$2))
stamp := include/config/flags
$(call remember,$(stamp),$(CC) $(CXX) $(AR) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(base-cflags) \
	$(cold-cflags) $(hot-objs) $(ldflags) $(so-ldflags))
lib-list := include/config/objects
$(call remember,$(lib-list),$(lib-objs))
prog-list := include/config/programs
$(call remember,$(prog-list),$(foreach p,$(progs) $(tests-c) $(tests-so),$p $(objs.$p) \
	$(kind.$p) $(libs.$p);))

# ---- objects ----
harness := include/kselftest/kselftest_harness.h
define compile
	$(call say,CC,$(@:obj/%=%))
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(call flags-of,$@) -MMD -MP -MT $@ -c -o $@ $<
endef
obj/%.o: $(srctree)/%.c $(stamp) | include/config/auto.conf
	$(compile)
obj/selftests/%.o: $(srctree)/selftests/%.c $(stamp) | include/config/auto.conf $(harness)
	$(compile)
obj/%.o: $(srctree)/%.cpp $(stamp) | include/config/auto.conf
	$(call say,CXX,$*.o)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(filter-out -Wno-missing-prototypes,$(subst -std=gnu11,-std=gnu++17,$(subst \
		$(warnings),$(cxx-warnings),$(call flags-of,$@)))) -MMD -MP -MT $@ -c -o $@ $<
-include $(patsubst %.o,%.d,$(lib-objs) $(prog-objs) $(module-objs))

# Flags of one object stand in its folder's Makefile: built again when they change, come or go.
flags-file = include/config/flags-$(subst /,-,$1)
$(foreach o,$(lib-objs) $(prog-objs) $(module-objs),$(if \
	$(cflags.$o)$(wildcard $(call flags-file,$o)),$(call \
	remember,$(call flags-file,$o),$(strip $(cflags.$o)))$(eval $o: $(call flags-file,$o))))

# ---- the library ----
so := libnpu.so.$(SOVERSION)
$(so): $(lib-objs) $(lib-list) $(srctree)/libnpu.map
	$(call say,LD,$@)
	$(Q)$(CC) $(so-ldflags) $(ldflags) $(LDFLAGS) -o $@ $(lib-objs) $(libs)
libnpu.so: $(so)
	$(Q)ln -sf $(so) $@

# One relocatable object: no driver can be dropped by the linker, which finds no use of them.
libnpu-internal.o: $(lib-objs) $(lib-list)
	$(call say,LD,$@)
	$(Q)$(CC) -r -nostdlib -o $@ $(or $(lib-objs),-x c /dev/null)
# And for users of the static library no name but the exported ones.
obj/exports: $(srctree)/libnpu.map
	$(Q)mkdir -p $(@D)
	$(Q)sed -n 's/^[[:space:]]*\(npu_[a-z0-9_]*\);.*/\1/p' $< > $@
libnpu.o: libnpu-internal.o obj/exports
	$(Q)$(OBJCOPY) --keep-global-symbols=obj/exports $< $@
libnpu.a: libnpu.o
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $<

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR ?= $(PREFIX)/bin
pc-edit := -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|'
libnpu.pc: $(srctree)/libnpu.pc.in $(srctree)/scripts/build.mk
	$(Q)sed $(pc-edit) $< > $@

# ---- programs and tests ----
public-lib := $(if $(CONFIG_STATIC),libnpu.a,$(so))
# $(call up,a/b/c) is ../..
up = $(subst $(empty) ,/,$(patsubst %,..,$(subst /, ,$(patsubst %/,%,$(dir $1)))))
rpath = $(if $(filter $(so),$2),-Wl$(comma)-rpath$(comma)'$$ORIGIN/$(call up,$1):$$ORIGIN/../lib')
lib.public := $(public-lib)
lib.internal := libnpu-internal.o

$(foreach p,$(progs) $(tests-c) $(tests-so),$(eval $p: $(objs.$p) $(lib.$(kind.$p))))
$(if $(CONFIG_STATIC),$(foreach p,$(progs),$(eval static.$p := -static)))
$(progs) $(tests-c) $(tests-so): $(prog-list) $(stamp)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(if $(wildcard $(objs.$@:obj/%.o=$(srctree)/%.cpp)),$(CXX),$(CC)) $(static.$@) \
		$(ldflags) $(LDFLAGS) -o $@ $(objs.$@) $(lib.$(kind.$@)) \
		$(call rpath,$@,$(lib.$(kind.$@))) $(libs.$@) $(libs)

$(modules): %.so: obj/%.o $(stamp)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared $(ldflags) $(LDFLAGS) -o $@ $<

$(tests-sh): %: $(srctree)/%
	$(Q)mkdir -p $(@D)
	$(Q)install -m 755 $< $@

# The harness is under another licence and not part of the tree: fetched once, kept in a cache.
$(harness): $(srctree)/scripts/fetch-kselftest.sh $(srctree)/scripts/kselftest.sha256
	$(Q)$(srctree)/scripts/fetch-kselftest.sh $(@D)
$(tests-sh): | $(harness)

# TESTS='hal/* drivers/simnpu_ring_test': globs below selftests/
match = $(shell set -f; for t in $(tests-built:selftests/%=%); do for g in $(TESTS); do \
	case $$t in ($$g|$$g.sh) echo selftests/$$t; break;; esac; done; done)
chosen := $(if $(TESTS),$(match),$(tests-built))
# those that match none: a list that names what is gone must not pass for less than it says
stray = $(shell set -f; for g in $(TESTS); do for t in $(tests-built:selftests/%=%); do \
	case $$t in ($$g|$$g.sh) continue 2;; esac; done; echo $$g; done)
quick := $(filter-out $(tests-full),$(chosen))
# named in full, a long test runs in "make check" too
ifneq ($(TESTS),)
quick += $(filter $(addprefix selftests/,$(TESTS)),$(filter $(tests-full),$(chosen)))
endif
# BUILD_ARGS lets a test call this make again without making everything anew: what somebody gave,
# and not what is chosen here
given = $(foreach v,CROSS_COMPILE CC CXX CFLAGS CPPFLAGS LDFLAGS,$(if \
	$(filter file undefined,$(origin $v)),,$v='$($v)'))
run-tests = JOBS='$(JOBS)' BUILD_ARGS="srctree='$(srctree)' $(given)" \
	$(srctree)/scripts/run-tests.sh -p '$(filter-out $(tests-alone),$1)' \
	-a '$(filter $(tests-alone),$1)' -n '$(stray)'

all: $(if $(CONFIG_STATIC),,$(so) libnpu.so) libnpu.a libnpu.pc $(progs) \
	$(filter-out selftests/%,$(modules))
	@:
tests: tests-on all $(so) libnpu.so $(modules) $(chosen)
check: tests-on all $(so) libnpu.so $(modules) $(quick)
	+$(Q)$(call run-tests,$(quick))
check-long: tests-on all $(so) libnpu.so $(modules) $(chosen)
	+$(Q)$(call run-tests,$(chosen))
check-ci:
	+$(Q)$(srctree)/scripts/check-ci.sh ci
check-full:
	+$(Q)$(srctree)/scripts/check-ci.sh full
# ---- fuzzing ----
# In a folder of its own: make O=FOLDER CC=clang debug_defconfig fuzz; what is found lies in
# FOLDER/fuzz, and new inputs that reach further in FOLDER/fuzz/TARGET.
FUZZ_SECONDS ?= 60
fuzz-targets := ioctl weights
selftests/fuzz/ioctl_fuzz: obj/selftests/fuzz/ioctl_args.o
$(fuzz-targets:%=selftests/fuzz/%_fuzz): selftests/fuzz/%_fuzz: obj/selftests/fuzz/%_fuzz.o \
		libnpu-internal.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -fsanitize=fuzzer $(ldflags) $(LDFLAGS) -o $@ $^ $(libs)
fuzz: $(fuzz-targets:%=fuzz-%)
$(fuzz-targets:%=fuzz-%): fuzz-%: selftests/fuzz/%_fuzz
	$(Q)mkdir -p fuzz/$*
	$(Q)$< -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=60 -rss_limit_mb=4096 \
		-print_final_stats=1 -artifact_prefix=fuzz/$*- $(FUZZ_ARGS) fuzz/$* \
		$(srctree)/selftests/fuzz/corpus/$*
# The cache of device memory against a model of it: OPS random operations from SEED on.
memory-fuzz := selftests/fuzz/memory_fuzz_long_test
fuzz-memory: tests-on $(memory-fuzz)
	$(Q)MEM_FUZZ_OPS='$(OPS)' MEM_FUZZ_SEED='$(SEED)' $(memory-fuzz)
.PHONY: fuzz $(fuzz-targets:%=fuzz-%) fuzz-memory
tests-on:
	@$(if $(CONFIG_SELFTESTS),:,echo '*** CONFIG_SELFTESTS is not set' >&2; exit 1)
.PHONY: tests tests-on check check-long check-ci check-full demo retrain docs install uninstall

# ---- the demo ----
fm := samples/fashion_mnist
demo retrain docs: export LD_LIBRARY_PATH := $(objtree)
demo: all
	$(Q)$(fm)/infer $(ARGS)
retrain: all
	$(Q)$(fm)/train --out $(fm)/weights.bin $(ARGS)
	$(if $(ARGS),,@cmp $(fm)/weights.bin $(srctree)/$(fm)/weights.bin && \
		echo "the same weights as the shipped ones, bit by bit")

# ---- generated documentation ----
generators := gen-options gen-errors
$(generators): %: obj/%
gen-docs: $(generators)
# $(call generate,NAME,COMMAND): Documentation/NAME.rst is what COMMAND prints
define generate
	$(call say,GEN,Documentation/$1.rst)
	$(Q)$2 > $1.rst
	$(Q)cmp -s $1.rst $(srctree)/Documentation/$1.rst || \
		cp $1.rst $(srctree)/Documentation/$1.rst
endef
docs: gen-docs
	$(call generate,options,obj/gen-options)
	$(call generate,errors,obj/gen-errors $(srctree)/selftests/errors.list)
$(generators:%=obj/%): obj/%: obj/scripts/%.o $(public-lib)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) $(LDFLAGS) -o $@ $^ $(libs)
-include $(generators:%=obj/scripts/%.d)
.PHONY: gen-docs $(generators)

# ---- installing ----
headers := $(notdir $(wildcard $(srctree)/include/npu/*.h $(srctree)/include/npu/*.hpp))
bins := $(filter tools/%,$(progs))
to = $(DESTDIR)$1
install: all $(so) libnpu.so
	$(Q)install -d $(call to,$(LIBDIR))/pkgconfig $(call to,$(INCLUDEDIR))/npu \
		$(if $(bins),$(call to,$(BINDIR)))
	$(Q)install -m 755 $(so) $(call to,$(LIBDIR))
	$(Q)ln -sf $(so) $(call to,$(LIBDIR))/libnpu.so
	$(Q)install -m 644 libnpu.a $(call to,$(LIBDIR))
	$(Q)sed $(pc-edit) $(srctree)/libnpu.pc.in > $(call to,$(LIBDIR))/pkgconfig/libnpu.pc
	$(Q)cd $(srctree)/include/npu && install -m 644 $(headers) $(call to,$(INCLUDEDIR))/npu
	$(if $(bins),$(Q)install -m 755 $(bins) $(call to,$(BINDIR)))
	@echo "installed in $(call to,$(PREFIX))"
uninstall:
	$(Q)rm -f $(addprefix $(call to,$(LIBDIR))/,$(so) libnpu.so libnpu.a pkgconfig/libnpu.pc) \
		$(addprefix $(call to,$(INCLUDEDIR))/npu/,$(headers)) \
		$(addprefix $(call to,$(BINDIR))/,$(notdir $(bins)))
	$(Q)rmdir $(call to,$(INCLUDEDIR))/npu 2>/dev/null || :
