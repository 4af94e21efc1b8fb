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
# Tests run the binary, which is built first: `make build`. The unit tests are a second build of the whole product, at level 0: it
# takes less than a third of the time.
TESTS := cargo test $(CARGO_FLAGS) --workspace --exclude backdrop
UNOPTIMISED := --config profile.release.package.backdrop.opt-level=0
UNIT_TESTS := cargo test $(CARGO_FLAGS) -p backdrop --lib $(UNOPTIMISED)
# The functions of a GPU against those of the CPU, without the binary.
TWINS := cargo test --release --locked -p backdrop -p backdrop-kernels --lib --test parity $(UNOPTIMISED)
# The crates that clippy and rustdoc read. They take metadata of the dependencies only; .ci/run has them read the code of the GPU
# too where it builds none.
LINT_FEATURES ?= $(FEATURES)
BIN := $(or $(CARGO_TARGET_DIR),target)/release/backdrop
# Runs a step within a budget of minutes and records how long it took.
STEP := tests/step
# Output of `make demo`; data directory of `make serve`.
DEMO := target/demo
DATA := target/serve-data
PREFIX ?= $(HOME)/.local
# Records and reports of `make bench`.
BENCH := target/bench
# Where tools from PyPI and npm are installed.
CONFORMANCE := target/conformance
OBJECTS := target/objects
ONNXRUNTIME := target/onnxruntime
MANIFESTS := target/manifests
PAGE := target/page
CLIENTS := target/clients
PACKAGES := target/clients-packages
COMPAT := target/compat
TRAIN := target/train
PEERS := target/bench-peers
QUIETLY := --quiet --disable-pip-version-check
# Packages, the binary that they carry, and programs of cargo that build them. BINARY=target/release/backdrop packs an ordinary
# build; by default `make dist` builds it first.
PACKAGE_DIR := target/packages
BINARY ?=
PACKED := $(or $(BINARY),$(or $(CARGO_TARGET_DIR),target)/dist/backdrop)
ALL_FEATURES := gpu,heic,pytorch
FEATURES_OF_DIST ?= $(ALL_FEATURES)
TOOLS := target/tools
DENY := target/deny
DENY_VERSION := 0.20.2
DENY_PROFILE := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
PHOTOS := tests/photos/astronaut.jpg tests/photos/chelsea.png
# Duration of `make soak`, and of each target of `make fuzz`. The slope of the daemon's memory takes 70,000 requests in the second
# half of a soak, 36 minutes of two cores at 66 a second; in an hour they are required.
MINUTES ?= 60
SECONDS ?= 60
# Rounds of each row of `make bench-peers`.
ROUNDS ?= 15

.PHONY: help demo serve install build test format lint doc tests features gpu-twins build-tests test-onnxruntime run-tests run-unit-tests run-integration-tests objects-bench train-test golden golden-update examples conformance compat storage page-test bench \
  bench-peers roofline halo export-test models-test audit dist packed-binary deb image wheel npm release deb-test image-test wheel-test npm-test release-test \
  nightly fuzz fuzz-address soak overload kill-storm clients clients-generate clients-test gpu-parity large-pictures many-keys cluster-test cluster-bench manifests power-loss miri \
  package-tools release-tools packages peers-environment peers-packages test-packages conformance-packages page-packages npm-packages

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

# With the settings of the Debian package, which take the photos of cameras. The demo key is an ordinary key of the account
# `default`, made once and kept beside the data, readable by its owner. A browser does not send what follows the # of an address;
# the page keeps the key in its tab.
serve: build ## Run the daemon and its page on http://127.0.0.1:8080; prints a demo key
	@[ -s $(DATA)/demo-key ] || { umask 077; mkdir -p $(DATA); \
	  $(BIN) accounts create default --plan plus --generates on --data-dir $(DATA) >/dev/null 2>&1 || true; \
	  $(BIN) keys create --label demo --data-dir $(DATA) > $(DATA)/demo-key; }
	@printf '\nThe page, with a demo key:  http://127.0.0.1:8080/#key=%s\n\n' "$$(cat $(DATA)/demo-key)"
	BACKDROP_CONFIG=$${BACKDROP_CONFIG:-deploy/deb/backdrop.toml} $(BIN) serve --data-dir $(DATA)

