# ccnic: what a person types. `make test` is what CI runs; it needs a Rust toolchain, no root, no huge pages.

CARGO ?= cargo
PREFIX ?= /usr/local
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
NIGHTLY := $(shell rustup toolchain list 2>/dev/null | grep -m1 -o '^nightly[^ ]*')
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')

.PHONY: all run test lint unit tsan smoke miri install clean

all:
	$(CARGO) build --release --locked

# Starts a NIC in one process and a program in another, sends packets through it, shows what was measured.
run: all
	$(RELEASE)/ccnic demo

test: lint unit tsan smoke
	@echo "all tests passed"

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

unit:
	$(CARGO) test --workspace --locked

# The two-thread tests under ThreadSanitizer; needs a nightly toolchain (no rebuilt standard library). The second run has a
# race on purpose and must fail: a sanitizer that sees nothing proves nothing.
# rustix goes through libc here: the sanitizer does not see raw system calls, so a region would inherit what it remembers of one
# that another test had at the same address.
TSAN = RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg rustix_use_libc" CARGO_TARGET_DIR=target/tsan \
	TSAN_OPTIONS="suppressions=$(CURDIR)/crates/ccnic-check/tsan.supp halt_on_error=1" \
	$(CARGO) +$(NIGHTLY) test --locked --target $(HOST) -p ccnic-check --test threads
tsan:
ifneq ($(NIGHTLY),)
	$(TSAN)
	! $(TSAN) -- --ignored > target/tsan/on-purpose.log 2>&1
	grep -q 'WARNING: ThreadSanitizer: data race' target/tsan/on-purpose.log
else
	@echo "skipped: ThreadSanitizer needs a nightly toolchain (rustup toolchain install nightly)"
endif

# What a newcomer does first, in short: the demo fails when a packet is lost or damaged.
smoke: all
	$(RELEASE)/ccnic demo --seconds 0.05 --report $(RELEASE)/report.html
	$(RELEASE)/ccnic bench loopback --no-limit --seconds 0.1 --size 9000 --queues 2 --json
	$(RELEASE)/ccnic bench pingpong --seconds 0.2
	$(RELEASE)/ccnic bench stream --seconds 0.2

# For machines where Miri installs: the interface and its conformance suite under the interpreter.
miri:
	MIRIFLAGS="-Zmiri-disable-isolation" $(CARGO) +nightly miri test -p ccnic
	MIRIFLAGS="-Zmiri-disable-isolation" $(CARGO) +nightly miri test -p ccnic-check --lib --test local

install: all
	install -D -m 755 $(RELEASE)/ccnic $(DESTDIR)$(PREFIX)/bin/ccnic
	install -D -m 755 $(RELEASE)/ccnicd $(DESTDIR)$(PREFIX)/bin/ccnicd

clean:
	$(CARGO) clean
