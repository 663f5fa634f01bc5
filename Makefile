# Every command of the project. `make` lists them.
# The Kubernetes of the testbed: the newest that is supported, or an older one (`make test KUBERNETES=1.36`).
NEWEST := 1.37
TESTBED := tests/testbed/bin/testbed$(addprefix -,$(filter-out $(NEWEST),$(KUBERNETES)))
E2E := tests/e2e/bin/e2e.test
HELM := tests/helm/bin/helm
FLUXQUEUE := target/release/fluxqueue
# The manifests that Fluxqueue needs in a testbed.
INSTALL := $(foreach file,crds/fluxjobs crds/fluxqueues base/namespace base/rbac base/admission-policy base/records-policy \
	base/own-writes-policy base/required-policy,--install manifests/chart/files/$(file).yaml)

# `make install PREFIX=/usr DESTDIR=package` puts the programs into package/usr/bin.
PREFIX ?= /usr/local
RELEASE_TOOLS := release/tools/bin/regctl tests/helm/bin/helm

.PHONY: help site build command install release release-tools release-test release-twice release-ways release-packages workflows upgrade demo-binaries library testbed helm helm3 alerts dashboards demo test attacks oracle panics bench bench-cluster simulation saboteurs digests e2e fuzz miri structure lint docs crds reference

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build fluxqueue, optimised
	@test -e $(FLUXQUEUE) || echo "== Building Fluxqueue: some minutes the first time"
	cargo build --release --locked --bin fluxqueue

command: ## build target/release/kubectl-fluxqueue, which kubectl runs as `kubectl fluxqueue`
	cargo build --release --locked -p kubectl-fluxqueue

install: build command ## install fluxqueue, kubectl-fluxqueue and completions for shells into PREFIX (/usr/local), below DESTDIR
	release/install.sh '$(DESTDIR)$(PREFIX)'

library: ## build target/release/libfluxion_sys.so and its link libreapi_cli.so, for programs written for Fluxion
	cargo build --release --locked -p fluxion-sys
	ln -sf libfluxion_sys.so target/release/libreapi_cli.so

testbed: ## build the control plane that tests and demo run on
	@test -e $(TESTBED) || echo "== Building the testbed (etcd and Kubernetes): about 5 minutes the first time, on two cores"
	$(MAKE) --no-print-directory -C tests/testbed build

helm: ## build Helm, for the tests of the chart
	@test -e $(HELM) || echo "== Building Helm: about 2 minutes the first time, on two cores"
	$(MAKE) --no-print-directory -C tests/helm build

# Helm 3 renders notes only beside an API server, so two tests of them are left out.
helm3: testbed ## try the chart with Helm 3 instead of 4: lint it, and run its tests on a control plane
	@test -e tests/helm3/bin/helm || echo "== Building Helm 3: about 2 minutes the first time, on two cores"
	$(MAKE) --no-print-directory -C tests/helm3 build
	tests/helm3/bin/helm lint --strict manifests/chart --values tests/helm/image.yaml
	FLUXQUEUE_HELM='$(CURDIR)/tests/helm3/bin/helm' cargo test --workspace --locked --test cluster -- chart \
		--skip the_notes_say --skip the_default_walltime

alerts: ## try each alert of the chart with and without its cause, and compare alerts and dashboards with the metrics
	@test -e tests/alerts/bin/promtool || echo "== Building promtool: about 2 minutes the first time, on two cores"
	$(MAKE) --no-print-directory -C tests/alerts test

dashboards: testbed ## ask each query of the dashboards of a Prometheus that scrapes Fluxqueue on a control plane
	@test -e tests/alerts/bin/prometheus || echo "== Building Prometheus: about 3 minutes the first time, on two cores"
	$(MAKE) --no-print-directory -C tests/alerts prometheus
	cargo test --workspace --locked --test cluster -- monitoring:: --ignored --nocapture

# This profile builds quickly and runs slowly: a demo is not measured.
demo-binaries:
	@test -e target/demo/board || echo "== Building Fluxqueue and the demo's board: some minutes the first time"
	cargo build --profile demo --locked -p fluxqueue --bin fluxqueue -p fluxqueue-demo --bin board

