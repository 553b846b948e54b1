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
# Of the others those in a machine of their own, and those that read the largest files: they take the longest. The oldest
# kernel's verifier refuses what newer ones load, which is found nowhere else: it is the one of the six that `make test`
# boots.
EMULATED = $(filter tests/vm/% tests/fault/growth,$(SYSTEM_TESTS))
GATES = $(sort $(shell find tools/gate tools/test -maxdepth 1 -type f -perm -u+x))
# Of them not beside others (see tools/run-tests): these measure, or build what the others use.
ALONE := tools/gate/install
# Cargo does one thing at a time in target/debug: the first compiles what the others wait for.
FIRST := tools/gate/rust_test
# What these read, and how they are run: they say the same of the same sources, see tools/unchanged.
HEADERS := tools/unchanged abi/include ring/include probe/user/include tools/gate/headers -- tools/gate/headers
STACK := tools/unchanged probe/kernel ring/include abi/include crates/strata-kernel/build.rs tests/bpf_stack.py \
	tools/gate/kernel_stack -- tools/gate/kernel_stack
PAGE_GATE := tools/unchanged ui/src ui/test $(wildcard ui/*.json ui/*.jsonc) crates/strata-ui/page/app.js tools/gate/page -- tools/gate/page
# Of the plan, what only `make nightly` runs: other architectures, the ring's checkers (`make check` is for changes of
# ring/ and abi/), five of six machines, libFuzzer, which needs all crates once more, and benchmarks, which need the
# release. CONTRIBUTING.md says which faults are found later for it.
NIGHTLY := (cross-run|CHECK=(model|step|spin|guest)|vm/(arm64|boot|guests|kernel|module)|fuzz/run|--once)
# And what `make quick` runs: what is said of the text, tests of one process, and recordings that wait for no time.
QUICK := (gate/(format|golden|invariants|json|levels|links|page|prose|ring_api|rust_|shell_syntax|sleep|words)|build/ring/test/(one_section|client|config|iterate|malicious|memory|open|read|record|recover)\b|e2e/(contexts|exit_status|golden|filter|rules|sessions|spans|stats|terminal|view|view_short)$$)
ONCE ?=
SAVE ?=
ONLY ?=

.DEFAULT_GOAL := help
PAGE := crates/strata-ui/page/app.js

.PHONY: book packaging page help setup demo test quick nightly soak zoo fleet build built product dist release libraries crates words bindings parquet programs static dist-static check bench bench-report install uninstall clean fmt lint

help:
	@echo 'make demo               record a program, as root the kernel too, and show the trace (start here)'
	@echo 'make quick              gates, unit tests and some recordings, before each commit'
	@echo 'make test ONLY=REGEX    run every test, or those whose command line fits'
	@echo 'make nightly            what make test leaves out: other machines, SPIN, benchmarks, long fuzzing'
	@echo 'make soak               sessions and programs that come, change and go, for half an hour or more'
	@echo 'make zoo                programs that nobody here wrote, recorded in every way; before each release'
	@echo 'make fleet              the queries of docs/guide/fleet.md by SQLite, DuckDB and Spark, and the notebook; HOSTS=50'
	@echo 'make build              build what is tested into build/ and target/debug'
	@echo 'make product            build what is installed; the command is optimized and takes minutes'
	@echo 'make dist               build/dist/strata-VERSION.tar.xz: sources and all crates, to build packages of offline'
	@echo 'make static             target/dist/strata-static: one file to copy into any guest or container'
	@echo 'make dist-static        build/dist/strata-VERSION-MACHINE-linux.tar.xz: that file, with manual pages and licences'
	@echo 'make check              model checker, single-step test, SPIN model'
	@echo 'make bench              measure; SAVE=1 keeps the figures, ONCE=1 only shows that it works'
	@echo 'make bench-report       the experiments of the papers with all peers, as one page; ONCE=1 in minutes, ONLY=1,12'
	@echo 'make install PREFIX=    the command, libstrata, headers, man pages (now $(PREFIX))'
	@echo 'make fmt                format C and Rust'
	@echo 'make lint               formatting, warnings, levels, words; no tests'
	@echo 'make setup              install what building and testing need (demo and test do what they need)'
	@echo 'make page               build the page of strata ui, after a change in ui/ (needs Node)'
	@echo 'make book               build/book: the documents and the reference as HTML pages (compiles mdBook the first time)'
	@echo 'make packaging          what is shipped beside Debian packages, checked by rpmlint, runc, abidiff and others'
	@echo 'make clean              remove build/ and target/'

setup:
	@./setup --tests

# Set-up first, then a second make: what it installs must be there when the rest is planned. The command takes longest, and
# leaves a CPU idle for a part of that time.
demo:
	@./setup
	+@$(MAKE) --no-print-directory $(JOBS) crates words
	@probe/user/demo/run
	@probe/kernel/demo/run

# What is run, in this order; see tools/run-tests.
# The longest first, and what runs alone in the end: then nothing is waited for.
PLAN = { printf '& %s\n' $(FIRST) $(EMULATED) && $(RING) -s list-tests && \
	printf '& %s\n' '$(HEADERS)' '$(STACK)' '$(PAGE_GATE)' && \
	printf '& %s\n' $(filter-out $(ALONE) $(FIRST) tools/gate/headers tools/gate/kernel_stack tools/gate/page,$(GATES)) \
		$(filter-out $(ALONE_TESTS) $(EMULATED),$(SYSTEM_TESTS)) && \
	$(USER) -s list-tests | grep '^&' && $(PRELOADED) -s list-tests && printf '%s\n' $(ALONE) && $(USER) -s list-tests | grep -v '^&' && \
	printf '%s\n' $(ALONE_TESTS); }

# With ONLY= also of what else only `make nightly` runs.
test:
	@./setup --tests
	@$(MAKE) --no-print-directory build
	+@$(PLAN) >build/plan.list
	@grep -E $(if $(ONLY),-e '$(ONLY)',-v -e '$(NIGHTLY)') build/plan.list >build/tests.list || { \
		echo "make test: ONLY='$(ONLY)': fits none of the command lines in build/plan.list." >&2; exit 2; }
	+@! grep -q -e --once build/tests.list || $(MAKE) --no-print-directory release
	@$(if $(ONLY),ALWAYS=1) tools/run-tests -t 1800 - <build/tests.list

# Before each commit; what has changed is built. Of the crates' tests those beside the code: BRIEF=1.
quick: build
	+@$(PLAN) | grep -E -e '$(QUICK)' >build/quick.list
	@BRIEF=1 tools/run-tests -t 600 - <build/quick.list

# The rest, when its sources have changed, and before a release. The installation is that of `make install`.
nightly:
	@./setup --tests
	@$(MAKE) --no-print-directory build release
	@bench/report/setup
	+@$(PLAN) | grep -E -e '$(NIGHTLY)' >build/nightly.list
	+@$(MAKE) --no-print-directory product static
	@{ sed 's|fuzz/run$$|& --seconds 60|' build/nightly.list; echo 'env PROFILE=dist tools/gate/install'; \
		echo 'tests/fleet/tools/run'; echo 'tools/check-packaging'; printf 'env ALL=1 %s\n' probe/user/test/macros/run tests/fault/damaged tests/fault/growth tests/interop/constructs tests/interop/ctf2 tests/interop/debug_names; } | \
		ALWAYS=1 tools/run-tests -t 3600 -
	+@$(MAKE) --no-print-directory soak

# Both at once: for a third of the time the crates keep one CPU busy.
build: libraries
	+@$(MAKE) --no-print-directory $(JOBS) crates programs bindings parquet

# What is installed, without the programs of the tests. Variables of `make install` such as DESTDIR are not for the makefile of
# libbpf, which cargo runs. PROFILE=dev: the command that `make build` makes.
PROFILE ?= dist
COMPILED := target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
product:
	+@$(USER) $(JOBS) build/probe/user/libstrata.so.0 build/probe/user/libstrata.a
	+@$(PRELOADED) $(JOBS) build
	@MAKEFLAGS= cargo build --profile $(PROFILE) --offline --locked --quiet -p strata-cli
	@MAKEFLAGS= cargo build --profile $(PROFILE) --offline --locked --quiet -p strata-parquet

# The same commit gives the same file.
dist:
	@tools/dist

# What is measured.
release: libraries
	@cargo build --release --offline --locked --quiet -p strata-cli

built:
	@for file in $(COMPILED)/strata $(COMPILED)/strata-parquet build/probe/user/libstrata.so.0 build/probe/user/libstrata.a; do \
		[ -f "$$file" ] || { echo "make install: '$$file' is not built, this folder belongs to user $(OWNER), and root would run" \
			"what that user has written. Run 'make product' as that user, then 'make install' as root. If you trust all that" \
			"is in it: make install BUILD_AS_ROOT=1" >&2; exit 2; }; done

crates:
	+@cargo build --offline --locked --quiet -p strata-cli

# The program that the demonstrations record.
words:
	+@$(USER) build/probe/user/demo/words

# Python's module: after the command, since cargo does one thing at a time.
bindings: crates
	@cargo build --offline --locked --quiet -p strata-python

parquet: crates
	@cargo build --offline --locked --quiet -p strata-parquet

programs:
	+@mkdir -p build/tests && flock build/tests/.lock $(PROGRAMS) $(JOBS) build

libraries:
	+@$(RING) $(JOBS) build
	+@$(USER) $(JOBS) build
	+@$(PRELOADED) $(JOBS) build

# Nothing is compiled again; what the command needs of the system is linked into it.
static: product
	@cargo rustc --profile $(PROFILE) --offline --locked --quiet -p strata-static -- -C target-feature=+crt-static

# The same file, with manual pages, completions and licences, as an archive.
dist-static: static
	@STRATA_STATIC=$(COMPILED)/strata-static tools/dist-static

# Installs the programs first, which takes root. The table is that of docs/design/zoo.md.
zoo: build
	@tests/zoo/tools/setup
	@tests/zoo/run --all --table build/zoo.md

# Takes half a gigabyte from PyPI the first time, and Java 17.
fleet: crates
	@HOSTS='$(HOSTS)' MASTERS='$(MASTERS)' tests/fleet/tools/run

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
bench: build release
	+@{ $(RING) -s list-benches && $(USER) -s list-benches && $(PRELOADED) -s list-benches; } | grep -v '^  ' >build/benches.list
	@tools/run-benches $(if $(ONCE),--once) $(if $(SAVE),--save) <build/benches.list

# The page is build/bench/report/index.html. What was measured at this commit is not measured again.
bench-report: build release
	@bench/report/setup
	@bench/report/run $(if $(ONCE),--once) $(if $(ONLY),--only $(ONLY))

lint:
	@tools/run-tests -t 600 $(filter tools/gate/%,$(GATES))

fmt:
	@tools/gate/format --fix
	@cargo fmt --all

# Packages of a distribution name folders of their own (debian/rules): of libraries, of what --libc preloads (below the
# command's "../lib" or "../lib/strata", where it looks), and of systemd's units.
LIBDIR ?= $(PREFIX)/lib
OBJECTDIR ?= $(PREFIX)/lib
UNITDIR ?= $(PREFIX)/lib/systemd/system
LIB = $(DESTDIR)$(LIBDIR)
OBJECTS = $(DESTDIR)$(OBJECTDIR)
SHARE = $(DESTDIR)$(PREFIX)/share
# For build systems that look for LTTng-UST; only who names this folder finds it.
OPT = $(DESTDIR)$(PREFIX)/lib/strata-lttng

# Whatever the caller's umask is, others can read what is installed, and only its owner can change it.
# The ring's pkg-config file is the same for every architecture, hence share/; libstrata's are not.
# Root builds nothing in a tree of another user: to build is to run what is in it. What that user has built is installed.
OWNER := $(shell stat -c %u Makefile)
UNITS = strata-session@.service strata-relayd.service

install: $(if $(and $(filter 0,$(shell id -u)),$(filter-out 0,$(OWNER)),$(if $(BUILD_AS_ROOT),,refuse)),built,product)
	@case '$(DESTDIR)$(PREFIX)' in *[!A-Za-z0-9/._+-]*|[!/]*|'') \
		echo "make install: PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)': must be absolute, of A-Z a-z 0-9 / . _ + - only (pkg-config splits at others)." >&2; exit 2;; esac
	@umask 022; for from in abi ring probe/user; do (cd $$from/include && \
		find strata -name '*.h' -exec install -D -m 644 {} '$(DESTDIR)$(PREFIX)/include/{}' \;); done
	@umask 022; mkdir -p '$(SHARE)/pkgconfig' '$(LIB)/pkgconfig' '$(OBJECTS)'
	@umask 022; install -m 755 build/probe/user/libstrata.so.0 '$(LIB)/libstrata.so.0'
	@ln -sf libstrata.so.0 '$(LIB)/libstrata.so'
	@[ '$(LIBDIR)' = '$(OBJECTDIR)' ] || ln -sfr '$(LIB)/libstrata.so.0' '$(OBJECTS)/libstrata.so.0'
	+@umask 022; for object in $$($(PRELOADED) -s list-objects); do \
		install -m 755 "build/probe/libc/$$object" "$(OBJECTS)/$$object" || exit 2; done
	@umask 022; mkdir -p '$(OBJECTS)/strata-preload' && cp -RP build/probe/libc/strata-preload/* '$(OBJECTS)/strata-preload/'
	@umask 022; install -m 644 build/probe/user/libstrata.a '$(LIB)/libstrata.a'
	@umask 022; install -D -m 755 $(COMPILED)/strata '$(DESTDIR)$(PREFIX)/bin/strata'
	@umask 022; install -m 755 $(COMPILED)/strata-parquet '$(DESTDIR)$(PREFIX)/bin/strata-parquet'
	@umask 022; mkdir -p '$(SHARE)/man/man1' && $(COMPILED)/strata man '$(SHARE)/man/man1'
	@umask 022; for to in bash:bash-completion/completions/strata zsh:zsh/site-functions/_strata \
		fish:fish/vendor_completions.d/strata.fish; do \
		mkdir -p "$$(dirname "$(SHARE)/$${to#*:}")" && \
		$(COMPILED)/strata completions "$${to%%:*}" >"$(SHARE)/$${to#*:}" || exit 2; done
	@umask 022; for pc in ring/strata-ring.pc:$(SHARE) probe/user/strata.pc:$(LIB) probe/user/strata-lttng.pc:$(LIB); do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' $${pc%%:*}.in \
			>$${pc#*:}/pkgconfig/$$(basename $${pc%%:*}); done
	@umask 022; mkdir -p '$(OPT)/include' '$(OPT)/lib/pkgconfig'
	@ln -sfn ../../../include/strata/lttng-compat/lttng '$(OPT)/include/lttng'
	@ln -sfn ../../../include/strata '$(OPT)/include/strata'
	@umask 022; for name in lttng-ust lttng-ust-common; do \
		echo '/* Strata in the place of LTTng. */ INPUT($(LIBDIR)/libstrata.so)' >"$(OPT)/lib/lib$$name.so"; done
	@umask 022; sed -e 's|@PREFIX@|$(PREFIX)|' probe/user/lttng-ust.pc.in >'$(OPT)/lib/pkgconfig/lttng-ust.pc'
	@umask 022; install -D -m 755 bindings/lttng/lttng '$(OPT)/bin/lttng'
	@umask 022; mkdir -p '$(DESTDIR)$(UNITDIR)'
	@umask 022; for unit in $(UNITS); do \
		sed -e 's|@PREFIX@|$(PREFIX)|' crates/strata-cli/$$unit.in >"$(DESTDIR)$(UNITDIR)/$$unit"; done
	@echo 'installed to $(DESTDIR)$(PREFIX): bin/strata, bin/strata-parquet, lib/libstrata*, include/strata/, man pages, completions, pkg-config files, systemd units'

# Its bundle is committed: only who changes it needs Node. tools/gate/page compares the two.
page:
	@cd ui && { [ -d node_modules ] || npm ci --ignore-scripts --no-audit --no-fund; } && npm run -s build -- --outfile=../$(PAGE)

# The documents as a book, with a reference that the command itself writes. Nothing else needs mdBook.
book: crates
	@./setup --book
	@tools/book

# Needs root and apt for some of its tools; says what it could not check.
packaging: crates
	@tools/check-packaging

# Folders that install makes. Those that are empty after uninstall go, and so do their parents below the prefix.
MADE = $(DESTDIR)$(PREFIX)/include/strata $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	$(SHARE)/fish/vendor_completions.d $(SHARE)/pkgconfig $(LIB)/pkgconfig $(OBJECTS) \
	$(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/bin

# Takes away what install has put there, and folders that are empty then; nothing else, and no session or trace.
uninstall:
	@case '$(DESTDIR)$(PREFIX)' in [!/]*|'') \
		echo "make uninstall: PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)': must be absolute, and that of make install." >&2; exit 2;; esac
	@for from in abi ring probe/user; do (cd $$from/include && \
		find strata -name '*.h' -exec rm -f '$(DESTDIR)$(PREFIX)/include/{}' \;); done
	@rm -f '$(DESTDIR)$(PREFIX)/bin/strata' '$(DESTDIR)$(PREFIX)/bin/strata-parquet' '$(LIB)'/libstrata.so '$(LIB)'/libstrata.so.0 '$(LIB)/libstrata.a' \
		'$(SHARE)'/man/man1/strata.1 '$(SHARE)'/man/man1/strata-*.1 '$(SHARE)/bash-completion/completions/strata' \
		'$(SHARE)/zsh/site-functions/_strata' '$(SHARE)/fish/vendor_completions.d/strata.fish' \
		'$(SHARE)/pkgconfig/strata-ring.pc' '$(LIB)/pkgconfig/strata.pc' '$(LIB)/pkgconfig/strata-lttng.pc' \
		$(UNITS:%='$(DESTDIR)$(UNITDIR)/%')
	+@for object in $$($(PRELOADED) -s list-objects) libstrata.so.0; do rm -f "$(OBJECTS)/$$object"; done
	@rm -rf '$(OBJECTS)/strata-preload' '$(OPT)'
	@find '$(DESTDIR)$(PREFIX)/include/strata' -depth -type d -empty -delete 2>/dev/null; true
	@prefix=$$(realpath -ms '$(DESTDIR)$(PREFIX)'); for folder in $(MADE:%='%'); do \
		folder=$$(realpath -ms "$$folder"); \
		case $$folder in "$$prefix"/*) top=$$prefix;; */pkgconfig) top=$$(dirname "$$(dirname "$$folder")");; *) top=$$(dirname "$$folder");; esac; \
		while case $$folder in "$$top"/?*) :;; *) false;; esac; do \
			rmdir "$$folder" 2>/dev/null || [ ! -e "$$folder" ] || break; \
			folder=$$(dirname "$$folder"); done; done
	@echo 'removed from $(DESTDIR)$(PREFIX)'

clean:
	rm -rf build target