install: build ## Install the binary in PREFIX/bin, ~/.local/bin without one
	@mkdir -p $(PREFIX)/bin
	@install -m 755 $(BIN) $(PREFIX)/bin/backdrop
	@echo "Installed $(PREFIX)/bin/backdrop"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "Add it to the PATH: export PATH=\"$(PREFIX)/bin:\$$PATH\"" ;; esac

build: packages ## Build the binary, with the GPU stack where there is a GPU
	cargo build $(CARGO_FLAGS) --bin backdrop
	@[ $(GPU) = yes ] || printf '\nBuilt for the CPU: this machine shows no GPU. To build the GPU stack too: make %s GPU=yes\n\n' $(or $(firstword $(MAKECMDGOALS)),build)

dist: packages ## Build the release binary: link-time optimised, stripped; FEATURES_OF_DIST sets the features
	cargo build --profile dist --locked --no-default-features --features $(FEATURES_OF_DIST) --bin backdrop
	@ls -l $(or $(CARGO_TARGET_DIR),target)/dist/backdrop

packed-binary: $(if $(BINARY),,dist)

deb: packed-binary package-tools ## Build the Debian package in target/packages; BINARY=FILE packs another binary
	deploy/deb/build $(PACKED) $(PACKAGE_DIR)

image: packed-binary package-tools ## Build the OCI images, without and with ffmpeg, in target/packages/image
	deploy/image/build $(PACKED) $(PACKAGE_DIR)/image

wheel: packed-binary package-tools ## Build the Python wheel that carries the binary
	deploy/wheel/build $(PACKED) $(PACKAGE_DIR)

npm: packed-binary package-tools ## Build the npm package that carries the binary
	deploy/npm/build $(PACKED) $(PACKAGE_DIR)

release: packed-binary package-tools release-tools ## Build all packages with checksums, bill of materials and notes; BINARY=FILE needs SBOM_FEATURES
	$(if $(BINARY),,SBOM_FEATURES=$(FEATURES_OF_DIST)) PATH="$(abspath $(TOOLS))/bin:$$PATH" deploy/release $(PACKED) $(PACKAGE_DIR)/release
	@ls -l $(PACKAGE_DIR)/release

# The tests of packages take the ordinary build: link-time optimisation changes none of what they test.
PACKAGE_TEST = $(STEP) $@ $(1) tests/packages/$(@:-test=) $(or $(BINARY),$(BIN))
deb-test: build package-tools ## Install, start, crash, upgrade and purge the Debian package under systemd (as root)
	@$(call PACKAGE_TEST,5)

image-test: build package-tools ## Unpack the images and run them in a chroot (as root)
	@$(call PACKAGE_TEST,8)

wheel-test: build package-tools ## Install the wheel with pip and cut out a photo
	@$(call PACKAGE_TEST,3)

npm-test: build package-tools ## Install the npm package and cut out a photo
	@$(call PACKAGE_TEST,3)

release-test: build package-tools release-tools ## Build a release of the ordinary build and check it
	@SBOM_FEATURES=$(if $(filter yes,$(GPU)),$(ALL_FEATURES),heic) PATH="$(abspath $(TOOLS))/bin:$$PATH" $(call PACKAGE_TEST,10)

release-tools:
	@[ -x $(TOOLS)/bin/cargo-cyclonedx ] || command -v cargo-cyclonedx >/dev/null \
	  || cargo install --quiet --locked --root $(TOOLS) --version 0.5.9 cargo-cyclonedx

