# The targets that people type. What is built for the ring library is in ring/Makefile.
# Each works from a fresh clone; "make" alone prints the list.

PREFIX ?= /usr/local
export PATH := $(PATH):$(HOME)/.cargo/bin

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
RING := $(MAKE) --no-print-directory -f ring/Makefile

# Gates look at the tree, tests of tools at the tools; each executable file is one test.
GATES = $(sort $(shell find tools/gate tools/test -maxdepth 1 -type f -perm -u+x))
ONCE ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test build check bench install clean fmt lint

help:
	@echo 'make demo               write and read a ring, print what happened (start here)'
	@echo 'make test               run every test'
	@echo 'make build              build everything into build/ and target/'
	@echo 'make check              model checker, single-step test, SPIN model'
	@echo 'make bench              measure; ONCE=1 only shows that the benchmarks work'
	@echo 'make install PREFIX=    headers and strata-ring.pc (now $(PREFIX))'
	@echo 'make fmt                format C and Rust'
	@echo 'make lint               formatting, warnings, levels, words; no tests'
	@echo 'make setup              install what is missing (demo and test do it themselves)'
	@echo 'make clean              remove build/ and target/'

setup:
	@./setup

# Set-up first, then a second make: what it installs must be there when the rest is planned.
demo:
	@./setup
	+@$(RING) demo
	@echo
	@echo 'Next: make test, or read ring/demo/first.c and write your own.'

test:
	@./setup
	@$(MAKE) --no-print-directory build
	+@{ printf '%s\n' $(GATES) && $(RING) -s list-tests; } >build/tests.list
	@tools/run-tests -t 600 - <build/tests.list

build:
	+@$(RING) build
	@cargo build --workspace --offline --locked --quiet

check:
	+@$(RING) check

bench:
	+@$(RING) bench ONCE=$(ONCE)

lint:
	@tools/run-tests -t 600 $(filter tools/gate/%,$(GATES))

fmt:
	@tools/gate/format --fix
	@cargo fmt --all

# Header-only and the same for every architecture, hence share/ and not lib/.
install:
	@case '$(DESTDIR)$(PREFIX)' in *[!A-Za-z0-9/._+-]*|[!/]*|'') \
		echo "make install: PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)': must be absolute, of A-Z a-z 0-9 / . _ + - only (pkg-config splits at others)." >&2; exit 2;; esac
	@cd abi/include && find strata -name '*.h' -exec install -D -m 644 {} '$(DESTDIR)$(PREFIX)/include/{}' \;
	@cd ring/include && find strata -name '*.h' -exec install -D -m 644 {} '$(DESTDIR)$(PREFIX)/include/{}' \;
	@mkdir -p '$(DESTDIR)$(PREFIX)/share/pkgconfig'
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' ring/strata-ring.pc.in \
		>'$(DESTDIR)$(PREFIX)/share/pkgconfig/strata-ring.pc'
	@echo 'installed to $(DESTDIR)$(PREFIX): include/strata/ and share/pkgconfig/strata-ring.pc'

clean:
	rm -rf build target
