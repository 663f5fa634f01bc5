package simnode

import (
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// terminatedBySignal is a container's exit code when the kubelet stopped it.
const terminatedBySignal = 143

// writer writes the status of one pod.
type writer struct {
	pod   *v1.Pod
	start time.Time
	podIP string
	host  string
	life  *life
}

// at is the moment so long after the pod's start.
func (w *writer) at(since time.Duration) metav1.Time { return metav1.NewTime(w.start.Add(since)) }

// status returns the status that a kubelet reports at a stage.
func (w *writer) status(s stage) v1.PodStatus {
	start := w.at(0)
	status := v1.PodStatus{
		ObservedGeneration: w.pod.Generation,
		Phase:              s.phase,
		Reason:             s.reason,
		StartTime:          &start,
		HostIP:             w.host,
		PodIP:              w.podIP,
		HostIPs:            []v1.HostIP{{IP: w.host}},
		PodIPs:             []v1.PodIP{{IP: w.podIP}},
	}
	if s.reason == "DeadlineExceeded" {
		status.Message = "Pod was active on the node longer than the specified deadline"
	}
	initialized := s.phase != v1.PodPending
	running := s.phase == v1.PodRunning && !s.backoff
	idle := "ContainersNotReady"
	if s.phase == v1.PodSucceeded {
		idle = "PodCompleted"
	}
	status.Conditions = []v1.PodCondition{
		w.condition(v1.PodReadyToStartContainers, true, "", 0),
		w.condition(v1.PodInitialized, initialized, "ContainersNotInitialized", s.since),
		w.condition(v1.PodReady, running, idle, s.since),
		w.condition(v1.ContainersReady, running, idle, s.since),
	}
	for i := range w.pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, w.initContainer(i, s))
	}
	for i := range w.pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, w.container(i, s))
	}
	return status
}

func (w *writer) condition(kind v1.PodConditionType, is bool, whyNot string, since time.Duration) v1.PodCondition {
	c := v1.PodCondition{
		Type: kind, Status: v1.ConditionTrue, LastTransitionTime: w.at(since), ObservedGeneration: w.pod.Generation,
	}
	if !is {
		c.Status, c.Reason = v1.ConditionFalse, whyNot
	}
	return c
}

func (w *writer) container(i int, s stage) v1.ContainerStatus {
	c := w.named(&w.pod.Spec.Containers[i])
	c.RestartCount = s.restarts
	code := w.life.main[i].code
	started := false
	switch {
	case s.phase == v1.PodPending:
		c.State.Waiting = &v1.ContainerStateWaiting{Reason: "PodInitializing"}
	case s.phase == v1.PodRunning && !s.backoff:
		c.State.Running = &v1.ContainerStateRunning{StartedAt: w.at(s.since)}
		c.Ready, started = true, true
		if s.restarts > 0 {
			c.LastTerminationState.Terminated = w.ended(&c, code, s.since)
		}
	case s.backoff:
		c.State.Waiting = &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		c.LastTerminationState.Terminated = w.ended(&c, code, s.since)
	case s.reason != "":
		c.State.Terminated = w.ended(&c, terminatedBySignal, s.since)
	default:
		c.State.Terminated = w.ended(&c, code, s.since)
	}
	c.Started = &started
	return c
}

func (w *writer) initContainer(i int, s stage) v1.ContainerStatus {
	spec := &w.pod.Spec.InitContainers[i]
	c := w.named(spec)
	sidecar := spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways
	started := s.phase == v1.PodPending || (sidecar && s.phase == v1.PodRunning)
	switch {
	case started:
		c.State.Running = &v1.ContainerStateRunning{StartedAt: w.at(0)}
		c.Ready = sidecar
	case w.life.initFail && s.phase == v1.PodFailed:
		c.State.Terminated = w.ended(&c, w.life.init.code, s.since)
	default:
		c.State.Terminated = w.ended(&c, 0, w.life.init.run)
		c.Ready = true
	}
	c.Started = &started
	return c
}

func (w *writer) named(spec *v1.Container) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name:        spec.Name,
		Image:       spec.Image,
		ImageID:     "testbed/" + spec.Image,
		ContainerID: fmt.Sprintf("testbed://%s/%s", w.pod.UID, spec.Name),
	}
}

func (w *writer) ended(c *v1.ContainerStatus, code int32, since time.Duration) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode: code, Reason: "Completed", StartedAt: w.at(0), FinishedAt: w.at(since), ContainerID: c.ContainerID,
	}
	if code != 0 {
		t.Reason = "Error"
	}
	return t
}

// refusedStatus returns the status that a kubelet reports for a pod that it did not admit.
func refusedStatus(pod *v1.Pod, reason, message string, now time.Time) v1.PodStatus {
	start := metav1.NewTime(now)
	return v1.PodStatus{
		ObservedGeneration: pod.Generation,
		Phase:              v1.PodFailed,
		Reason:             reason,
		Message:            "Pod was rejected: " + message,
		StartTime:          &start,
		QOSClass:           pod.Status.QOSClass,
	}
}

// statusPatch names the pod's uid, so that it cannot reach another pod of the same name.
func statusPatch(uid types.UID, status *v1.PodStatus) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   status,
	})
}
