# The ways into this project. Needs Rust (https://rustup.rs) and, on Debian or Ubuntu, nothing else: the packages below
# are installed when they are missing. Elsewhere install their counterparts by hand.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# One profile for everything, so that nothing is built twice.
CARGO_FLAGS := --release --locked
# The tests' dependencies switch on features of ours. Building one small test beside the binary makes cargo settle on the
# same features as `cargo test` does, so that `make demo` and `make test` share one build.
BUILD := --bin backdrop --test layering
BIN := $(or $(CARGO_TARGET_DIR),target)/release/backdrop
# What `make demo` writes, and where `make serve` keeps accounts and keys.
DEMO := target/demo
DATA := target/serve-data
# What `make conformance` installs into.
CONFORMANCE := target/conformance
# What `make storage` installs into.
OBJECTS := target/objects
PHOTOS := tests/photos/astronaut.jpg tests/photos/chelsea.png

.PHONY: help demo serve test conformance storage bench packages test-packages conformance-packages

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: packages ## Cut out the bundled photos and draw them before and after
	cargo build $(CARGO_FLAGS) $(BUILD)
	@rm -rf $(DEMO)
	@$(BIN) remove $(PHOTOS) -o $(DEMO) --jobs 1 --contact-sheet $(DEMO)/contact-sheet.png
	@echo
	@echo "Cutouts:      $(DEMO)/*.png"
	@echo "Look at:      $(DEMO)/contact-sheet.png"
	@echo
	@echo "Next:         $(BIN) remove your-photo.jpg -o cutout.png"
	@echo "A server:     make serve"
	@echo "All commands: $(BIN) --help"

serve: packages ## Run the daemon on http://127.0.0.1:8080
	cargo build $(CARGO_FLAGS) $(BUILD)
	$(BIN) serve --data-dir $(DATA)

# The cheap checks come first. Clippy and rustdoc share the metadata of the dependencies; only the tests need their code.
# The GPU kernels' tests run with the others, on whatever Vulkan device there is.
test: test-packages ## Format, lints, documentation, tests
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc $(CARGO_FLAGS) --workspace --no-deps
	@mkdir -p target
	BACKDROP_TEST_DEVICE=gpu cargo test $(CARGO_FLAGS) --workspace --no-fail-fast 2>&1 | tee target/test.log
	@awk '/^test result: / { ok += $$4; failed += $$6; ignored += $$8; binaries++ } \
	  END { printf "\ntest result: %s. %d passed; %d failed; %d ignored; in %d test binaries\n", failed ? "FAILED" : "ok", ok, failed, ignored, binaries }' target/test.log

# schemathesis and what it needs come from PyPI, into an environment of their own. Without them this fails: a contract that
# nobody checked is not a contract that was kept. A machine that has no way to PyPI may say so with WITHOUT_PYPI=skip.
conformance: conformance-packages ## Hold a daemon against schemas/openapi.yaml
	cargo build $(CARGO_FLAGS) $(BUILD)
	@if { [ -x $(CONFORMANCE)/bin/pip ] || python3 -m venv --clear $(CONFORMANCE); } \
	  && $(CONFORMANCE)/bin/pip install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt; then \
	  $(CONFORMANCE)/bin/python tests/conformance/run.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  printf '\n*** SKIPPED: schemathesis cannot be had from PyPI; the contract was NOT held against a daemon ***\n\n'; \
	else exit 1; fi

# moto and what it needs come from PyPI, azurite from npm (which needs node), into folders of their own. A machine that has
# no way to them may say so with WITHOUT_PYPI=skip.
storage: conformance-packages ## Run `backdrop bulk` against S3 and Azure servers on this machine
	cargo build $(CARGO_FLAGS) $(BUILD)
	@if { [ -x $(OBJECTS)/venv/bin/pip ] || python3 -m venv --clear $(OBJECTS)/venv; } \
	  && $(OBJECTS)/venv/bin/pip install --quiet --disable-pip-version-check -r tests/objects/requirements.txt \
	  && npm install --silent --no-audit --no-fund --prefix $(OBJECTS)/npm azurite@3.35.0; then \
	  AZURITE=$(OBJECTS)/npm/node_modules/.bin/azurite-blob $(OBJECTS)/venv/bin/python tests/objects/run.py $(BIN); \
	elif [ "$${WITHOUT_PYPI:-}" = skip ]; then \
	  printf '\n*** SKIPPED: moto or azurite cannot be had from PyPI and npm; storage was NOT tested against real servers ***\n\n'; \
	else exit 1; fi

bench: packages ## Measure the speed on this machine
	cargo build $(CARGO_FLAGS) $(BUILD)
	$(BIN) bench $(PHOTOS) --seconds 10 --jobs 1
	$(BIN) bench $(PHOTOS) --seconds 10 --jobs 8
	cargo bench --locked --profile release

packages:
	@$(call install,)

test-packages:
	@$(call install,for-tests)

conformance-packages: packages
	@$(call install,for-conformance)

# Installs what is missing with apt-get: as root, or through sudo; else says what to run. Without apt-get the build tells
# what it lacks. libheif is built from source (cmake, g++) and finds libde265 with pkg-config; ffmpeg reads
# and writes clips; Mesa's lavapipe is a
# Vulkan device in software, for the tests of the GPU kernels.
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
if [ "$(1)" = for-tests ]; then \
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