demo: ## show Fluxqueue at work (KEEP=1 keeps the cluster; CLUSTER=kind-NAME uses that one)
	@$(MAKE) --no-print-directory -j2 demo-binaries $(if $(CLUSTER),,testbed)
	@CLUSTER="$(CLUSTER)" KEEP="$(KEEP)" demo/demo.sh

test: testbed helm alerts ## run all tests: unit, property, simulation, the testbed's own, and those on a real control plane (KUBERNETES=1.36 or 1.35: an older one; WORKLOAD_WITH_JOB=1: each Job has a PodGroup)
	$(MAKE) --no-print-directory -C tests/testbed test
	cargo test --workspace --locked

# One after the other: some of them measure how long others wait meanwhile.
attacks: testbed helm ## run attacks of tenants on each other, on a control plane (ONLY=name of a test or module)
	cargo test --workspace --locked --test cluster -- attacks::$(ONLY) --include-ignored --test-threads=1

saboteurs: ## try each saboteur, and write the first seed that catches it into docs/internals/simulation.md
	UPDATE_GOLDEN=1 FLUXQUEUE_SIM_SABOTAGE=all cargo test --workspace --locked --test simulation

digests: ## print a digest of each of 24 simulated runs (RUNS) of every kind: a change that moves or renames leaves them as they are
	FLUXQUEUE_SIM_DIGESTS=$(or $(RUNS),24) cargo test --workspace --locked --test simulation

simulation: ## simulate two million steps (SEEDS worlds, 720, of 2,800) with queues, limits, edits and stops, and half as many worlds with an adversary, and as many with PodGroups, from seed FROM (1) on
	FLUXQUEUE_SIM_QUEUES=1 FLUXQUEUE_SIM_SEEDS=$(or $(SEEDS),720) FLUXQUEUE_SIM_FROM=$(or $(FROM),1) \
		cargo test --workspace --locked --test simulation
	FLUXQUEUE_SIM_ADVERSARY=1 FLUXQUEUE_SIM_SEEDS=$$(($(or $(SEEDS),720) / 2)) FLUXQUEUE_SIM_FROM=$(or $(FROM),1) \
		cargo test --workspace --locked --test simulation
	FLUXQUEUE_SIM_GROUPS=1 FLUXQUEUE_SIM_SEEDS=$$(($(or $(SEEDS),720) / 2)) FLUXQUEUE_SIM_FROM=$(or $(FROM),1) \
		cargo test --workspace --locked --test simulation

oracle: testbed ## compare CASES (1,000,000) random pods and clusters with kube-scheduler's own plugins, and a tenth as many scores
	FLUXQUEUE_ORACLE_CASES=$(or $(CASES),1000000) cargo test --workspace --locked --test oracle -- --nocapture

panics: ## see that no panic leaves the shared library, built as it is shipped
	cargo test --workspace --locked --test panics -- --include-ignored

bench: ## measure the resource graph and the core
	cargo bench --locked

bench-cluster: build testbed ## measure bindings per second against kube-scheduler, on one control plane (FLAGS of `testbed bench`)
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(TESTBED) bench --dir "$$dir" --nodes tests/testbed/nodes/bench.yaml \
		--fluxqueue $(FLUXQUEUE) --namespace fluxqueue-system --serviceaccount fluxqueue \
		$(INSTALL) $(FLAGS)

# Preemption is missing yet, and features that are off by default are off in the testbed too.
E2E_FOCUS := \[sig-scheduling\]
E2E_SKIP := SchedulerPreemption|\[Feature:OffByDefault\]
# The specs about Workloads and PodGroups are off by default, and their gates are on for them.
WORKLOAD_SPECS := GangScheduling|\[sig-scheduling\] Workload|Workload and PodGroup
e2e: testbed ## run Kubernetes' own scheduling specs, with kube-scheduler and with Fluxqueue (FOCUS, SKIP, POLICY; WORKLOAD_WITH_JOB=1: those about Workloads and PodGroups)
	@test -e $(E2E) || echo "== Building Kubernetes' end-to-end suite: about 5 minutes the first time, on two cores"
	$(MAKE) --no-print-directory -C tests/e2e build
	cargo build --locked --bin fluxqueue
	mkdir -p target/e2e
	$(TESTBED) e2e --dir target/e2e --suite $(E2E) --nodes tests/testbed/nodes/e2e.yaml \
		--focus '$(or $(FOCUS),$(if $(WORKLOAD_WITH_JOB),$(WORKLOAD_SPECS),$(E2E_FOCUS)))' \
		--skip '$(or $(SKIP),$(if $(WORKLOAD_WITH_JOB),Preemption,$(E2E_SKIP)))' $(if $(WORKLOAD_WITH_JOB),--workload-with-job) \
		--fluxqueue target/debug/fluxqueue --flag=--policy=$(or $(POLICY),spread) \
		--namespace fluxqueue-system --serviceaccount fluxqueue $(INSTALL) \
		--install tests/e2e/every-pod.yaml > target/e2e/outcomes.md; code=$$?; cat target/e2e/outcomes.md; exit $$code

