# What the demo shows: each job that was submitted, where it is, and whether it does what its manifest says.
#
# Sourced by demo.sh, which defines `kube` (kubectl on the demo's cluster) and `namespace`. A job here is an object with
# the annotation fluxqueue-demo/expect:
#
#   Running: N             N of its pods run
#   Complete               the Job is complete, the pod has succeeded
#   Failed: REASON         the Job or pod has failed, for this reason
#   Unsatisfiable, Refused its FluxJob says so, and no pod is bound
#
# and after a comma, any of
#
#   together               all pods of it, or of its group, were scheduled within two seconds
#   waits                  it was seen waiting, with a reason
#   by NAME                the scheduler of this name reported the event Scheduled of its pods
# shellcheck shell=bash

# Per job, by name. Names are unique among the examples, whatever the kind.
jobs=()                       # in order of appearance
declare -A expected           # the annotation
declare -A seen_at started_at ended_at  # seconds since the submission
declare -A waited_for         # why it waited, as last seen
declare -A shown              # what was last shown of it

# Per look, by name of the job.
declare -A phase ending pods_all pods_bound pods_running pods_ended pod_names group
declare -A stamps  # when its pods were scheduled; by name of the group where there is one

look() {
    kube get -n "$namespace" jobs,deployments,replicasets,statefulsets,pods,fluxjobs -o go-template-file=demo/look.gotmpl
}

# read_look LINES NOW: takes one look into the arrays above.
read_look() {
    local lines=$1 now=$2
    local kind rest name job_state message
    local -A parent=() state=() blocked=() conditions=()
    phase=() ending=() pods_all=() pods_bound=() pods_running=() pods_ended=() pod_names=() group=() stamps=()

    while IFS='|' read -r kind rest; do
        case $kind in
        job) read_job "$rest" ;;
        fluxjob)
            IFS='|' read -r name job_state message <<<"$rest"
            state[$name]=$job_state blocked[$name]=$message
            ;;
        esac
    done <<<"$lines"
    # Pods after their owners, whose names they are counted under.
    while IFS='|' read -r kind rest; do
        if [[ $kind == pod ]]; then read_pod "$rest"; fi
    done <<<"$lines"

    local job
    for job in "${jobs[@]}"; do settle "$job" "$now"; done
}

read_job() {
    local kind name owner expect now_true
    IFS='|' read -r kind name owner expect now_true <<<"$1"
    if [[ -n $owner ]]; then
        # A ReplicaSet of a Deployment: it carries a copy of the Deployment's annotations.
        parent[$name]=$owner
    elif [[ -n $expect ]]; then
        remember "$name" "$expect"
        conditions[$name]=" $now_true"
    fi
}

read_pod() {
    local name owner_kind owner pod_phase reason node scheduled pod_group expect job
    IFS='|' read -r name owner_kind owner pod_phase reason node scheduled pod_group expect <<<"$1"
    if [[ -n $expect ]]; then
        job=$name
        remember "$name" "$expect"
        case $pod_phase in
        Succeeded) conditions[$name]=" Complete= " ;;
        Failed) conditions[$name]=" Failed=$reason " ;;
        esac
    else
        job=${parent[$owner]:-$owner}
    fi
    if [[ -z $job || -z ${expected[$job]:-} ]]; then return; fi
    group[$job]=$pod_group
    pod_names[$job]+="$name "
    pods_all[$job]=$((${pods_all[$job]:-0} + 1))
    if [[ -n $node ]]; then pods_bound[$job]=$((${pods_bound[$job]:-0} + 1)); fi
    case $pod_phase in
    Running) pods_running[$job]=$((${pods_running[$job]:-0} + 1)) ;;
    Succeeded | Failed) pods_ended[$job]=$((${pods_ended[$job]:-0} + 1)) ;;
    esac
    if [[ -n $scheduled ]]; then stamps[${pod_group:-$job}]+="$scheduled "; fi
}

remember() {
    if [[ -z ${expected[$1]:-} ]]; then jobs+=("$1"); fi
    expected[$1]=$2
}

# settle JOB NOW: what the parts of a look say about one job.
settle() {
    local job=$1 now=$2
    local record=${group[$job]:-$job}
    # A group's FluxJob has the group's name, unless the group was no group: then it has the workload's.
    if [[ -z ${state[$record]:-} ]]; then record=$job; fi
    local job_state=${state[$record]:-} why=${blocked[$record]:-}

    if [[ -z ${seen_at[$job]:-} ]]; then seen_at[$job]=$now; fi
    if [[ ${pods_bound[$job]:-0} -gt 0 && -z ${started_at[$job]:-} ]]; then started_at[$job]=$now; fi

    if [[ ${conditions[$job]:-} =~ \ (Failed)=([^ ]*) ]]; then
        phase[$job]=failed ending[$job]="Failed: ${BASH_REMATCH[2]}"
    elif [[ ${conditions[$job]:-} == *" Complete="* ]]; then
        phase[$job]=done ending[$job]=Complete
    elif [[ ${pods_running[$job]:-0} -gt 0 ]]; then
        phase[$job]=running ending[$job]="Running: ${pods_running[$job]}"
    elif [[ ${pods_ended[$job]:-0} -gt 0 ]]; then
        phase[$job]=running
    elif [[ ${pods_bound[$job]:-0} -gt 0 ]]; then
        phase[$job]=placed
    elif [[ $job_state == Unsatisfiable || $job_state == Refused ]]; then
        phase[$job]=${job_state,,} ending[$job]=$job_state
    else
        phase[$job]=waiting
    fi
    case ${phase[$job]} in
    failed | done) ended_at[$job]=${ended_at[$job]:-$now} ;;
    waiting | unsatisfiable | refused) if [[ -n $why ]]; then waited_for[$job]=$why; fi ;;
    esac
}

