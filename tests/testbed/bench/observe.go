package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clientwatch "k8s.io/client-go/tools/watch"
)

var fluxJobs = schema.GroupVersionResource{Group: "jobs.converged-computing.org", Version: "v1alpha1", Resource: "fluxjobs"}

// observer notes when things happen in a namespace, by the arrival of watch events.
type observer struct {
	cancel context.CancelFunc

	mu       sync.Mutex
	pods     map[types.UID]time.Time // when each was seen bound
	first    time.Time
	last     time.Time
	events   trail
	fluxJobs trail
	failure  error
}

// trail is when objects of a kind appeared, and when any of them was written last.
type trail struct {
	made []time.Time
	last time.Time
}

// sample is what one run of a row gave.
type sample struct {
	pods                  int
	took                  time.Duration
	eventsThen, eventsAll int           // when the last pod was bound, and at the end
	eventsLag             time.Duration // from the last pod bound to the last event
	jobsThen, jobsAll     int
	jobsLag               time.Duration
	cpu                   time.Duration
	memoryBytes           int64
	refused               int
}

// rate leaves out the first pod, with which the time begins.
func (s *sample) rate() float64 { return float64(s.pods-1) / s.took.Seconds() }

func (b *bench) observe(ctx context.Context, namespace string) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel, pods: map[types.UID]time.Time{}}
	list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		cancel()
		return nil, err
	}
	pods, events, jobs := b.client.CoreV1().Pods(namespace), b.client.CoreV1().Events(namespace), b.dynamic.Resource(fluxJobs)
	type watched struct {
		what  string
		from  string // the version after which it is watched
		watch cache.WatchFuncWithContext
		see   func(watch.Event, time.Time)
	}
	watches := []watched{
		{"pods", list.ResourceVersion, pods.Watch, o.seePod},
		{"events", list.ResourceVersion, events.Watch, o.events.see},
	}
	// The API server's cache of a new kind begins with its first request, and knows no versions before: so this is the
	// version of that cache. Without Fluxqueue there need be no FluxJobs.
	known, err := jobs.Namespace(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	switch {
	case err == nil:
		from := known.GetResourceVersion()
		watches = append(watches, watched{"FluxJobs", from, jobs.Namespace(namespace).Watch, o.fluxJobs.see})
	case !apierrors.IsNotFound(err):
		cancel()
		return nil, fmt.Errorf("listing FluxJobs: %w", err)
	}
	for _, w := range watches {
		// The API server ends the watch of a client that reads slower than it writes, which on a busy machine is any
		// client for a moment. The watch is then taken up where it ended.
		source := &cache.ListWatch{WatchFuncWithContext: w.watch}
		watcher, err := clientwatch.NewRetryWatcherWithContext(ctx, w.from, source)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("watching %s: %w", w.what, err)
		}
		go o.follow(ctx, w.what, watcher, w.see)
	}
	return o, nil
}

func (o *observer) follow(ctx context.Context, what string, w watch.Interface, see func(watch.Event, time.Time)) {
	for event := range w.ResultChan() {
		now := time.Now()
		o.mu.Lock()
		if event.Type == watch.Error {
			o.failure = fmt.Errorf("watching %s: %w", what, apierrors.FromObject(event.Object))
		} else {
			see(event, now)
		}
		o.mu.Unlock()
	}
	if ctx.Err() == nil {
		o.mu.Lock()
		o.failure = errors.Join(o.failure, fmt.Errorf("watching %s: the watch ended", what))
		o.mu.Unlock()
	}
}

func (o *observer) seePod(event watch.Event, now time.Time) {
	pod, ok := event.Object.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if _, seen := o.pods[pod.UID]; seen {
		return
	}
	o.pods[pod.UID] = now
	if o.first.IsZero() {
		o.first = now
	}
	o.last = now
}

func (t *trail) see(event watch.Event, now time.Time) {
	if event.Type == watch.Added {
		t.made = append(t.made, now)
	}
	t.last = now
}

func (t *trail) before(when time.Time) int {
	count := 0
	for _, made := range t.made {
		if !made.After(when) {
			count++
		}
	}
	return count
}

// err returns why the observations cannot be relied on.
func (o *observer) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failure
}

func (o *observer) bound() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pods)
}

// boundAt says when this pod was seen bound.
func (o *observer) boundAt(pod types.UID) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, seen := o.pods[pod]
	return at, seen
}

func (o *observer) lastWrite() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last
	for _, other := range []time.Time{o.events.last, o.fluxJobs.last} {
		if other.After(last) {
			last = other
		}
	}
	return last
}

func (o *observer) sample() *sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &sample{
		pods: len(o.pods), took: o.last.Sub(o.first),
		eventsThen: o.events.before(o.last), eventsAll: len(o.events.made),
		jobsThen: o.fluxJobs.before(o.last), jobsAll: len(o.fluxJobs.made),
	}
	if len(o.events.made) > 0 {
		s.eventsLag = o.events.last.Sub(o.last)
	}
	if len(o.fluxJobs.made) > 0 {
		s.jobsLag = o.fluxJobs.last.Sub(o.last)
	}
	return s
}

func (o *observer) stop() { o.cancel() }
