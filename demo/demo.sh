#!/usr/bin/env bash
# The demo: a control plane with simulated nodes, Fluxqueue on it, a backlog whose promises are kept, and every manifest of
# manifests/examples.
#
#   make demo                     ends by itself, with status 0 if every job did as its manifest says
#   make demo KEEP=1              leaves the cluster running, and prints how to use it
#   make demo CLUSTER=kind-NAME   on that kind cluster (kind/README.md), by its kubectl context; on no other cluster
set -euo pipefail
cd "$(dirname "$0")/.."

# The manifests sleep for some tens of seconds in all; a run that takes much longer has failed.
readonly seconds_max=${DEMO_SECONDS_MAX:-240}
readonly namespace=fluxqueue-demo
readonly cluster=${CLUSTER:-} keep=${KEEP:-}
readonly testbed=tests/testbed/bin/testbed
# The folder of the binaries that `make demo` builds.
readonly binaries=${DEMO_BINARIES:-target/demo}
readonly chart=target/demo-backlog.svg logs=target/demo-logs

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

# kubectl, on the demo's cluster and nowhere else, whatever KUBECONFIG and the current context are.
kube() {
    if [[ -n $cluster ]]; then
        kubectl --context "$cluster" "$@"
    else
        "$testbed" kubectl --kubeconfig "$dir/cluster/admin.kubeconfig" "$@"
    fi
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
    local seconds=$1 what=$2 end=$((SECONDS + $1))
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [[ $SECONDS -ge $end ]]; then fail "$what: nothing after $seconds s"; fi
        sleep 0.2
    done
}

start_testbed() {
    dir=$(mktemp -d "${TMPDIR:-/tmp}/fluxqueue-demo.XXXXXX")
    trap stop EXIT
    trap 'exit 130' INT TERM
    say "Starting etcd, API server, controllers, kube-scheduler and six simulated nodes"
    # With PodGroups, which two of the examples need.
    local options=(--dir "$dir/cluster" --nodes tests/testbed/nodes/demo.yaml --kube-scheduler --workload-with-job)
    if [[ -n $keep ]]; then options+=(--outlive-parent); fi
    # In a session of its own, so that Ctrl-C ends it in our order, not all at once.
    setsid "$testbed" up "${options[@]}" >"$dir/testbed.log" 2>&1 </dev/null &
    testbed_pid=$!
    wait_for 90 "the control plane ($dir/testbed.log)" grep -q '^ready' "$dir/testbed.log"
}

start_fluxqueue() {
    say "Installing the CRD and the permissions"
    local base=manifests/chart/files/base
    kube apply --server-side -k manifests/crds
    kube apply --server-side -f $base/namespace.yaml -f $base/rbac.yaml -f $base/roles.yaml -f $base/admission-policy.yaml \
        -f $base/records-policy.yaml -f $base/own-writes-policy.yaml -f $base/required-policy.yaml
    kube wait --for=condition=Established --timeout=30s crd/fluxjobs.jobs.converged-computing.org \
        crd/fluxqueues.jobs.converged-computing.org
    say "Starting Fluxqueue under its own service account"
    "$testbed" kubeconfig --dir "$dir/cluster" --namespace fluxqueue-system --serviceaccount fluxqueue \
        --output "$dir/fluxqueue.kubeconfig"
    # The examples come from systems that had names of their own.
    local names=(--scheduler-name fluxqueue --scheduler-name FluxionScheduler --scheduler-name fluxnetes
        --scheduler-name fluence)
    # It would end by itself when its lease cannot be renewed; with setpriv at once, however this script ends.
    local bound_to_us=()
    if [[ -z $keep ]] && command -v setpriv >/dev/null; then bound_to_us=(setpriv --pdeathsig TERM); fi
    POD_NAMESPACE=fluxqueue-system setsid "${bound_to_us[@]}" \
        "$binaries/fluxqueue" run --kubeconfig "$dir/fluxqueue.kubeconfig" --metrics-bind-address 127.0.0.1:0 \
        "${names[@]}" \
        >"$dir/fluxqueue.log" 2>&1 </dev/null &
    fluxqueue_pid=$!
    sleep 1
    kill -0 "$fluxqueue_pid" 2>/dev/null || fail "fluxqueue has ended: $(tail -n 5 "$dir/fluxqueue.log")"
}

