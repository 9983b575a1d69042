# ccnic: what a person types. CI runs `make builds`, `make test` and `make fuzz-ci`; they need a Rust toolchain, no root, no huge pages.

CARGO ?= cargo
PREFIX ?= /usr/local
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
NIGHTLY := $(shell rustup toolchain list 2>/dev/null | grep -m1 -o '^nightly[^ ]*')
DPDK := $(shell pkg-config --modversion libdpdk 2>/dev/null)
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')

.PHONY: all run test lint style supply unit tsan fuzz fuzz-ci instructions counts smoke smoke-c dpdk dpdk-test dpdk-peers dpdk-kv dpdk-peers-smoke apps-test miri install clean

# What is installed; crates that only tests and fuzzing use would take minutes more.
all:
	$(CARGO) build --release --locked --workspace --exclude ccnic-check --exclude ccnic-fuzz

# Starts a NIC in one process and a program in another, sends packets through it, shows what was measured.
run: all
	$(RELEASE)/ccnic demo

test: lint unit tsan smoke smoke-c dpdk-test dpdk-peers-smoke apps-test captures-test
	@echo "all tests passed"

lint: style supply

style:
	third_party/check.sh
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Licences, sources and known advisories of all that the lock files name, as far as this machine has the tools and their data.
supply:
	CARGO="$(CARGO)" .ci/supply

# Everything but the examples: clippy checks those of Rust, the tests of libccnic build those of C. JOBS programs at a time.
UNIT = --workspace --locked --lib --bins --tests
unit:
	CARGO="$(CARGO)" .ci/unit $(UNIT)
	$(CARGO) test --workspace --locked --doc

# The two-thread tests under ThreadSanitizer; needs a nightly toolchain (no rebuilt standard library). The second run has a
# race on purpose and must fail: a sanitizer that sees nothing proves nothing.
# rustix goes through libc here: the sanitizer does not see raw system calls, so a region would inherit what it remembers of one
# that another test had at the same address.
TSAN = RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg rustix_use_libc" CARGO_TARGET_DIR=target/tsan \
	TSAN_OPTIONS="suppressions=$(CURDIR)/crates/ccnic-check/tsan.supp halt_on_error=1" \
	$(CARGO) +$(NIGHTLY) test --locked --target $(HOST) --config profile.dev.package.ccnic-shm.opt-level=2 \
		-p ccnic-shm -p ccnic-handoff --test threads
tsan:
ifneq ($(NIGHTLY),)
	$(TSAN)
	! $(TSAN) -- --ignored > target/tsan/on-purpose.log 2>&1
	grep -q 'WARNING: ThreadSanitizer: data race' target/tsan/on-purpose.log
else
	@echo "skipped: ThreadSanitizer needs a nightly toolchain (rustup toolchain install nightly)"
endif

# Both sides of a region and the control messages under libFuzzer, two targets at a time; needs a C++ compiler. `make test` runs the
# corpora only. fuzz/README.md says more.
SECONDS = 60
fuzz:
	CARGO="$(CARGO)" fuzz/run.sh $(SECONDS)
# A fixed number of executions of each, the same ones in every run.
fuzz-ci:
	CARGO="$(CARGO)" fuzz/run.sh ci

# What `make test` and `make fuzz-ci` compile, nothing of it run: with `make -j builds` several compilations share the cores, so that
# none waits for the last crate of another.
.PHONY: builds build-unit build-tsan build-fuzz
builds: style all build-unit build-tsan build-fuzz
build-unit:
	$(CARGO) test $(UNIT) --no-run
build-tsan:
ifneq ($(NIGHTLY),)
	$(TSAN) --no-run
endif
build-fuzz:
	CARGO="$(CARGO)" fuzz/run.sh build

# Instructions per packet by function, into docs/performance.md; needs valgrind and binutils.
COUNT = crates/ccnic/benches/instructions.py --write docs/performance.md
instructions:
	$(COUNT)
	$(COUNT) --way in-place
	$(COUNT) --way copies --sizes 64

# Instructions for the simulator, by design: platforms/instructions.toml; needs valgrind and binutils.
counts:
	crates/ccnic-load/benches/counts.py --write platforms/instructions.toml

# What a newcomer does first, in short: the demo fails when a packet is lost or damaged.
smoke: all
	$(RELEASE)/ccnic demo --seconds 0.05 --report $(RELEASE)/report.html
	$(RELEASE)/ccnic bench loopback --no-limit --seconds 0.1 --size 9000 --queues 2 --json
	$(RELEASE)/ccnic bench pingpong --seconds 0.2
	$(RELEASE)/ccnic bench stream --seconds 0.2