# The tests of every change. Each step has a time budget (tests/README.md). The fastest checks come first; clippy and
# rustdoc share the metadata of the dependencies, the tests their code. Where the GPU stack is built, the GPU kernels' tests
# run too, on any available Vulkan device.
test: test-packages format lint doc tests ## Format, lints, documentation, tests

format: ## rustfmt
	@$(STEP) format 1 cargo fmt --all --check

lint: packages ## clippy, warnings are errors
	@$(STEP) lint 8 cargo clippy --release --locked $(LINT_FEATURES) --workspace --all-targets -- -D warnings

doc: packages ## rustdoc, warnings are errors
	@RUSTDOCFLAGS='-D warnings' $(STEP) doc 2 cargo doc --release --locked $(LINT_FEATURES) --workspace --no-deps

tests: test-packages ## Unit, integration, golden and layering tests
	@$(STEP) build 18 $(MAKE) --no-print-directory build-tests
	@mkdir -p target
	@if ! $(MAKE) --no-print-directory test-onnxruntime; then \
	  [ "$${WITHOUT_PYPI:-}" = skip ] || exit 1; \
	  $(STEP) --skipped 'ONNX Runtime cannot be had from PyPI; added models were NOT tested'; \
	  export BACKDROP_TEST_ONNXRUNTIME=skip; \
	fi; \
	$(if $(filter yes,$(GPU)),BACKDROP_TEST_DEVICE=gpu) $(STEP) tests 20 $(MAKE) --no-print-directory --keep-going run-tests 2>&1 | tee target/test.log
	@awk '/^test result: / { ok += $$4; failed += $$6; ignored += $$8; binaries++ } \
	  END { printf "\ntest result: %s. %d passed; %d failed; %d ignored; in %d test binaries\n", failed ? "FAILED" : "ok", ok, failed, ignored, binaries }' target/test.log | tee target/test.summary

# The library that runs added models, as users get it.
test-onnxruntime: conformance-packages
	@[ -x $(ONNXRUNTIME)/bin/pip ] || python3 -m venv --clear $(ONNXRUNTIME)
	@$(ONNXRUNTIME)/bin/pip install $(QUIETLY) $$(grep -oE '^onnxruntime==[0-9.]+' benches/peers/requirements.txt)

build-tests: build
	$(UNIT_TESTS) --no-run
	$(TESTS) --no-run

run-tests: run-unit-tests run-integration-tests

run-unit-tests:
	@$(UNIT_TESTS)

run-integration-tests:
	@$(TESTS) --no-fail-fast

gpu-twins: test-packages ## Build the GPU stack, and compare its functions with the CPU's on any Vulkan device
	@$(STEP) gpu-build 15 $(TWINS) --no-run
	@BACKDROP_TEST_DEVICE=gpu $(STEP) gpu-twins 8 $(TWINS) -- on_gpu every_gpu_twin

features: test-packages ## Check every feature alone, none, and with the declared rust-version
	@$(STEP) features 7 tests/features

golden: build test-packages ## Compare masks, mattes and responses with the golden set
	$(TESTS) --test it golden::

golden-update: build test-packages ## Show the changes of the golden set, and record them after a y
	$(TESTS) --test it -- --ignored --exact golden::update --nocapture

# schemathesis and its requirements are installed from PyPI into a virtual environment. Without them this fails, because the
# contract would be unchecked. On a machine without access to PyPI set WITHOUT_PYPI=skip.
conformance: conformance-packages build ## Check a daemon against schemas/openapi.yaml
	@if { [ -x $(CONFORMANCE)/bin/pip ] || python3 -m venv --clear $(CONFORMANCE); } \
	  && $(CONFORMANCE)/bin/pip install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt; then \
	  $(STEP) openapi 1 $(CONFORMANCE)/bin/python tests/conformance/validate.py \
	  && $(STEP) conformance 3 $(CONFORMANCE)/bin/python tests/conformance/run.py $(BIN) \
	  && $(STEP) generated 1 $(CONFORMANCE)/bin/python tests/conformance/generated.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'schemathesis cannot be had from PyPI; the contract was NOT held against a daemon'; \
	else exit 1; fi
	@$(MAKE) --no-print-directory compat

