package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// binder is what binds pods in a row while it is measured.
type binder interface {
	Stop() error
	// Alive returns whether it runs or has done its work, and if not, its last output.
	Alive() (bool, string)
	Usage() (cpu time.Duration, memoryBytes int64, err error)
}

// row is one line of the table: pods of a kind, and what binds them.
type row struct {
	key, name string
	scheduler string // schedulerName of its pods
	gangs     bool
	pods      int
	cpu       string // what each asks for
	start     func(ctx context.Context, b *bench, namespace string) (binder, error)
	samples   []*sample
}

func allRows(options Options) []*row {
	form := "bare pods"
	if options.Jobs {
		form = "Jobs"
	}
	rows := []*row{
		{
			key: "bindings", name: fmt.Sprintf("bare Bindings, %d in flight", options.InFlight),
			scheduler: "nobody", start: startBindings,
		},
		{
			key: "kube-scheduler", name: "kube-scheduler, lone pods",
			scheduler: v1.DefaultSchedulerName,
			start: func(_ context.Context, b *bench, _ string) (binder, error) {
				return b.testbed.StartScheduler()
			},
		},
		{key: "fluxqueue", name: "Fluxqueue, lone pods", scheduler: "fluxqueue", start: startFluxqueue},
		{
			key:       "fluxqueue-gangs",
			name:      fmt.Sprintf("Fluxqueue, %d gangs of %d (%s)", options.Pods/options.GangSize, options.GangSize, form),
			scheduler: "fluxqueue", gangs: true, start: startFluxqueue,
		},
	}
	for _, r := range rows {
		r.pods, r.cpu = options.Pods, usualRequest
	}
	return rows
}

func startFluxqueue(ctx context.Context, b *bench, _ string) (binder, error) {
	return b.testbed.StartFluxqueue(ctx, b.options.Fluxqueue, b.options.Namespace, b.options.Account)
}

// bindings binds all pods of a namespace, each with one request, and decides nothing: pods go to nodes in turn.
type bindings struct {
	failed atomic.Pointer[error]
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func startBindings(ctx context.Context, b *bench, namespace string) (binder, error) {
	pods, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &bindings{cancel: cancel}
	var next atomic.Int64
	for range b.options.InFlight {
		w.done.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(pods.Items) {
					return
				}
				binding := &v1.Binding{Target: v1.ObjectReference{Kind: "Node", Name: b.nodes[i%len(b.nodes)]}}
				binding.Name, binding.UID = pods.Items[i].Name, pods.Items[i].UID
				err := b.client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{})
				if err != nil {
					w.failed.Store(&err)
					return
				}
			}
		})
	}
	return w, nil
}

func (w *bindings) Stop() error {
	w.cancel()
	w.done.Wait()
	return nil
}

func (w *bindings) Alive() (bool, string) {
	if err := w.failed.Load(); err != nil {
		return false, (*err).Error()
	}
	return true, ""
}

// Usage is not known: the requests are this process's, among others.
func (w *bindings) Usage() (time.Duration, int64, error) { return 0, 0, nil }
