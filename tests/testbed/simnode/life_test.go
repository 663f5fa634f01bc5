package simnode

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestProgramsAreReadFromCommands(t *testing.T) {
	for command, wanted := range map[string]program{
		"":                                    {forever, 0},
		"sleep|5":                             {5 * time.Second, 0},
		"/bin/sleep|0.5":                      {500 * time.Millisecond, 0},
		"sleep|1m|30s":                        {90 * time.Second, 0},
		"sleep|infinity":                      {forever, 0},
		"sleep|1e300":                         {forever, 0},
		"sleep|-3":                            {0, 0},
		"sh|-c|sleep 7":                       {7 * time.Second, 0},
		"/bin/bash|-ec|echo hi && sleep 2":    {2*time.Second + brief, 0},
		"sh|-c|sleep 1; exit 3; sleep 100":    {time.Second + brief, 3},
		"sh|-c|exec sleep inf":                {forever, 0},
		"sh|-c|# what follows\n  sleep 2\n":   {2 * time.Second, 0},
		"echo|hello":                          {brief, 0},
		"false":                               {brief, 1},
		"sh|-c|echo it failed; false":         {2 * brief, 1},
		"/pause":                              {forever, 0},
		"sh":                                  {forever, 0},
		"flux|start|lammps|-in|in.reax.hns":   {brief, 0},
		"sh|-c|sleep ${DURATION}":             {0, 0},
		"sh|-c|while true; do sleep 1; done":  {forever, 0},
		"sh|-c|exit nonsense":                 {brief, 2},
		"sh|-c|trap : TERM; sleep infinity &": {forever, 0},
	} {
		var words []string
		if command != "" {
			words = strings.Split(command, "|")
		}
		if got := commandProgram(words); got != wanted {
			t.Errorf("%q: %v, not %v", command, got, wanted)
		}
	}
}

func pod(policy v1.RestartPolicy, commands ...string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Spec.RestartPolicy = policy
	for _, command := range commands {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Command: strings.Fields(command)})
	}
	return pod
}

// phases follows a life to its end, or some way if it has none.
func phases(pod *v1.Pod) (string, time.Duration) {
	l := newLife(pod)
	var seen []string
	now := time.Duration(0)
	for range 7 {
		s, next := l.at(now)
		text := string(s.phase) + s.reason
		if s.backoff {
			text += "Backoff"
		}
		seen = append(seen, text)
		if next == forever {
			break
		}
		now = next
	}
	return strings.Join(seen, " "), now
}

func TestLivesEndAsTheRestartPolicySays(t *testing.T) {
	deadline := int64(3)
	late := pod("Never", "sleep 5")
	late.Spec.ActiveDeadlineSeconds = &deadline
	early := pod("Never", "sleep 2")
	early.Spec.ActiveDeadlineSeconds = &deadline
	annotated := pod("Never", "sleep 5")
	annotated.Annotations = map[string]string{RunSecondsAnnotation: "1.5", ExitCodeAnnotation: "4"}
	initialized := pod("Never", "sleep 5")
	initialized.Spec.InitContainers = []v1.Container{{Command: []string{"sleep", "2"}}, {}}
	broken := pod("Never", "sleep 5")
	broken.Spec.InitContainers = []v1.Container{{Command: []string{"false"}}}
	always := v1.ContainerRestartPolicyAlways
	sidecar := pod("Never", "sleep 5")
	sidecar.Spec.InitContainers = []v1.Container{{RestartPolicy: &always, Command: []string{"sleep", "inf"}}}
	for name, test := range map[string]struct {
		pod    *v1.Pod
		wanted string
		end    time.Duration
	}{
		"done":            {pod("Never", "sleep 5"), "Running Succeeded", 5 * time.Second},
		"the longest":     {pod("Never", "sleep 5", "sleep 7"), "Running Succeeded", 7 * time.Second},
		"one fails":       {pod("Never", "sleep 5", "false"), "Running Failed", 5 * time.Second},
		"service":         {pod("Always", ""), "Running", 0},
		"never ends":      {pod("Never", "sleep 5", "sleep inf"), "Running", 0},
		"restart if done": {pod("OnFailure", "sleep 5"), "Running Succeeded", 5 * time.Second},
		"restart": {
			pod("OnFailure", "false"),
			"Running RunningBackoff Running RunningBackoff Running RunningBackoff Running",
			5*brief + backoffFirst + 2*backoffFirst,
		},
		"deadline":     {late, "Running FailedDeadlineExceeded", 3 * time.Second},
		"in time":      {early, "Running Succeeded", 2 * time.Second},
		"annotations":  {annotated, "Running Failed", 1500 * time.Millisecond},
		"init":         {initialized, "Pending Running Succeeded", 7 * time.Second},
		"init fails":   {broken, "Pending Failed", brief},
		"with sidecar": {sidecar, "Running Succeeded", 5 * time.Second},
	} {
		if got, end := phases(test.pod); got != test.wanted || end != test.end {
			t.Errorf("%s: %s at %v, not %s at %v", name, got, end, test.wanted, test.end)
		}
	}
}

func TestALongBackoffIsBounded(t *testing.T) {
	l := newLife(pod("Always", "false"))
	s, next := l.at(24 * time.Hour)
	if s.phase != v1.PodRunning || next-s.since > backoffMax {
		t.Errorf("after a day: %+v, next %v", s, next)
	}
}