# The clients are installed from PyPI and npm (needs node) into separate folders; Ruby's runs if the gem is installed.
compat: conformance-packages build ## Test a daemon with the clients of remove.bg, rembg and Photoroom
	@if { [ -x $(COMPAT)/venv/bin/pip ] || python3 -m venv --clear $(COMPAT)/venv; } \
	  && $(COMPAT)/venv/bin/pip install --quiet --disable-pip-version-check -r tests/clients/compat-requirements.txt \
	  && $(MAKE) --no-print-directory npm-packages \
	  && npm install --silent --no-audit --no-fund --prefix $(COMPAT)/npm remove.bg@1.3.0; then \
	  $(STEP) compat 3 $(COMPAT)/venv/bin/python tests/clients/compat.py $(BIN) $(COMPAT)/npm; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'remove.bg or removebg cannot be had from npm and PyPI; the drop-in routes were NOT tested with real clients'; \
	else exit 1; fi

# The Python example needs requests, which the environment of `make conformance` has, the JavaScript one node.
examples: conformance-packages build ## Run the programs of examples/ against a daemon
	@if { [ -x $(CONFORMANCE)/bin/pip ] || python3 -m venv --clear $(CONFORMANCE); } \
	  && $(CONFORMANCE)/bin/pip install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt \
	  && $(MAKE) --no-print-directory npm-packages; then \
	  cargo build $(CARGO_FLAGS) --example cut_out \
	  && $(STEP) examples 2 $(CONFORMANCE)/bin/python tests/clients/examples.py $(BIN) $(dir $(BIN))examples/cut_out; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'requests or node cannot be had from PyPI and Debian; the examples were NOT run'; \
	else exit 1; fi

# cargo-deny is built into a folder of its own where it is not installed, without the link-time optimisation of its own
# profile. It reads the crates of all platforms, of which a build has fetched only some. The advisories come from GitHub. On a
# machine without access to them set WITHOUT_PYPI=skip. `tests/lock_file.rs` checks the lock file itself, everywhere.
audit: packages ## Check advisories, licences, sources and version requirements of all crates with cargo-deny
	@deny=$$(command -v cargo-deny || echo $(DENY)/bin/cargo-deny); \
	if { [ -x "$$deny" ] || $(STEP) cargo-deny 5 env CARGO_TARGET_DIR=$(DENY)/build $(DENY_PROFILE) cargo install --quiet --locked --root $(DENY) cargo-deny@$(DENY_VERSION); } \
	  && cargo fetch --quiet --locked; then \
	  $(STEP) audit 2 "$$deny" --locked --offline check bans licenses sources; \
	  if "$$deny" --locked fetch db >/dev/null 2>&1; then \
	    $(STEP) advisories 2 "$$deny" --locked --offline check advisories; \
	  elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	    $(STEP) --skipped 'the advisories cannot be had from GitHub; crates were NOT compared with them'; \
	  else exit 1; fi; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'cargo-deny or a crate cannot be had from crates.io; licences and advisories were NOT checked'; \
	else exit 1; fi

# moto and its requirements are installed from PyPI, azurite from npm (needs node), into separate folders. On a machine
# without access to them set WITHOUT_PYPI=skip.
MOTO = { [ -x $(OBJECTS)/venv/bin/pip ] || python3 -m venv --clear $(OBJECTS)/venv; } \
  && $(OBJECTS)/venv/bin/pip install --quiet --disable-pip-version-check -r tests/objects/requirements.txt

storage: conformance-packages build ## Run `backdrop bulk` against S3 and Azure servers on this machine
	@if $(MOTO) \
	  && $(MAKE) --no-print-directory npm-packages \
	  && npm install --silent --no-audit --no-fund --prefix $(OBJECTS)/npm azurite@3.35.0; then \
	  AZURITE=$(OBJECTS)/npm/node_modules/.bin/azurite-blob $(STEP) storage 3 $(OBJECTS)/venv/bin/python tests/objects/run.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'moto or azurite cannot be had from PyPI and npm; storage was NOT tested against real servers'; \
	else exit 1; fi

