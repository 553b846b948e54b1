# The targets that people type. What is built for the ring library is in ring/Makefile.
# Each works from a fresh clone; "make" alone prints the list.

PREFIX ?= /usr/local
export PATH := $(PATH):$(HOME)/.cargo/bin

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
RING := $(MAKE) --no-print-directory -f ring/Makefile
# As many compilers at once as there are CPUs, but where whoever runs make has said how many.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
USER := $(MAKE) --no-print-directory -f probe/user/Makefile
PRELOADED := $(MAKE) --no-print-directory -f probe/libc/Makefile
PROGRAMS := $(MAKE) --no-print-directory -f tests/programs/Makefile

# Gates look at the tree, tests of tools at the tools; each executable file is one test.
SYSTEM_TESTS = $(sort $(shell find tests -maxdepth 2 -type f -perm -u+x 2>/dev/null))
# Of them those that say in their head why nothing may run beside them.
ALONE_TESTS = $(shell grep -l '^\# Alone: ' $(SYSTEM_TESTS))
# Of the others those in a machine of their own, and what builds most: they take the longest.
EMULATED = $(filter tests/vm/%,$(SYSTEM_TESTS))
FUZZ = $(filter tests/fuzz/%,$(SYSTEM_TESTS))
GATES = $(sort $(shell find tools/gate tools/test -maxdepth 1 -type f -perm -u+x))
# Of them not beside others (see tools/run-tests): these measure, or build what the others use.
ALONE := tools/gate/install
# Cargo does one thing at a time in target/tests: this begins first, and compiles what rust_lint looks at, too.
FIRST := tools/gate/rust_test
# What these read, and how they are run: they say the same of the same sources, see tools/unchanged.
HEADERS := tools/unchanged abi/include ring/include probe/user/include tools/gate/headers -- tools/gate/headers
STACK := tools/unchanged probe/kernel ring/include abi/include crates/strata-kernel/build.rs tests/bpf_stack.py \
	tools/gate/kernel_stack -- tools/gate/kernel_stack
# Of the plan, what the quick tier leaves out: minutes of compilers, checkers, machines and measurements.
LONG := (gate/(install|kernel_stack)|tools/test/|cross-run|CHECK=|linking|/macros/|/lttng/|bench|attack/|fault/|fuzz/|vm/|interop/)
ONCE ?=
SAVE ?=
ONLY ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick soak build product libraries crates programs static check bench install clean fmt lint

help:
	@echo 'make demo               record a program, as root the kernel too, and show the trace (start here)'
	@echo 'make test ONLY=REGEX    run every test, or those whose command line fits'
	@echo 'make quick              run those that take seconds, before each commit'
	@echo 'make soak               sessions and programs that come, change and go, for half an hour or more'
	@echo 'make build              build everything into build/ and target/'
	@echo 'make static             target/release/strata-static: one file to copy into any guest or container'
	@echo 'make check              model checker, single-step test, SPIN model'
	@echo 'make bench              measure; SAVE=1 keeps the figures, ONCE=1 only shows that it works'
	@echo 'make install PREFIX=    the command, libstrata, headers, man pages (now $(PREFIX))'
	@echo 'make fmt                format C and Rust'
	@echo 'make lint               formatting, warnings, levels, words; no tests'
	@echo 'make setup              install what is missing (demo and test do it themselves)'
	@echo 'make clean              remove build/ and target/'

setup:
	@./setup

# Set-up first, then a second make: what it installs must be there when the rest is planned.
demo:
	@./setup
	+@$(USER) build
	+@$(MAKE) --no-print-directory crates
	@probe/user/demo/run
	@probe/kernel/demo/run

# What is run, in this order; see tools/run-tests.
# The longest first, and what runs alone in the end: then nothing is waited for.
PLAN = { printf '& %s\n' $(FIRST) $(EMULATED) && $(RING) -s list-tests && \
	printf '& %s\n' '$(HEADERS)' '$(STACK)' && \
	printf '& %s\n' $(FUZZ) $(filter-out $(ALONE) $(FIRST) tools/gate/headers tools/gate/kernel_stack,$(GATES)) \
		$(filter-out $(ALONE_TESTS) $(EMULATED) $(FUZZ),$(SYSTEM_TESTS)) && \
	$(USER) -s list-tests | grep '^&' && $(PRELOADED) -s list-tests && printf '%s\n' $(ALONE) && $(USER) -s list-tests | grep -v '^&' && \
	printf '%s\n' $(ALONE_TESTS); }

test:
	@./setup
	@$(MAKE) --no-print-directory build
	+@$(PLAN) >build/plan.list
	@grep -E -e '$(or $(ONLY),.)' build/plan.list >build/tests.list || { \
		echo "make test: ONLY='$(ONLY)': fits none of the command lines in build/plan.list." >&2; exit 2; }
	@$(if $(ONLY),ALWAYS=1) tools/run-tests -t 1800 - <build/tests.list

# Before each commit; what has changed is built. Of the crates' tests those beside the code: BRIEF=1.
quick: build
	+@$(PLAN) | grep -E -v -e '$(LONG)' >build/quick.list
	@BRIEF=1 tools/run-tests -t 600 - <build/quick.list

