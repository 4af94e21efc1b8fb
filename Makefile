# Build, test and release targets. Needs Rust (https://rustup.rs); on Debian and Ubuntu the packages below are installed
# if missing, elsewhere install their counterparts by hand.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The GPU stack (burn, wgpu) more than doubles the time of a clean build, so it is built only where there is a GPU. `GPU=yes`
# and `GPU=no` override that; packages and images set it explicitly, independent of the build machine.
ifneq ($(or $(filter Darwin MINGW% MSYS% CYGWIN%,$(shell uname -s)),$(wildcard /dev/dri/render* /dev/nvidia[0-9]*)),)
GPU ?= yes
endif
GPU ?= no
FEATURES := $(if $(filter yes,$(GPU)),,--no-default-features --features heic)

# One profile for all targets, so that nothing is built twice.
CARGO_FLAGS := --release --locked $(FEATURES)
BIN := $(or $(CARGO_TARGET_DIR),target)/release/backdrop
# Runs a step within a budget of minutes and records how long it took.
STEP := tests/step
# Output of `make demo`; data directory of `make serve`.
DEMO := target/demo
DATA := target/serve-data
# Records and reports of `make bench`.
BENCH := target/bench
# Where tools from PyPI and npm are installed.
CONFORMANCE := target/conformance
OBJECTS := target/objects
CLIENTS := target/clients
COMPAT := target/compat
PEERS := target/bench-peers
PHOTOS := tests/photos/astronaut.jpg tests/photos/chelsea.png
# Duration of `make fuzz` and `make soak`.
MINUTES ?= 20
# Rounds of each row of `make bench-peers`.
ROUNDS ?= 15

.PHONY: help demo serve build test format lint doc tests features golden golden-update examples conformance compat storage bench \
  bench-peers roofline dist nightly fuzz soak kill-storm clients browser gpu-parity large-pictures many-keys miri \
  packages cluster-test cluster-bench peers-environment test-packages conformance-packages browser-packages

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## Cut out the bundled photos and make a contact sheet of before and after
	@rm -rf $(DEMO)
	@$(BIN) remove $(PHOTOS) -o $(DEMO) --jobs 1 --contact-sheet $(DEMO)/contact-sheet.png
	@echo
	@echo "Cutouts:      $(DEMO)/*.png"
	@echo "Look at:      $(DEMO)/contact-sheet.png"
	@echo
	@echo "Next:         $(BIN) remove your-photo.jpg -o cutout.png"
	@echo "A server:     make serve"
	@echo "All commands: $(BIN) --help"

serve: build ## Run the daemon on http://127.0.0.1:8080
	$(BIN) serve --data-dir $(DATA)

build: packages ## Build the binary, with the GPU stack where there is a GPU
	cargo build $(CARGO_FLAGS) --bin backdrop
	@[ $(GPU) = yes ] || printf '\nBuilt for the CPU: this machine shows no GPU. To build the GPU stack too: make %s GPU=yes\n\n' $(or $(firstword $(MAKECMDGOALS)),build)

dist: packages ## Build the release binary: link-time optimised, stripped; FEATURES_OF_DIST sets the features
	cargo build --profile dist --locked --no-default-features --features $(or $(FEATURES_OF_DIST),gpu,heic,pytorch) --bin backdrop
	@ls -l $(or $(CARGO_TARGET_DIR),target)/dist/backdrop

# The tests of every change. Each step has a time budget (tests/README.md). The fastest checks come first; clippy and
# rustdoc share the metadata of the dependencies, the tests their code. Where the GPU stack is built, the GPU kernels' tests
# run too, on any available Vulkan device.
test: test-packages format lint doc tests ## Format, lints, documentation, tests

format: ## rustfmt
	@$(STEP) format 1 cargo fmt --all --check

lint: ## clippy, warnings are errors
	@$(STEP) lint 8 cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings

doc: ## rustdoc, warnings are errors
	@RUSTDOCFLAGS='-D warnings' $(STEP) doc 2 cargo doc $(CARGO_FLAGS) --workspace --no-deps