# playwright-core and axe-core are installed from npm (needs node); the browser is Debian's. On a machine without access to npm
# and Debian's packages set WITHOUT_PYPI=skip. UPDATE=yes also writes the screenshots of docs/page.
page-test: build ## Test the page and the reference in Chromium: every tab, keyboard, 320 px, accessibility
	@if $(MAKE) --no-print-directory page-packages \
	  && npm install --silent --no-audit --no-fund --prefix $(PAGE) playwright-core@1.65.1 axe-core@4.14.1; then \
	  $(STEP) page 3 node tests/page/run.mjs $(BIN) $(PAGE) $(if $(filter yes,$(UPDATE)),--update); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'chromium, playwright-core or axe-core cannot be had from Debian and npm; the page was NOT tested in a browser'; \
	else exit 1; fi

# Latency, throughput and the highest rate with p90 within a second; each with a record and a report in target/bench.
bench: build ## Measure the speed on this machine
	@mkdir -p $(BENCH)
	$(BIN) bench $(PHOTOS) --scenario single-stream --out $(BENCH)/single-stream.json --html $(BENCH)/single-stream.html
	$(BIN) bench $(PHOTOS) --scenario offline --out $(BENCH)/offline.json --html $(BENCH)/offline.html
	$(BIN) bench $(PHOTOS) --scenario server --latency-bound 1000 --percentile 90 --out $(BENCH)/server.json --html $(BENCH)/server.html
	$(STEP) $@ 60 cargo bench --locked --profile release $(FEATURES)

# PEERS_PHOTOS is a folder of photos to take instead of the bundled one; ROWS are rows by the start of their names.
bench-peers: build peers-packages ## Time ONNX Runtime, rembg, PyMatting and Pillow beside this program, in turn
	$(STEP) $@ 30 $(PEERS)/venv/bin/python benches/peers/run.py --binary $(BIN) --stages "$(PEERS_STAGES)" --output $(PEERS)/results \
	  --rounds $(ROUNDS) $(if $(PEERS_PHOTOS),--photos "$(PEERS_PHOTOS)") $(if $(ROWS),--only $(ROWS))

roofline: build peers-packages ## Compare each stage with the limits of this machine's memory and arithmetic
	$(STEP) $@ 10 $(PEERS)/venv/bin/python benches/peers/roofline.py --binary $(BIN) --stages "$(PEERS_STAGES)" --output $(PEERS)/roofline

halo: build peers-packages ## Compare the residue of old backgrounds with rembg's, on rendered pictures
	$(STEP) $@ 10 env FEATURES="$(FEATURES)" $(PEERS)/venv/bin/python benches/peers/halo/compare.py $(PEERS)/halo $(HALO)

ONNX_PACKAGES := $(PEERS)/venv/bin/pip install $(QUIETLY) $$(grep -E '^(onnx|onnxruntime|numpy|pillow)==' benches/peers/requirements.txt | sed 's/ .*//')

# On a machine without access to PyPI set WITHOUT_PYPI=skip.
export-test: build ## Export the shipped weights to ONNX, and compare a mask with the kernels'
	@if $(MAKE) --no-print-directory peers-environment \
	  && $(ONNX_PACKAGES); then \
	  $(STEP) export 1 $(PEERS)/venv/bin/python benches/peers/network.py --stages "$(PEERS_STAGES)" --output $(PEERS)/export; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'onnxruntime cannot be had from PyPI; the export of the weights was NOT tested'; \
	else exit 1; fi