# Both at once: for a third of the time the crates keep one CPU busy.
build: libraries
	+@$(MAKE) --no-print-directory $(JOBS) crates programs

# Without the programs of the tests.
product: libraries
	+@$(MAKE) --no-print-directory crates

crates:
	@cargo build --release --offline --locked --quiet -p strata-cli

programs:
	+@mkdir -p build/tests && flock build/tests/.lock $(PROGRAMS) $(JOBS) build

libraries:
	+@$(RING) $(JOBS) build
	+@$(USER) $(JOBS) build
	+@$(PRELOADED) $(JOBS) build

# Nothing is compiled again; what the command needs of the system is linked into it.
static: product
	@cargo rustc --release --offline --locked --quiet -p strata-static -- -C target-feature=+crt-static

check:
	+@$(RING) check

# What `make test` does for some seconds, for ten minutes.
soak: build
	@SOAK_SECONDS=600 SOAK_SESSIONS=50 SOAK_PROCESSES=200 SOAK_THREADS=8 SOAK_GROUPS=4 SOAK_PERIOD_MS=200 \
		SOAK_LIFE_MS=60000 \
		tests/soak/sessions
	@SOAK_KILLS=500 tests/soak/kills
	@SOAK_SHORT=100000 tests/soak/processes

# Everything, one after the other; SAVE=1 also keeps what was printed, under the commit that it belongs to.
bench: build
	+@{ $(RING) -s list-benches && $(USER) -s list-benches && $(PRELOADED) -s list-benches; } | grep -v '^  ' >build/benches.list
	@tools/run-benches $(if $(ONCE),--once) $(if $(SAVE),--save) <build/benches.list

lint:
	@tools/run-tests -t 600 $(filter tools/gate/%,$(GATES))

fmt:
	@tools/gate/format --fix
	@cargo fmt --all

LIB = $(DESTDIR)$(PREFIX)/lib
SHARE = $(DESTDIR)$(PREFIX)/share
# For build systems that look for LTTng-UST; only who names this folder finds it.
OPT = $(LIB)/strata-lttng

# The ring's pkg-config file is the same for every architecture, hence share/; libstrata's are not.
install: product
	@case '$(DESTDIR)$(PREFIX)' in *[!A-Za-z0-9/._+-]*|[!/]*|'') \
		echo "make install: PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)': must be absolute, of A-Z a-z 0-9 / . _ + - only (pkg-config splits at others)." >&2; exit 2;; esac
	@for from in abi ring probe/user; do (cd $$from/include && \
		find strata -name '*.h' -exec install -D -m 644 {} '$(DESTDIR)$(PREFIX)/include/{}' \;); done
	@mkdir -p '$(SHARE)/pkgconfig' '$(LIB)/pkgconfig'
	@install -m 755 build/probe/user/libstrata.so.0 '$(LIB)/libstrata.so.0'
	@ln -sf libstrata.so.0 '$(LIB)/libstrata.so'
	+@for object in $$($(PRELOADED) -s list-objects); do \
		install -m 755 "build/probe/libc/$$object" "$(LIB)/$$object" || exit 2; done
	@install -m 644 build/probe/user/libstrata.a '$(LIB)/libstrata.a'
	@install -D -m 755 target/release/strata '$(DESTDIR)$(PREFIX)/bin/strata'
	@mkdir -p '$(SHARE)/man/man1' && target/release/strata man '$(SHARE)/man/man1'
	@for to in bash:bash-completion/completions/strata zsh:zsh/site-functions/_strata \
		fish:fish/vendor_completions.d/strata.fish; do \
		mkdir -p "$$(dirname "$(SHARE)/$${to#*:}")" && \
		target/release/strata completions "$${to%%:*}" >"$(SHARE)/$${to#*:}" || exit 2; done
	@for pc in ring/strata-ring.pc:$(SHARE) probe/user/strata.pc:$(LIB) probe/user/strata-lttng.pc:$(LIB); do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' $${pc%%:*}.in \
			>$${pc#*:}/pkgconfig/$$(basename $${pc%%:*}); done
	@mkdir -p '$(OPT)/include' '$(OPT)/lib/pkgconfig'
	@ln -sfn ../../../include/strata/lttng-compat/lttng '$(OPT)/include/lttng'
	@ln -sfn ../../../include/strata '$(OPT)/include/strata'
	@for name in lttng-ust lttng-ust-common; do \
		echo '/* Strata in the place of LTTng. */ INPUT($(PREFIX)/lib/libstrata.so)' >"$(OPT)/lib/lib$$name.so"; done
	@sed -e 's|@PREFIX@|$(PREFIX)|' probe/user/lttng-ust.pc.in >'$(OPT)/lib/pkgconfig/lttng-ust.pc'
	@mkdir -p '$(LIB)/systemd/system'
	@sed -e 's|@PREFIX@|$(PREFIX)|' crates/strata-cli/strata-session@.service.in >'$(LIB)/systemd/system/strata-session@.service'
	@echo 'installed to $(DESTDIR)$(PREFIX): bin/strata, lib/libstrata*, include/strata/, man pages, completions, pkg-config files, a systemd unit'

clean:
	rm -rf build target