tests: test-packages ## Unit, integration, golden, layering and documentation tests
	@$(STEP) build 18 cargo test $(CARGO_FLAGS) --workspace --no-run
	@mkdir -p target
	@$(if $(filter yes,$(GPU)),BACKDROP_TEST_DEVICE=gpu) $(STEP) tests 10 cargo test $(CARGO_FLAGS) --workspace --no-fail-fast 2>&1 | tee target/test.log
	@awk '/^test result: / { ok += $$4; failed += $$6; ignored += $$8; binaries++ } \
	  END { printf "\ntest result: %s. %d passed; %d failed; %d ignored; in %d test binaries\n", failed ? "FAILED" : "ok", ok, failed, ignored, binaries }' target/test.log | tee target/test.summary

features: test-packages ## Check every feature alone, none, and with the declared rust-version
	@$(STEP) features 7 tests/features

golden: test-packages ## Compare masks, mattes and responses with the golden set
	cargo test $(CARGO_FLAGS) --test it golden::

golden-update: test-packages ## Show the changes of the golden set, and record them after a y
	cargo test $(CARGO_FLAGS) --test it -- --ignored --exact golden::update --nocapture

# schemathesis and its requirements are installed from PyPI into a virtual environment. Without them this fails, because the
# contract would be unchecked. On a machine without access to PyPI set WITHOUT_PYPI=skip.
conformance: conformance-packages build ## Check a daemon against schemas/openapi.yaml
	@if { [ -x $(CONFORMANCE)/bin/pip ] || python3 -m venv --clear $(CONFORMANCE); } \
	  && $(CONFORMANCE)/bin/pip install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt; then \
	  $(STEP) openapi 1 $(CONFORMANCE)/bin/python tests/conformance/validate.py \
	  && $(STEP) conformance 3 $(CONFORMANCE)/bin/python tests/conformance/run.py $(BIN) \
	  && $(STEP) generated 1 $(CONFORMANCE)/bin/python tests/conformance/generated.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  printf '\n*** SKIPPED: schemathesis cannot be had from PyPI; the contract was NOT held against a daemon ***\n\n'; \
	else exit 1; fi
	@$(MAKE) --no-print-directory compat

# The clients are installed from PyPI and npm (needs node) into separate folders; Ruby's runs if the gem is installed.
compat: conformance-packages build ## Test a daemon with the clients of remove.bg, rembg and Photoroom
	@if { [ -x $(COMPAT)/venv/bin/pip ] || python3 -m venv --clear $(COMPAT)/venv; } \
	  && $(COMPAT)/venv/bin/pip install --quiet --disable-pip-version-check -r tests/clients/compat-requirements.txt \
	  && npm install --silent --no-audit --no-fund --prefix $(COMPAT)/npm remove.bg@1.3.0; then \
	  $(STEP) compat 3 $(COMPAT)/venv/bin/python tests/clients/compat.py $(BIN) $(COMPAT)/npm; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  printf '\n*** SKIPPED: remove.bg or removebg cannot be had from npm and PyPI; the drop-in routes were NOT tested with real clients ***\n\n'; \
	else exit 1; fi

# The Python example needs requests, which the environment of `make conformance` has.
examples: conformance-packages build ## Run the programs of examples/ against a daemon
	@if { [ -x $(CONFORMANCE)/bin/pip ] || python3 -m venv --clear $(CONFORMANCE); } \
	  && $(CONFORMANCE)/bin/pip install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt; then \
	  cargo build $(CARGO_FLAGS) --example cut_out \
	  && $(STEP) examples 2 $(CONFORMANCE)/bin/python tests/clients/examples.py $(BIN) $(dir $(BIN))examples/cut_out; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  printf '\n*** SKIPPED: requests cannot be had from PyPI; the examples were NOT run ***\n\n'; \
	else exit 1; fi

# moto and its requirements are installed from PyPI, azurite from npm (needs node), into separate folders. On a machine
# without access to them set WITHOUT_PYPI=skip.
storage: conformance-packages build ## Run `backdrop bulk` against S3 and Azure servers on this machine
	@if { [ -x $(OBJECTS)/venv/bin/pip ] || python3 -m venv --clear $(OBJECTS)/venv; } \
	  && $(OBJECTS)/venv/bin/pip install --quiet --disable-pip-version-check -r tests/objects/requirements.txt \
	  && npm install --silent --no-audit --no-fund --prefix $(OBJECTS)/npm azurite@3.35.0; then \
	  AZURITE=$(OBJECTS)/npm/node_modules/.bin/azurite-blob $(STEP) storage 3 $(OBJECTS)/venv/bin/python tests/objects/run.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  printf '\n*** SKIPPED: moto or azurite cannot be had from PyPI and npm; storage was NOT tested against real servers ***\n\n'; \
	else exit 1; fi