# On a machine without access to PyPI and npm set WITHOUT_PYPI=skip.
models-test: build ## Add IS-Net's published file, and compare masks with those of ONNX Runtime in Python
	@if $(MAKE) --no-print-directory peers-environment npm-packages \
	  && $(ONNX_PACKAGES); then \
	  $(STEP) models 10 $(PEERS)/venv/bin/python benches/peers/published.py --binary $(BIN) --output $(PEERS)/published; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'onnxruntime or npm cannot be had from PyPI and Debian; IS-Net was NOT tested'; \
	else exit 1; fi

PEERS_STAGES := cargo bench --quiet --locked --profile release $(FEATURES) --bench peers -- --requests
peers-packages: peers-environment
	@$(PEERS)/venv/bin/pip install $(QUIETLY) -r benches/peers/requirements.txt

peers-environment: conformance-packages
	@[ -x $(PEERS)/venv/bin/pip ] || python3 -m venv --clear $(PEERS)/venv
	cargo bench --locked --profile release $(FEATURES) --bench peers --no-run

# The nightly tests: the long ones. Each step is a target with a time limit; a failed step does not stop the others.
NIGHTLY := tests bench bench-peers roofline halo objects-bench cluster-bench train-test audit features kill-storm cluster-test manifests power-loss fuzz fuzz-address soak overload clients gpu-parity large-pictures many-keys conformance export-test models-test storage page-test deb-test image-test wheel-test npm-test release-test
nightly: ## All long tests: fuzz, soak, kill storms, power loss, real clients, GPU parity at full size, packages, benchmarks
	@$(STEP) --forget
	@failed=; for step in $(NIGHTLY); do $(MAKE) --no-print-directory $$step GPU=yes ROUNDS=1 || failed="$$failed $$step"; done; \
	  $(STEP) --summary; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

objects-bench: conformance-packages build ## Time a bulk run from S3 to S3 beside a run on a folder
	@$(MOTO)
	@$(STEP) $@ 5 $(OBJECTS)/venv/bin/python tests/objects/bench.py $(BIN) tests/golden/pictures

train-test: conformance-packages ## Test the training program, and time the network in PyTorch
	@[ -x $(TRAIN)/bin/pip ] || python3 -m venv --clear $(TRAIN)
	@$(TRAIN)/bin/pip install $(QUIETLY) -r weights/train/requirements.txt
	@$(STEP) $@ 5 env -C weights/train $(abspath $(TRAIN))/bin/python -m pytest -q tests
	@$(STEP) torch-network 5 $(TRAIN)/bin/python benches/peers/torch_network.py

# One integration test, or a module of them, with many rounds; the time limit excludes the build.
long = $(MAKE) --no-print-directory build && $(TESTS) --test it --no-run && BACKDROP_TEST_TIER=nightly BACKDROP_TEST_MINUTES=$(MINUTES) $(STEP) $(1) $(2) $(TESTS) --test it -- --nocapture $(3)

kill-storm: test-packages ## Kill daemons, clips and bulk runs repeatedly
	@$(call long,kill-storm,40,crash)

