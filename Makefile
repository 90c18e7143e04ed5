# Everything here runs on this machine alone: the control plane for tests and the demo is built from Go modules and kept
# in ~/.cache/helmops. A machine with Rust, Go, make and a C compiler needs nothing else;
# `make fuzz` alone wants a C++ compiler too.

CARGO ?= cargo
# Programs are built with the whole workspace and run from this folder: `cargo run -p` would build each dependency once
# more, with the fewer features that one member needs.
TARGET = $(or $(CARGO_TARGET_DIR),target)
# The build that --version reports; only in release builds, since a change of it rebuilds everything.
COMMIT = $(shell git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)

.DEFAULT_GOAL = help
.PHONY: help demo test node-test node parity fleet-fields ui-test chaos soak lint fmt up down manifests truth bench image fuzz tools monitoring build

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build tools ## Deploy, upgrade, correct and remove a chart on an embedded control plane
	$(TARGET)/debug/testbed demo

test: tools monitoring ## Run all tests
	$(CARGO) build --workspace --exclude helmops-bench --all-targets --locked
	# More tests at a time than processors: most of them wait most of the time.
	rm -rf target/permissions && RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),6) HELMOPS_PERMISSIONS=$(CURDIR)/target/permissions $(CARGO) test --workspace --locked
	$(TARGET)/debug/testbed permissions target/permissions
	cd agent/helm && CGO_ENABLED=0 go test -trimpath ./...

node-test: build node ## Install helmops on a real node with containers, and check it there (root, Debian packages that it names): SECTIONS=, IMAGES=
	$(TARGET)/debug/node-test $(SECTIONS) $(addprefix --images=,$(IMAGES))

ui-test: build tools ## Test the pages of kubectl helmop ui in a real browser (installs Chromium), with pictures in target/ui
	command -v chromium || command -v chromium-browser || command -v google-chrome || $(if $(filter 0,$(shell id -u)),,sudo )apt-get install --yes --no-install-recommends chromium
	$(CARGO) test --locked --workspace --test e2e -- --ignored --nocapture cli::ui::pages

chaos: build tools ## Kill the controller 50 times while HelmOps come, change and go, and 20 times in roll-outs; an agent 30 times (10 minutes)
	HELMOPS_CHAOS_KILLS=50 $(CARGO) test --locked --workspace --test e2e -- --nocapture chaos::helmops
	HELMOPS_CHAOS_KILLS=20 $(CARGO) test --locked --workspace --test e2e -- --nocapture chaos::rollouts
	HELMOPS_CHAOS_KILLS=30 $(CARGO) test --locked --workspace --test e2e -- --nocapture chaos::agent

soak: build tools ## Write HelmOps for 10 minutes while certificates live for 60 s and replicas of the webhook are restarted
	HELMOPS_SOAK_SECONDS=600 $(CARGO) test --locked --workspace --test e2e -- --nocapture certificates::soak

lint: tools ## Check format, lints, documentation, generated files and dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --document-private-items --quiet
	tests/lint/chart & chart=$$!; tests/lint/structure && wait $$chart
	# Advisories want their database from the network; CI checks those too. To build cargo-deny takes minutes, so it is not
	# built here.
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --locked check licenses bans sources; \
	else echo "lint: cargo-deny is not installed, so deny.toml is not checked; see .github/workflows/ci.yaml"; fi
	# With the flags of tests/tools/build, whose cache it shares then.
	for module in tests/truth tests/tools/collector agent/helm; do \
		(cd $$module && CGO_ENABLED=0 go vet -trimpath ./... && test -z "$$(gofmt -l .)") || exit 1; \
	done

fmt: ## Format the code
	$(CARGO) fmt --all
	gofmt -w tests/truth tests/tools/collector agent/helm

up: build tools ## Start a control plane with helmops, its agent and a chart repository, and print its KUBECONFIG
	$(TARGET)/debug/testbed up --helmops --nodes

down: build ## Stop what `make up` started
	$(TARGET)/debug/testbed down

manifests: build ## Generate the CRDs in manifests from the types, and the reference pages
	$(TARGET)/debug/examples/crds manifests
	tests/lint/generate $(TARGET)/debug/examples docs

truth: ## Generate the truth tables of shared/semver, shared/index, shared/go, shared/gotmpl and shared/core from the Go modules that they are about
	cd tests/truth && go run . semver ../../shared/semver/tests/truth && go run . index ../../shared/index/tests/truth && \
	go run . tags ../../shared/index/tests/truth && go run . go ../../shared/go/tests/truth && go run . gotmpl ../../shared/gotmpl/tests/truth && \
	go run . quartz ../../shared/core/tests/truth

fleet-fields: build ## Record the fields of the CRDs of another version of Fleet, CRDS= its charts/fleet-crd/templates/crds.yaml
	$(TARGET)/debug/examples/fleet_fields <$(CRDS) >$(TARGET)/fleet-fields.txt
	cp $(TARGET)/fleet-fields.txt shared/api/tests/fleet/fields.txt

parity: build tools ## Deploy each chart archive of the folder CHARTS= with Helm and with helmops, and compare; or convert the HelmReleases of HELMRELEASES= (docs/parity.md)
	$(TARGET)/debug/parity $(or $(CHARTS),$(addprefix --helmreleases=,$(HELMRELEASES)),$(error CHARTS=FOLDER has the archives, or HELMRELEASES=FOLDER the HelmReleases)) $(PARITY_FLAGS)

bench: tools ## Measure the webhook under load, the reader of indexes beside Helm's, the controller, the delivery to clusters, the agent beside Helm by hand, kubectl helmop, and the messages of Alerts
	HELMOPS_COMMIT=$(COMMIT) $(CARGO) build --release --workspace --bins --locked
	$(TARGET)/release/admission-bench
	$(TARGET)/release/index-bench
	$(TARGET)/release/controller-bench
	$(TARGET)/release/delivery-bench
	HELMOPS_COMMIT=$(COMMIT) $(CARGO) build --profile small -p helmops-agent --locked
	$(TARGET)/release/agent-bench --agent $(TARGET)/small/helmops-agent
	HELMOPS_COMMIT=$(COMMIT) $(CARGO) build --profile cli -p helmops-cli --locked
	$(TARGET)/release/cli-bench --program $(TARGET)/cli/kubectl-helmop
	$(TARGET)/release/notify-bench

image: build tools ## Build the images (needs buildah), say what is in them, and run their programs
	image/build
	image/sbom
	$(TARGET)/debug/image-check $(TARGET)/image/helmops-[0-9]*.oci.tar $(TARGET)/image/helmops-agent-*.oci.tar

fuzz: ## Fuzz the readers of foreign texts, each for FUZZ_SECONDS=60 (needs a C++ compiler)
	CARGO="$(CARGO)" fuzz/run

tools:
	@tests/tools/build cluster > /dev/null
	@tests/tools/build agent > /dev/null

monitoring:
	@tests/tools/build monitoring > /dev/null
	@tests/tools/build collector > /dev/null
	@tests/tools/build alertmanager > /dev/null

node: tools
	@for set in node containerd coredns kube-router; do tests/tools/build $$set > /dev/null; done

# With examples, cargo selects the features that tests need, so that `make test` builds no dependency again.
build:
	$(CARGO) build --workspace --exclude helmops-bench --bins --examples --locked
