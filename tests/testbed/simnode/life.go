package simnode

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// As the real kubelet: a container that ended is started again at once, then after 10 s, 20 s and so on.
const (
	backoffFirst = 10 * time.Second
	backoffMax   = 5 * time.Minute
)

// life is the course of an admitted pod without interference: a function of the time since its
// start, and of nothing else, so that a restarted process continues where the previous one was.
//
// Containers are followed together, not each alone: they start at once, and the pod's next step is when the last of
// them has ended.
type life struct {
	init     program // all init containers, one after the other
	initFail bool    // init ends with a failure that is not tried again
	main     []program
	length   time.Duration // of the longest of main
	restart  v1.RestartPolicy
	deadline time.Duration
}

// stage is one step of a life. Two equal stages are written the same way.
type stage struct {
	phase    v1.PodPhase
	reason   string // of a phase Failed that is not the containers' doing
	restarts int32
	backoff  bool          // between two runs
	since    time.Duration // when the containers were started, or ended, after the pod's start
}

func newLife(pod *v1.Pod) life {
	l := life{restart: pod.Spec.RestartPolicy, deadline: forever}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		l.deadline = time.Duration(*seconds) * time.Second
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			continue // a sidecar: starts with the others and ends with them
		}
		p := containerProgram(c)
		if len(c.Command)+len(c.Args) == 0 {
			p = program{} // an init container must end for anything to happen
		}
		if p.run == forever {
			l.init = p
			break
		}
		l.init.run += p.run
		if p.code != 0 {
			l.init.code = p.code
			l.initFail = l.restart == v1.RestartPolicyNever
			break
		}
	}
	for i := range pod.Spec.Containers {
		p := annotated(pod, containerProgram(&pod.Spec.Containers[i]))
		l.main = append(l.main, p)
		l.length = max(l.length, p.run)
	}
	return l
}

// at returns the stage at a time after the pod's start, and when the next one begins, which may be never.
func (l *life) at(elapsed time.Duration) (stage, time.Duration) {
	if elapsed >= l.deadline {
		return stage{phase: v1.PodFailed, reason: "DeadlineExceeded", since: l.deadline}, forever
	}
	now, next := l.undisturbed(elapsed)
	if now.phase == v1.PodSucceeded || now.phase == v1.PodFailed {
		return now, forever
	}
	return now, min(next, l.deadline)
}

func (l *life) undisturbed(elapsed time.Duration) (stage, time.Duration) {
	if l.init.run == forever || (l.init.code != 0 && !l.initFail) {
		return stage{phase: v1.PodPending}, forever
	}
	if elapsed < l.init.run {
		return stage{phase: v1.PodPending}, l.init.run
	}
	if l.initFail {
		return stage{phase: v1.PodFailed, since: l.init.run}, forever
	}
	begin := l.init.run
	for restarts := int32(0); ; restarts++ {
		if l.length == forever || elapsed < begin+l.length {
			end := forever
			if l.length != forever {
				end = begin + l.length
			}
			return stage{phase: v1.PodRunning, restarts: restarts, since: begin}, end
		}
		end := begin + l.length
		if over, phase := l.verdict(); over {
			return stage{phase: phase, since: end, restarts: restarts}, forever
		}
		wait := backoff(restarts)
		if elapsed < end+wait {
			return stage{phase: v1.PodRunning, restarts: restarts, backoff: true, since: end}, end + wait
		}
		begin = end + wait
	}
}

// verdict says whether the pod is over when all containers have ended, and how.
func (l *life) verdict() (bool, v1.PodPhase) {
	failed := false
	for _, p := range l.main {
		failed = failed || p.code != 0
	}
	switch {
	case l.restart == v1.RestartPolicyNever && failed:
		return true, v1.PodFailed
	case l.restart == v1.RestartPolicyNever, l.restart == v1.RestartPolicyOnFailure && !failed:
		return true, v1.PodSucceeded
	default:
		return false, ""
	}
}

// backoff is the wait before the next start after this number of restarts. It is never zero: the
// time to the first restart keeps a container that ends at once from going round without end at one
// moment.
func backoff(restarts int32) time.Duration {
	if restarts == 0 {
		return brief
	}
	return min(backoffFirst<<min(restarts-1, 10), backoffMax)
}