ifneq ($(shell nproc),1)
	$(RELEASE)/ccnic bench apps --workloads ads --servers ccnic,e810,kernel --objects 2000 --seconds 0.1 --rounds 1 --out $(RELEASE)/apps
else
	@echo "SKIPPED: bench apps needs two CPUs"
endif

# For machines where Miri installs: the interface and what it can do of the conformance suite in minutes. It knows no shared mappings, so
# what needs a region is not run by it: ThreadSanitizer is (`make tsan`).
MIRI = MIRIFLAGS="-Zmiri-disable-isolation" $(CARGO) +nightly miri test --locked
miri:
ifneq ($(shell rustup +nightly component list 2>/dev/null | grep -c '^miri.*installed'),0)
	$(MIRI) -p ccnic
	$(MIRI) -p ccnic-check --lib
	$(MIRI) -p ccnic-check --test suite -- --skip native handoff packets_come_back incomplete_packets
	$(MIRI) -p ccnic-frame --lib
	$(MIRI) -p ccnic-handoff --lib
	$(MIRI) -p ccnic-capi --lib -- handle held
	@echo "skipped: all of ccnic-shm, ccnic-client and ccnic-nic, which map memory"
else
	@echo "skipped: Miri (rustup +nightly component add miri)"
endif

# PREFIX is where the files will be found, DESTDIR what to put before it while packaging. What was built of DPDK is installed, too: the plugins
# go where EAL takes them from, below no folder that everybody may write to.
CAPI := crates/ccnic-capi
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
INTO = $(DESTDIR)$(PREFIX)
PROGRAMS = ccnic ccnicd ccnicd-xdp ccnic-kv ccnic-kv-load ccnic-echo ccnic-hello
install: all
	install -d $(INTO)/bin && install -s -m 755 $(addprefix $(RELEASE)/,$(PROGRAMS)) $(INTO)/bin
	for program in ccnic-peers ccnic-kv-ethdev; do ! test -e $(RELEASE)/dpdk/$$program || \
		install -D -s -m 755 $(RELEASE)/dpdk/$$program $(INTO)/bin/$$program || exit; done
	for plugin in $(wildcard $(RELEASE)/../dpdk/plugins/librte_*_ccnic.so); do \
		install -D -s -m 755 $$plugin $(INTO)/lib/ccnic/dpdk/$${plugin##*/} || exit; done
	install -D -m 644 docs/ccnicd.example.toml $(INTO)/share/ccnic/ccnicd.example.toml
	install -m 644 docs/grafana/ccnic.json $(INTO)/share/ccnic/grafana.json
	install -d $(INTO)/lib/systemd/system $(INTO)/lib/sysusers.d
	sed 's|@PREFIX@|$(PREFIX)|' crates/ccnicd/systemd/ccnicd.service.in > $(INTO)/lib/systemd/system/ccnicd.service
	install -m 644 crates/ccnicd/systemd/ccnic.sysusers.conf $(INTO)/lib/sysusers.d/ccnic.conf
	install -d $(INTO)/share/bash-completion/completions $(INTO)/share/zsh/site-functions $(INTO)/share/fish/vendor_completions.d
	for program in ccnic ccnicd; do completions="$(RELEASE)/ccnic completions" && \
		$$completions bash $$program > $(INTO)/share/bash-completion/completions/$$program && \
		$$completions zsh $$program > $(INTO)/share/zsh/site-functions/_$$program && \
		$$completions fish $$program > $(INTO)/share/fish/vendor_completions.d/$$program.fish || exit; done
	install -d $(INTO)/include && install -m 644 $(CAPI)/include/*.h $(INTO)/include
	install -D -m 644 $(RELEASE)/libccnic_capi.a $(INTO)/lib/libccnic.a
	$(CAPI)/link.sh $(RELEASE)/libccnic_capi.a $(INTO)/lib
	strip --strip-debug $(INTO)/lib/libccnic.a $(INTO)/lib/libccnic.so.$(VERSION)
	install -d $(INTO)/lib/pkgconfig $(INTO)/share/man/man1 $(INTO)/share/man/man3 $(INTO)/share/man/man8
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' $(CAPI)/ccnic.pc.in > $(INTO)/lib/pkgconfig/ccnic.pc
	install -m 644 $(CAPI)/man/*.1 $(INTO)/share/man/man1
	install -m 644 $(CAPI)/man/*.8 $(INTO)/share/man/man8
	install -m 644 $(CAPI)/man/*.3 $(INTO)/share/man/man3
	cd $(INTO)/share/man/man3 && for page in ccnic_call ccnic_open ccnic_pool_open ccnic_queue_open ccnic_rss_set ccnic_flow_create ccnic_offloads ccnic_tx_burst \
		ccnic_nic_listen ccnic_nic_rx_burst; do \
		for name in $$(sed -n 's/^\.Nm \(ccnic_[a-z_]*\).*/\1/p' $$page.3); do \
			test $$name = $$page || ln -sf $$page.3 $$name.3; done; done
	@test -n "$(DESTDIR)" || { pkg-config --exists ccnic && ldconfig -p | grep -q libccnic.so; } 2>/dev/null || \
		echo "For programs in C: export PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig LD_LIBRARY_PATH=$(PREFIX)/lib (for all users, as root:" \
			"echo $(PREFIX)/lib > /etc/ld.so.conf.d/ccnic.conf && ldconfig)"

# What `make install` leaves is enough to compile, link (shared and static) and run a program in C.
STAGE = $(abspath $(RELEASE))/stage
STAGED = PKG_CONFIG_PATH=$(STAGE)/lib/pkgconfig pkg-config
CSTRICT = cc -std=c11 -O2 -Wall -Wextra -Werror
smoke-c: all
	rm -rf $(STAGE)
	$(MAKE) --no-print-directory install PREFIX=$(STAGE) DESTDIR=
	test -e $(STAGE)/share/man/man3/ccnic_rx_burst.3 && test -e $(STAGE)/share/man/man3/ccnic_program_info.3
	test -s $(STAGE)/share/bash-completion/completions/ccnicd && test -s $(STAGE)/share/zsh/site-functions/_ccnic
	test -s $(STAGE)/share/ccnic/ccnicd.example.toml && test -s $(STAGE)/share/man/man8/ccnicd.8
	! command -v systemd-analyze > /dev/null || systemd-analyze verify --man=no $(STAGE)/lib/systemd/system/ccnicd.service
ifneq ($(shell command -v pkg-config),)
	$(CSTRICT) $(CAPI)/examples/echo.c -o $(STAGE)/echo $$($(STAGED) --cflags --libs ccnic)
	$(CSTRICT) $(CAPI)/examples/generator.c -o $(STAGE)/generator $$($(STAGED) --cflags ccnic) \
		$$($(STAGED) --static --libs ccnic | sed 's/-lccnic/-l:libccnic.a/')
	$(STAGE)/bin/ccnicd --log warn --tuning default --socket $(STAGE)/nic.sock & nic=$$!; trap "kill $$nic" EXIT; \
		until test -S $(STAGE)/nic.sock || ! kill -0 $$nic; do sleep 0.05; done; \
		LD_LIBRARY_PATH=$(STAGE)/lib $(STAGE)/echo $(STAGE)/nic.sock 1000 && $(STAGE)/generator $(STAGE)/nic.sock 200000
	$(CSTRICT) $(CAPI)/examples/nic.c -o $(STAGE)/nic $$($(STAGED) --cflags --libs ccnic)
	rm -f $(STAGE)/nic.sock
	export LD_LIBRARY_PATH=$(STAGE)/lib; $(STAGE)/nic $(STAGE)/nic.sock 2 & nic=$$!; trap "kill $$nic 2>/dev/null" EXIT; \
		until test -S $(STAGE)/nic.sock || ! kill -0 $$nic; do sleep 0.05; done; \
		$(STAGE)/echo $(STAGE)/nic.sock 1000 && $(STAGE)/generator $(STAGE)/nic.sock 200000 && wait $$nic
else
	@echo "skipped: compiling against the installed library needs pkg-config"
endif

# The generator of `ccnic bench peers`: a DPDK program in C, built where DPDK is installed.
PEERS = dpdk/app/peers BUILD=$(abspath $(RELEASE))/dpdk
dpdk-peers:
ifneq ($(DPDK),)
	$(MAKE) --no-print-directory -C $(PEERS)
else
	@echo "SKIPPED: ccnic-peers needs DPDK (apt-get install libdpdk-dev)"
endif

# The key-value store over drivers of DPDK, for `ccnic bench apps`.
dpdk-kv: all
ifneq ($(DPDK),)
	$(MAKE) --no-print-directory -C dpdk/app/kv BUILD=$(abspath $(RELEASE))/dpdk ARCHIVE=$(abspath $(RELEASE))/libccnic_kv_ethdev.a
else
	@echo "SKIPPED: ccnic-kv-ethdev needs DPDK (apt-get install libdpdk-dev)"
endif

# The peers that need neither root nor huge pages: what comes back must be what was sent, however fast it was.
dpdk-peers-smoke: all dpdk-peers dpdk-kv
ifneq ($(DPDK),)
	$(MAKE) --no-print-directory -C $(PEERS) check
ifneq ($(shell nproc),1)
	$(RELEASE)/ccnic bench peers --drivers ring,memif --size 64 --inflight 64 --seconds 0.1 --repeat 1 --json
	$(RELEASE)/ccnic bench apps --workloads ads --servers memif --objects 2000 --seconds 0.1 --rounds 1 --json
else
	@echo "SKIPPED: bench peers needs two CPUs"
endif
endif
# The DPDK drivers: plugins for the DPDK that pkg-config finds, in target/dpdk/plugins.
DPDK_NEEDS = dpdk-testpmd dpdk-test meson ninja pkg-config python3
dpdk: all
	dpdk/build.sh

dpdk-test: all
	@for tool in $(DPDK_NEEDS); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
		pkg-config --exists libdpdk || missing="$$missing libdpdk-dev"; \
		if test -n "$$missing"; then echo "skipped: the DPDK drivers need$$missing"; exit 0; fi; \
		dpdk/build.sh || { status=$$?; test $$status = 77 || exit $$status; echo "skipped: the DPDK drivers need DPDK's driver headers"; exit 0; }; \
		for test in drivers applications nic_role rss flow offloads examples ovs huge_pages; do python3 dpdk/tests/test_$$test.py || exit; done

# The captures of tcpdump's own tests (Debian's source package, which is fetched) through a pcap port: half a minute, little of it computing.
CAPTURES_TEST = if command -v python3 >/dev/null && command -v editcap >/dev/null; then \
	crates/ccnicd/tests/captures/run.py $(RELEASE) $(RELEASE)/captures; \
	else echo "SKIPPED: the captures of tcpdump need python3 and editcap (tshark)"; fi
.PHONY: captures-test
captures-test: all
	@$(CAPTURES_TEST)

# Memcached clients in Python, Go, JavaScript and Java against Debian's memcached and ccnic-kv; a client that is not installed is skipped.
apps-test: all
	@if command -v memcached >/dev/null && command -v python3 >/dev/null; then apps/tests/run.py $(RELEASE); \
		else echo "SKIPPED: the memcached clients need memcached and python3"; fi
	@$(MEMCACHED_TESTS)
# memcached's own tests (t/*.t of Debian's source package, which is fetched) against ccnic-kv: about half a minute, little of it computing.
MEMCACHED_TESTS = if command -v python3 >/dev/null && perl -MTest::More -e 1 2>/dev/null; then \
	apps/tests/memcached/run.py $(RELEASE) $(RELEASE)/apps-test/memcached; \
	else echo "SKIPPED: memcached's own tests need perl and python3"; fi
.PHONY: memcached-tests
memcached-tests: all
	@$(MEMCACHED_TESTS)

# Tests that take too long for `make test`, half an hour and more: 600 kills at random of the NIC, the store, programs and clients, 10 000
# programs that come and go, a thousand daemons that race for a socket or die in the middle of a conversation. CCNIC_KILLS=,
# CCNIC_CYCLES= and CCNIC_SEED= say how much and repeat a run. The kernel's TCP takes part where root or user namespaces permit it.
CCNIC_CYCLES ?= 1000
.PHONY: long
long:
	$(CARGO) build --workspace --locked --bin ccnicd --bin ccnic-kv
	$(CARGO) test --workspace --locked --test kills -- --ignored --exact --nocapture hundreds_of_kills
	CCNIC_CYCLES=$(CCNIC_CYCLES) $(CARGO) test --workspace --locked --test interrupted -- --nocapture
	CCNIC_CYCLES=$(CCNIC_CYCLES)0 $(CARGO) test --workspace --locked --test failures -- --nocapture attach_and_detach

clean:
	$(CARGO) clean

# Two million short TCP connections from the kernel to a stack of apps/tcp, without a leak: about ten minutes. Needs root.
.PHONY: tcp-storm
tcp-storm:
	$(CARGO) test --release --locked -p ccnic-tcp --test kernel -- --ignored --exact million