# Latency, throughput and the highest rate with p90 within a second; each with a record and a report in target/bench.
bench: build ## Measure the speed on this machine
	@mkdir -p $(BENCH)
	$(BIN) bench $(PHOTOS) --scenario single-stream --out $(BENCH)/single-stream.json --html $(BENCH)/single-stream.html
	$(BIN) bench $(PHOTOS) --scenario offline --out $(BENCH)/offline.json --html $(BENCH)/offline.html
	$(BIN) bench $(PHOTOS) --scenario server --latency-bound 1000 --percentile 90 --out $(BENCH)/server.json --html $(BENCH)/server.html
	cargo bench --locked --profile release $(FEATURES)

# PEERS_PHOTOS is a folder of photos to take instead of the bundled one; ROWS are rows by the start of their names.
bench-peers: build peers-environment ## Time ONNX Runtime, rembg, PyMatting and Pillow beside this program, in turn
	$(PEERS)/venv/bin/python benches/peers/run.py --binary $(BIN) --stages "$(PEERS_STAGES)" --output $(PEERS)/results \
	  --rounds $(ROUNDS) $(if $(PEERS_PHOTOS),--photos "$(PEERS_PHOTOS)") $(if $(ROWS),--only $(ROWS))

roofline: build peers-environment ## Compare each stage with the limits of this machine's memory and arithmetic
	$(PEERS)/venv/bin/python benches/peers/roofline.py --binary $(BIN) --stages "$(PEERS_STAGES)" --output $(PEERS)/roofline

PEERS_STAGES := cargo bench --quiet --locked --profile release $(FEATURES) --bench peers -- --requests
peers-environment: conformance-packages
	@{ [ -x $(PEERS)/venv/bin/pip ] || python3 -m venv --clear $(PEERS)/venv; } \
	  && $(PEERS)/venv/bin/pip install --quiet --disable-pip-version-check -r benches/peers/requirements.txt
	cargo bench --locked --profile release $(FEATURES) --bench peers --no-run

# The nightly tests: the long ones. Each step is a target with a time limit; a failed step does not stop the others.
NIGHTLY := kill-storm cluster-test fuzz soak clients browser gpu-parity large-pictures many-keys conformance storage
nightly: ## All long tests: fuzz, soak, kill storms, real clients, a browser, GPU parity at full size
	@$(STEP) --forget
	@failed=; for step in $(NIGHTLY); do $(MAKE) --no-print-directory $$step GPU=yes || failed="$$failed $$step"; done; \
	  $(STEP) --summary; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# One integration test, or a module of them, with many rounds; the time limit excludes the build.
long = cargo test $(CARGO_FLAGS) --test it --no-run && BACKDROP_TEST_TIER=nightly BACKDROP_TEST_MINUTES=$(MINUTES) $(STEP) $(1) $(2) cargo test $(CARGO_FLAGS) --test it -- --nocapture $(3)

kill-storm: test-packages ## Kill daemons, jobs, stores and bulk runs repeatedly
	@$(call long,kill-storm,40,crash)

fuzz: test-packages ## Decode mutated pictures for MINUTES
	@$(call long,fuzz,$$(($(MINUTES) + 5)),--ignored --exact nightly::mutated_pictures_never_crash_or_hang_the_decoders)

soak: test-packages ## Load a daemon for MINUTES; its memory and descriptors must reach a steady state
	@$(call long,soak,$$(($(MINUTES) + 5)),--ignored --exact nightly::memory_and_descriptors_of_a_loaded_daemon_are_stable)

large-pictures: test-packages ## Test every endpoint at 4096×4096 in every format, and a photo of 100 megapixels without a daemon
	@$(call long,large-pictures,20,--ignored --exact nightly::every_endpoint_accepts_the_largest_pictures nightly::a_photo_of_100_megapixels_is_cut_out_in_bounded_memory)