# The builds with the instrumentation of libFuzzer, without and with the address sanitizer, are of their own: 20 minutes each.
# TARGETS are some of fuzz/targets.
FUZZ = $(STEP) $@ $$(($(SECONDS) * $(words $(or $(TARGETS),$(wildcard fuzz/targets/*.rs))) / 60 + 20)) fuzz/run $(SECONDS) $(TARGETS)
fuzz: packages ## Run each fuzz target for SECONDS
	@$(FUZZ)

fuzz-address: packages ## Run each fuzz target for SECONDS with the address sanitizer
	@SANITIZER=address $(FUZZ)

power-loss: test-packages ## Cut the store's file at 10,000 syncs and open what is left
	@cargo test $(CARGO_FLAGS) --lib --no-run
	@$(STEP) power-loss 10 cargo test $(CARGO_FLAGS) --lib -- --nocapture --ignored --exact \
	  store::tests::power_loss::after_ten_thousand_losses_of_power_every_acknowledged_change_is_there

soak: test-packages ## Load a daemon for MINUTES, kill it, and check from outside what it kept, billed and takes
	@$(call long,soak,$$(($(MINUTES) + 5)),--ignored --exact soak::a_daemon_under_mixed_load_to_which_everything_happens_loses_and_leaks_nothing)

overload: build ## Measure a daemon at three times the rate that it sustains: what it accepts keeps its latency
	@$(STEP) overload 8 benches/overload $(BIN)

large-pictures: test-packages ## Test every endpoint at 4096×4096 in every format, and a photo of 100 megapixels without a daemon
	@$(call long,large-pictures,20,--ignored --exact nightly::every_endpoint_accepts_the_largest_pictures nightly::a_photo_of_100_megapixels_is_cut_out_in_bounded_memory)

cluster-test: test-packages conformance-packages ## Run daemons and bulk workers on PostgreSQL; kill them and the server repeatedly
	@if $(MOTO); then export BACKDROP_TEST_MOTO=$(abspath $(OBJECTS))/venv/bin/moto_server; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'moto cannot be had from PyPI; daemons in the storm store results in a folder, NOT in an object store'; \
	else exit 1; fi; \
	$(call long,cluster-test,40,--test-threads 2 store::postgres store::several_processes store::upgrades daemon::cluster bulk::cluster bulk::http)

cluster-bench: test-packages ## Time the services of accounts on redb and on PostgreSQL, daemons on one database, and bulk runs on 1, 2 and 3 workers
	BACKDROP_BENCH_POSTGRES=yes cargo bench --locked --profile release $(FEATURES) --bench accounts
	cargo bench --locked --profile release $(FEATURES) --bench cluster_capacity
	cargo bench --locked --profile release $(FEATURES) --bench bulk_cluster

# The schemas come with a package of PyPI. On a machine without access to it set WITHOUT_PYPI=skip.
manifests: conformance-packages build ## Check deploy/kubernetes against the schemas of Kubernetes and against the binary
	@if { [ -x $(MANIFESTS)/bin/pip ] || python3 -m venv --clear $(MANIFESTS); } \
	  && $(MANIFESTS)/bin/pip install --quiet --disable-pip-version-check -r tests/kubernetes/requirements.txt; then \
	  $(STEP) manifests 1 $(MANIFESTS)/bin/python tests/kubernetes/validate.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'kubernetes-validate cannot be had from PyPI; the manifests were NOT checked'; \
	else exit 1; fi

many-keys: test-packages ## List a million keys of a bucket in bounded memory
	@$(call long,many-keys,5,--ignored --exact bulk::listing::a_million_keys_take_less_than_200_mb)

# Miri is part of nightly toolchains only: rustup toolchain install nightly --component miri.
miri: ## Run the portable kernels under Miri
	@$(STEP) miri 30 cargo +nightly miri test -p backdrop-kernels --no-default-features --test miri

gpu-parity: test-packages ## Compare the GPU with the CPU: kernels at 4096×4096, the golden set end to end
	@cargo test --release --locked --workspace --lib --test parity --no-run
	@BACKDROP_TEST_DEVICE=gpu $(STEP) gpu-parity 20 cargo test --release --locked --workspace --test parity -- --ignored --nocapture
	@BACKDROP_TEST_DEVICE=gpu $(STEP) gpu-golden 20 cargo test --release --locked --workspace --lib -- --ignored --nocapture the_golden_set_end_to_end

clients: conformance-packages build ## Test a daemon with curl, requests, httpx, aiohttp, urllib3 and node
	@{ [ -x $(CLIENTS)/bin/pip ] || python3 -m venv --clear $(CLIENTS); } \
	  && $(CLIENTS)/bin/pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
	@$(STEP) clients 5 $(CLIENTS)/bin/python tests/clients/run.py $(BIN)

clients-generate: conformance-packages ## Write the parts of clients/ that follow from schemas/openapi.yaml
	@$(PACKAGES_TOOLS)
	$(PACKAGES)/venv/bin/python clients/generate.py

# The clients are installed as users install them; their tools come from PyPI and npm (needs node 20.16 or later). The condition
# only downloads, the parts of the clients' own builds too: a client that cannot be built is a failure. With WITHOUT_PYPI=skip all
# but the test in Chromium also runs without Debian's packages.
clients-test: conformance-packages build ## Test the Python and TypeScript clients of clients/
	@$(MAKE) --no-print-directory page-packages || [ "$${WITHOUT_PYPI:-}" = skip ]
	@if $(PACKAGES_TOOLS) \
	  && $(PACKAGES)/venv/bin/pip download --quiet --disable-pip-version-check --no-deps --dest $(PACKAGES)/download hatchling httpx tqdm \
	  && $(MAKE) --no-print-directory npm-packages \
	  && npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(PACKAGES)/npm \
	    typescript@5.9.3 @types/node@20.19.43 pyright@1.1.414 \
	  && npm exec --silent --yes --package=typescript@5.9.3 -- tsc --version >/dev/null; then \
	  $(PACKAGES)/venv/bin/pip install --quiet --disable-pip-version-check ./clients/python \
	  && npm install --silent --no-audit --no-fund --prefix $(PACKAGES)/npm $(CURDIR)/clients/typescript \
	  && npm run --silent --prefix clients/typescript build \
	  && $(STEP) clients-test 3 $(PACKAGES)/venv/bin/python tests/clients/packages.py $(BIN) $(PACKAGES)/npm; \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  $(STEP) --skipped 'tools cannot be had from PyPI and npm; the clients were NOT tested, nor held against the contract'; \
	else exit 1; fi

PACKAGES_TOOLS = { [ -x $(PACKAGES)/venv/bin/pip ] || python3 -m venv --clear $(PACKAGES)/venv; } \
  && $(PACKAGES)/venv/bin/pip install --quiet --disable-pip-version-check -r tests/clients/packages-requirements.txt

packages:
	@$(call install,)

package-tools: packages
	@$(call install,for-packages)

test-packages:
	@$(call install,for-tests)

conformance-packages: packages
	@$(call install,for-conformance)

page-packages: packages
	@$(call install,for-page)

npm-packages: packages
	@$(call install,for-npm)

# Installs missing packages with apt-get, as root or through sudo; otherwise prints the command. Without apt-get the build
# reports what is missing. libheif is built from source (cmake, g++) and finds libde265 with pkg-config; ffmpeg reads and
# writes clips; Mesa's lavapipe is a software Vulkan device, for the tests of the GPU kernels; tests start PostgreSQL servers and
# HAProxy of their own.
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
if [ "$(1)" = for-npm ]; then need 'command -v npm' npm; fi; \
if [ "$(1)" = for-page ]; then need 'command -v chromium' chromium; need 'command -v npm' npm; fi; \
if [ "$(1)" = for-packages ]; then \
  need 'command -v dpkg-shlibdeps' dpkg-dev; \
  need 'command -v strip && command -v objdump' binutils; \
  for tool in patchelf jq umoci skopeo curl; do need "command -v $$tool" $$tool; done; \
  need 'command -v systemd-analyze' systemd; \
  need 'command -v systemd-nspawn' systemd-container; \
  need 'command -v npm' npm; \
  need 'command -v pgrep' procps; \
  need '/usr/bin/python3 -m wheel version' python3-wheel; \
  need 'python3 -c "import ensurepip"' python3-venv; \
  need 'test -e /etc/ssl/certs/ca-certificates.crt' ca-certificates; \
fi; \
if [ "$(1)" = for-tests ]; then \
  need 'command -v strace' strace; \
  need 'command -v cjpeg && command -v djpeg' libjpeg-turbo-progs; \
  need 'ls /usr/lib/*/faketime/libfaketimeMT.so.1' faketime; \
  need 'ls /usr/lib/postgresql/*/bin/initdb || command -v initdb' postgresql; \
  need 'ls /usr/sbin/haproxy || command -v haproxy' haproxy; \
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