use_kind() {
    [[ $cluster == kind-* ]] || fail "CLUSTER=$cluster: the name of a kind cluster's context begins with kind-"
    command -v kubectl >/dev/null || fail "kubectl is missing"
    kubectl config get-contexts "$cluster" >/dev/null 2>&1 || fail "kubectl knows no context $cluster"
    if kube get namespace "$namespace" >/dev/null 2>&1; then
        fail "namespace $namespace is still there: kubectl --context $cluster delete namespace $namespace"
    fi
    trap stop EXIT
    trap 'exit 130' INT TERM
    say "Installing Fluxqueue on $cluster"
    kube apply --server-side -k manifests/crds
    kube wait --for=condition=Established --timeout=30s crd/fluxjobs.jobs.converged-computing.org \
        crd/fluxqueues.jobs.converged-computing.org
    kube apply --server-side -k manifests/overlays/kind
    kube -n fluxqueue-system rollout status --timeout=120s deployment/fluxqueue
}

# board NAMESPACE COMMAND...: watches the jobs there, and reports whether they did as they should.
board() {
    local in_namespace=$1 there=(--kubeconfig "${dir:-}/cluster/admin.kubeconfig")
    shift
    if [[ -n $cluster ]]; then there=(--context "$cluster"); fi
    "$binaries/board" "${there[@]}" --namespace "$in_namespace" --seconds-max "$seconds_max" "$@"
}

# submit NAMESPACE PATH FILE...: applies these files of the path there.
submit() {
    local in_namespace=$1 file files=()
    say "Submitting $2"
    kube create namespace "$in_namespace"
    # Pods are refused until the namespace has its default service account.
    wait_for 30 "the service account of $in_namespace" kube -n "$in_namespace" get serviceaccount default
    for file in "${@:3}"; do files+=(-f "$file"); done
    kube apply -n "$in_namespace" "${files[@]}" >/dev/null
}

# Shows more jobs than there is room for. The backlog takes five nodes of eight cores for itself, so it comes first.
show_backlog() {
    submit fluxqueue-demo-backlog demo/backlog.yaml demo/backlog.yaml
    say "Watching which jobs are promised a start, and which run in the gaps before it"
    board fluxqueue-demo-backlog backlog --chart "$chart"
    kube delete namespace fluxqueue-demo-backlog --wait=false
}

show_examples() {
    local file files=() served
    served=$(kube api-resources --api-group scheduling.k8s.io --output name)
    for file in manifests/examples/*.yaml manifests/examples/*/*.yaml; do
        # The first line of a file says what it needs.
        if [[ $(head -n 1 "$file") == *GenericWorkload* && $served != *podgroups* ]]; then
            printf 'Left out, since the cluster serves no PodGroups: %s\n' "$file"
        else
            files+=("$file")
        fi
    done
    submit "$namespace" manifests/examples/ "${files[@]}"
    say "Watching (at most $seconds_max s)"
    board "$namespace" examples
}

# Ends the processes, each before those that it depends on.
stop() {
    local status=$?
    trap - EXIT INT TERM
    if [[ $status -ne 0 && $status -ne 130 && -f ${dir:-}/fluxqueue.log ]]; then
        mkdir -p "$logs" && cp "$dir"/*.log "$logs"
        printf 'demo: failed; the logs are in %s\n' "$logs" >&2
    fi
    if [[ -n $keep && $started == yes ]]; then
        how_to_talk
    elif [[ -n $cluster ]]; then
        if [[ $started == yes ]]; then kube delete namespace "$namespace" --wait=false; fi
    else
        end_process "${fluxqueue_pid:-}"
        end_process "${testbed_pid:-}"
        rm -rf "$dir"
    fi
    exit "$status"
}

# end_process PID: asks, and insists after ten seconds.
end_process() {
    local pid=$1 tries=0
    if [[ -z $pid ]]; then return; fi
    kill -TERM "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do
        if [[ $((tries += 1)) -gt 100 ]]; then kill -KILL "$pid" 2>/dev/null || true; fi
        sleep 0.1
    done
    wait "$pid" 2>/dev/null || true
}

how_to_talk() {
    if [[ -n $cluster ]]; then
        printf '\nStill there:\n  kubectl --context %s -n %s get fluxjobs,pods\n' "$cluster" "$namespace"
        printf 'Remove it:\n  kubectl --context %s delete namespace %s\n' "$cluster" "$namespace"
        return
    fi
    printf '\nStill running. Talk to it:\n'
    printf '  %s kubectl --kubeconfig %s -n %s get fluxjobs,pods\n' "$testbed" "$dir/cluster/admin.kubeconfig" "$namespace"
    printf '  (any kubectl will do) logs: %s\n' "$dir/fluxqueue.log"
    printf 'Stop it:\n  kill %s %s; rm -r %s\n' "${fluxqueue_pid:-}" "${testbed_pid:-}" "$dir"
}

started=no
if [[ -n $cluster ]]; then
    use_kind
else
    start_testbed
    start_fluxqueue
fi
started=yes
if [[ -z $cluster ]]; then show_backlog; fi
show_examples