fuzz: ## run each fuzz target (or TARGETS) for SECONDS (60), or RUNS inputs; needs cargo-fuzz and a nightly compiler (SANITIZER=none: ten times faster)
	for target in $(or $(TARGETS),$(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))); do mkdir -p fuzz/corpus/$$target; \
		cargo +nightly fuzz run --sanitizer $(or $(SANITIZER),address) $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(or $(SECONDS),$(if $(RUNS),0,60)) $(addprefix -runs=,$(RUNS)) -timeout=10 -max_len=1048576 || exit; done

miri: ## run the tests of the C boundary under Miri; needs a nightly compiler with that component
	cargo +nightly miri test -p fluxion-sys --test memory

structure: ## record smaller numbers for the structure of the code; `make test` fails if they grow
	UPDATE_NUMBERS=1 cargo test --locked -p fluxqueue-structure

lint: ## formatting and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Links to files of the repository lead to REPOSITORY, an address such as https://github.com/OWNER/NAME/blob/main.
site: ## build the pages in docs/ as a site, in target/site, with mdBook
	@test -x target/tools/bin/mdbook || echo "== Building mdBook: about 4 minutes the first time, on two cores"
	@test -x target/tools/bin/mdbook || cargo install --locked --profile dev --root target/tools mdbook@0.5.4
	target/tools/bin/mdbook build site

docs: ## build the API documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

reference: ## write docs/reference.md and docs/bounds.md from the code
	UPDATE_GOLDEN=1 cargo test --locked -p fluxqueue --lib reference

crds: ## write manifests/chart/files/crds from the Rust types
	UPDATE_GOLDEN=1 cargo test --locked -p fluxqueue-api crd

release-tools: ## install the tools for a release that cargo and Go can build: cargo-cyclonedx, regctl, krew, actionlint, Helm
	release/install-tools.sh
	$(MAKE) --no-print-directory $(RELEASE_TOOLS) release/krew/bin/krew

release/tools/bin/%: release/tools/go.mod
	cd release/tools && go build -o bin/ tool

release/krew/bin/krew: release/krew/go.mod
	cd release/krew && go build -o bin/ tool

tests/helm/bin/helm:
	$(MAKE) --no-print-directory helm

release: ## make a release of this commit in target/release-VERSION (RELEASES=URL of the page of releases; docs/releasing.md)
	release/tools.sh
	$(MAKE) --no-print-directory $(RELEASE_TOOLS)
	release/release.sh

release-test: ## test the release: run its programs, unpack its image, install by krew and Helm
	release/tools.sh test
	$(MAKE) --no-print-directory tests/helm/bin/helm release/krew/bin/krew
	release/check.sh

release-twice: ## make the release again elsewhere, and compare all checksums
	release/tools.sh
	$(MAKE) --no-print-directory $(RELEASE_TOOLS)
	release/twice.sh

release-ways: ## try the ways to build without a release: cargo install, make install, and offline from vendored crates
	release/ways.sh

release-packages: ## take the newest packages of Debian 12 for the image (release/debian.lock)
	release/packages.sh update

upgrade: testbed ## upgrade from an older commit (FROM, 1b91024) on a control plane, and go back
	release/upgrade.sh '$(or $(FROM),1b91024)'

workflows: release/tools/bin/actionlint ## check the workflows in .github
	release/tools/bin/actionlint -color=false -shellcheck= -pyflakes=
