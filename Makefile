# SPDX-License-Identifier: MIT
# The build of libnpu. Everything that is made lands in $(O) (default: build/); the source tree is
# never written. "make help" lists the targets; scripts/build.mk holds the rules.

ifneq ($(origin srctree),command line)
# ---- started by a person: enter $(O), then read this file again there ----
ifneq ($(words $(CURDIR)),1)
$(error the path of the source tree must not contain spaces)
endif
O ?= build
goals := $(or $(MAKECMDGOALS),all)
config-goals := %config clean distclean help
# "make simnpu_defconfig all": one goal after the other, as the second reads what the first writes
mixed := $(and $(filter $(config-goals),$(goals)),$(filter-out $(config-goals),$(goals)))
.PHONY: $(goals) _sub
$(goals): _sub
	@:
_sub:
	@mkdir -p $(O)
	+@set -e; for g in $(if $(mixed),$(goals),"$(goals)"); do \
		$(MAKE) --no-print-directory -C $(O) -f $(CURDIR)/Makefile srctree=$(CURDIR) $$g; \
	done
Makefile: ;

else
# ---- inside $(O) ----
MAKEFLAGS += -rR
objtree := $(CURDIR)
Q := $(if $(filter-out 0,$(V)),,@)
say = @printf '  %-7s %s\n' '$(1)' '$(2)'
export srctree objtree
unexport CONFIG_	# set in the environment, it would be every symbol's prefix
export KCONFIG_CONFIG := .config
export CONF ?= kconfig-conf
MCONF ?= kconfig-mconf

# make's built-in CC is "cc" of origin "default"; without -R's tables there is none
ifneq ($(filter default undefined,$(origin CC)),)
CC := $(CROSS_COMPILE)gcc
endif
ifneq ($(filter default undefined,$(origin CXX)),)
CXX := $(CROSS_COMPILE)g++
endif
AR := $(CROSS_COMPILE)ar
OBJCOPY := $(CROSS_COMPILE)objcopy
export CC CXX

all:
.PHONY: all FORCE
FORCE:
.DELETE_ON_ERROR:

# ---- configuration (scripts/kconfig.sh makes every word of the parser an error) ----
$(shell mkdir -p include/config include/generated)	# conf does not make them
kconfig := $(srctree)/scripts/kconfig.sh
probe := include/generated/Kconfig.probe

# The 4.11 language has no $(shell ...): what the host can do is handed over as a Kconfig file.
$(probe): FORCE
	$(Q)$(srctree)/scripts/probe.sh > $@.new; \
		if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

conf-goals := oldconfig olddefconfig allnoconfig allyesconfig alldefconfig randconfig listnewconfig
.PHONY: $(conf-goals) defconfig menuconfig savedefconfig clean distclean help
$(conf-goals): $(probe)
	$(Q)$(kconfig) $@
menuconfig: $(probe)
	$(Q)$(MCONF) Kconfig
savedefconfig: $(probe)
	$(Q)$(kconfig) savedefconfig
	@echo "wrote $(objtree)/defconfig"
defconfig: simnpu_defconfig ;
%_defconfig: $(probe)
	$(Q)$(kconfig) defconfig $(srctree)/configs/$@

ifeq ($(filter %config clean distclean help,$(MAKECMDGOALS)),)
ifeq ($(wildcard .config),)
$(error There is no configuration: run 'make defconfig' or 'make menuconfig' first)
endif
kconfigs := $(filter-out $(objtree)/%,$(wildcard $(foreach d,/ /*/ /*/*/,$(srctree)$(d)Kconfig)))
include/config/auto.conf: .config $(kconfigs) $(probe) $(kconfig)
	$(Q)$(kconfig) sync
include/generated/autoconf.h: include/config/auto.conf ;

include include/config/auto.conf
include $(srctree)/scripts/build.mk
endif

made := obj include lib tools samples selftests ci full libnpu.so libnpu.so.0 libnpu.a libnpu.o \
	libnpu-internal.o libnpu.pc options.rst errors.rst
clean:
	$(Q)rm -rf $(made)
distclean:
	$(Q)rm -rf $(made) .config .config.old defconfig

help:
	@sed -n 's/^#h \{0,1\}//p' $(srctree)/scripts/help.txt
endif