# differences JOB: what about it is not as its manifest says; empty if nothing is.
differences() {
    local job=$1
    if [[ ${ending[$job]:-} != "${expected[$job]%%,*}" ]]; then printf ', not %s' "${expected[$job]%%,*}"; fi
    if [[ ${expected[$job]} == *", waits"* && -z ${waited_for[$job]:-} ]]; then printf ', never waited'; fi
    if [[ ${expected[$job]} == *", together"* ]] && ! together "$job"; then printf ', not together'; fi
}

together() {
    local stamp seconds first='' last=''
    for stamp in ${stamps[${group[$1]:-$1}]:-}; do
        seconds=$(date -d "$stamp" +%s)
        if [[ -z $first || $seconds -lt $first ]]; then first=$seconds; fi
        if [[ -z $last || $seconds -gt $last ]]; then last=$seconds; fi
    done
    [[ -n $first && $((last - first)) -le 2 ]]
}

# all_settled: every job is what its manifest says, or has ended otherwise.
all_settled() {
    local job
    [[ ${#jobs[@]} -gt 0 ]] || return 1
    for job in "${jobs[@]}"; do
        if [[ ${phase[$job]} != done && ${phase[$job]} != failed && -n $(differences "$job") ]]; then return 1; fi
    done
}

# reporters JOB EVENTS: the same, about who reported the event Scheduled of its pods.
reporters() {
    local job=$1 events=$2 name pod reporter count=0
    if [[ ! ${expected[$job]} =~ ,\ by\ ([^,]+) ]]; then return; fi
    name=${BASH_REMATCH[1]}
    while IFS='|' read -r pod reporter; do
        if [[ " ${pod_names[$job]:-}" != *" $pod "* ]]; then continue; fi
        if [[ $reporter != "$name" ]]; then printf ', by %s' "$reporter"; fi
        count=$((count + 1))
    done <<<"$events"
    if [[ $count -eq 0 ]]; then printf ', by nobody'; fi
}

row() {
    local job=$1 bound=${pods_bound[$1]:-0} all=${pods_all[$1]:-0} why=''
    case ${phase[$job]} in waiting | unsatisfiable | refused) why=${waited_for[$job]:-} ;; esac
    printf '%-20s %-13s %5s  %s' "$job" "${phase[$job]}" "$bound/$all" "$why"
}

# show NOW: on a terminal the whole board again, else a line for each change.
show() {
    local now=$1 job text
    if [[ -t 1 ]]; then
        draw "$now"
        return
    fi
    for job in "${jobs[@]}"; do
        text=$(row "$job")
        if [[ ${shown[$job]:-} != "$text" ]]; then
            printf '%4s s  %s\n' "$now" "$text"
            shown[$job]=$text
        fi
    done
}

# draw NOW: the jobs that are not yet what their manifests say, as many as the terminal has room for.
draw() {
    local now=$1 job text board='' ready=0 drawn=0 columns lines
    columns=$(tput cols 2>/dev/null || echo 120) lines=$(tput lines 2>/dev/null || echo 50)
    for job in "${jobs[@]}"; do
        if [[ -z $(differences "$job") ]]; then
            ready=$((ready + 1))
        elif [[ $((drawn += 1)) -le $((lines - 4)) ]]; then
            text=$(row "$job")
            board+=${text:0:columns}$'\n'
        fi
    done
    printf '\033[H\033[2J%s s after the submission: %s of %s jobs are what their manifests say; the others:\n\n%s' \
        "$now" "$ready" "${#jobs[@]}" "$board"
}

# verdicts: the table at the end. Fails if a job is not what its manifest says.
verdicts() {
    local job wrong=0 events difference result waited ran
    events=$(kube get -n "$namespace" events.events.k8s.io --field-selector reason=Scheduled \
        -o go-template='{{range .items}}{{.regarding.name}}|{{.reportingController}}{{"\n"}}{{end}}')
    printf '\n%-20s %5s %7s %8s  %-6s %-36s %-36s %s\n' JOB PODS WAITED RAN RESULT EXPECTED FOUND 'WHY IT WAITED'
    for job in "${jobs[@]}"; do
        difference=$(differences "$job")$(reporters "$job" "$events")
        result=ok
        if [[ -n $difference ]]; then result=WRONG wrong=$((wrong + 1)); fi
        waited='-' ran='-'
        if [[ -n ${started_at[$job]:-} ]]; then
            waited="$((started_at[$job] - seen_at[$job])) s" ran='goes on'
            if [[ -n ${ended_at[$job]:-} ]]; then ran="$((ended_at[$job] - started_at[$job])) s"; fi
        fi
        printf '%-20s %5s %7s %8s  %-6s %-36s %-36s %s\n' "$job" "${pods_all[$job]:-0}" "$waited" "$ran" \
            "$result" "${expected[$job]}" "${ending[$job]:-${phase[$job]}}$difference" "${waited_for[$job]:-}"
    done
    printf '\n%s of %s jobs did what their manifests say.\n' "$((${#jobs[@]} - wrong))" "${#jobs[@]}"
    [[ $wrong -eq 0 && ${#jobs[@]} -gt 0 ]]
}