# PostgreSQL is installed with apt-get if missing; each test starts servers of its own as their own user. On a machine that
# cannot install it set WITHOUT_POSTGRESQL=skip.
cluster-test: test-packages ## Run daemons on PostgreSQL; kill them and the server repeatedly
	@if ( $(call install,for-postgresql) ) && ls /usr/lib/postgresql/*/bin/initdb >/dev/null; then \
	  $(call long,cluster-test,20,--ignored --test-threads 2 store::postgres daemon::cluster); \
	elif [ "$${WITHOUT_POSTGRESQL:-}" = skip ]; then \
	  printf '\n*** SKIPPED: PostgreSQL cannot be installed; the store on PostgreSQL was NOT tested ***\n\n'; \
	else echo 'PostgreSQL is missing and cannot be installed; WITHOUT_POSTGRESQL=skip skips these tests'; exit 1; fi

cluster-bench: ## Time the services of accounts on redb and on PostgreSQL beside each other
	@$(call install,for-postgresql)
	BACKDROP_BENCH_POSTGRES=yes cargo bench --locked --profile release $(FEATURES) --bench accounts

many-keys: test-packages ## List a million keys of a bucket in bounded memory
	@$(call long,many-keys,5,--ignored --exact bulk::listing::a_million_keys_take_less_than_200_mb)

# Miri is part of nightly toolchains only: rustup toolchain install nightly --component miri.
miri: ## Run the portable kernels under Miri
	@$(STEP) miri 30 cargo +nightly miri test -p backdrop-kernels --no-default-features --test miri

gpu-parity: test-packages ## Compare the GPU kernels with the CPU kernels at 4096×4096
	@cargo test --release --locked --workspace --test parity --no-run
	@BACKDROP_TEST_DEVICE=gpu $(STEP) gpu-parity 20 cargo test --release --locked --workspace --test parity -- --ignored --nocapture

clients: conformance-packages build ## Test a daemon with curl, requests, httpx, aiohttp, urllib3 and node
	@{ [ -x $(CLIENTS)/bin/pip ] || python3 -m venv --clear $(CLIENTS); } \
	  && $(CLIENTS)/bin/pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
	@$(STEP) clients 5 $(CLIENTS)/bin/python tests/clients/run.py $(BIN)

browser: browser-packages build ## Test the daemon's pages in Chromium
	@$(STEP) browser 5 python3 tests/clients/browser.py $(BIN)

packages:
	@$(call install,)

test-packages:
	@$(call install,for-tests)

conformance-packages: packages
	@$(call install,for-conformance)

browser-packages: packages
	@$(call install,for-browser)

# Installs missing packages with apt-get, as root or through sudo; otherwise prints the command. Without apt-get the build
# reports what is missing. libheif is built from source (cmake, g++) and finds libde265 with pkg-config; ffmpeg reads and
# writes clips; Mesa's lavapipe is a software Vulkan device, for the tests of the GPU kernels.
define install
command -v cargo >/dev/null || { echo "Rust is missing; see https://rustup.rs"; exit 1; }; \
missing=; \
need() { sh -c "$$1" >/dev/null 2>&1 || missing="$$missing $$2"; }; \
need 'command -v cmake' cmake; \
need 'command -v c++' g++; \
need 'command -v pkg-config' pkg-config; \
need 'pkg-config --exists libde265' libde265-dev; \
need 'command -v ffmpeg && command -v ffprobe' ffmpeg; \
if [ "$(1)" = for-conformance ]; then need 'python3 -c "import ensurepip"' python3-venv; fi; \
if [ "$(1)" = for-browser ]; then need 'command -v chromium' chromium; fi; \
if [ "$(1)" = for-postgresql ]; then need 'ls /usr/lib/postgresql/*/bin/initdb || command -v initdb' postgresql; fi; \
if [ "$(1)" = for-tests ]; then \
  need 'command -v strace' strace; \
  need 'ls /usr/share/vulkan/icd.d/lvp_icd*.json' mesa-vulkan-drivers; \
  need '/sbin/ldconfig -p | grep libvulkan.so.1' libvulkan1; \
fi; \
if [ -n "$$missing" ] && command -v apt-get >/dev/null; then \
  if [ "$$(id -u)" = 0 ]; then run=; \
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then run=sudo; \
  else \
    echo "These packages are missing; run this as root, then try again:"; \
    echo "  apt-get update && apt-get install -y --no-install-recommends$$missing"; \
    exit 1; \
  fi; \
  echo "Installing:$$missing"; \
  $$run apt-get update -qq; \
  $$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
fi
endef
