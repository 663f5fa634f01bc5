package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// restartKey is the name of the measurement for Options.Only.
const restartKey = "restart"

// restartTimeout bounds the wait for the one pod of a restart.
const restartTimeout = 2 * time.Minute

// restart is what one start of a scheduler gave, on a cluster full of running pods with one pod waiting.
type restart struct {
	took        time.Duration // from its exec to its first Binding, as a watch sees it
	cpu         time.Duration // until then
	memoryBytes int64
}

// restarted is a scheduler that is started again and again.
type restarted struct {
	name, scheduler string
	start           func(ctx context.Context, b *bench, namespace string) (binder, error)
	samples         []restart
}

// restarts measures how soon each scheduler binds a pod that waits when it starts, in turn, on one and the same cluster.
// Its running pods were bound by Fluxqueue, in one pass, so none has a FluxJob unless its settings say so.
func (b *bench) restarts(ctx context.Context) ([]*restarted, error) {
	const namespace = "bench-restart"
	running := &row{
		key: restartKey, name: "running pods for restarts", scheduler: "fluxqueue", start: startFluxqueue,
		pods: b.options.RestartPods, cpu: smallRequest,
	}
	b.say("%s: making and binding %d pods", running.name, running.pods)
	if err := b.fill(ctx, namespace, running); err != nil {
		return nil, err
	}
	schedulers := []*restarted{
		{
			name: "kube-scheduler", scheduler: v1.DefaultSchedulerName,
			start: func(_ context.Context, b *bench, _ string) (binder, error) { return b.testbed.StartScheduler() },
		},
		{name: "Fluxqueue", scheduler: "fluxqueue", start: startFluxqueue},
	}
	for round := range b.options.Rounds {
		for i, r := range schedulers {
			sample, err := b.restart(ctx, namespace, fmt.Sprintf("waiting-%d-%d", round, i), r)
			if err != nil {
				return nil, fmt.Errorf("round %d, restart of %s: %w", round+1, r.name, err)
			}
			r.samples = append(r.samples, *sample)
			b.say("round %d, restart of %s: %.2f s to the first Binding", round+1, r.name, sample.took.Seconds())
		}
	}
	// Nothing is cleared: this comes last, the cluster is thrown away, and a single request that
	// deletes all these pods times out.
	return schedulers, nil
}

// fill makes a row's pods, and has them bound and recorded.
func (b *bench) fill(ctx context.Context, namespace string, r *row) error {
	if err := b.makePods(ctx, namespace, r); err != nil {
		return err
	}
	o, err := b.observe(ctx, namespace)
	if err != nil {
		return err
	}
	defer o.stop()
	binder, err := r.start(ctx, b, namespace)
	if err != nil {
		return err
	}
	err = b.awaitBound(ctx, o, binder, r.pods)
	if err == nil {
		err = b.awaitQuiet(ctx, o, binder)
	}
	return errors.Join(err, o.err(), binder.Stop())
}

// restart makes one pod, starts its scheduler, and waits until the pod is bound.
func (b *bench) restart(ctx context.Context, namespace, name string, r *restarted) (*restart, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec(r.scheduler, smallRequest)}
	pod, err := b.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	time.Sleep(settle)
	o, err := b.observe(ctx, namespace)
	if err != nil {
		return nil, err
	}
	defer o.stop()
	begin := time.Now()
	binder, err := r.start(ctx, b, namespace)
	if err != nil {
		return nil, err
	}
	s, err := b.awaitFirst(ctx, o, binder, pod.UID, begin)
	return s, errors.Join(err, o.err(), binder.Stop())
}

func (b *bench) awaitFirst(ctx context.Context, o *observer, binder binder, pod types.UID, begin time.Time) (*restart, error) {
	for {
		if at, seen := o.boundAt(pod); seen {
			s := &restart{took: at.Sub(begin)}
			var err error
			s.cpu, s.memoryBytes, err = binder.Usage()
			return s, err
		}
		switch alive, last := binder.Alive(); {
		case !alive:
			return nil, fmt.Errorf("it ended before its first Binding; it wrote last:\n%s", last)
		case time.Since(begin) > restartTimeout:
			return nil, fmt.Errorf("no Binding within %v", restartTimeout)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// writeRestarts writes the medians as Markdown.
func writeRestarts(out io.Writer, options Options, nodes int, schedulers []*restarted) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%d running lone pods, %d nodes, one pod that waits: from the start of a scheduler's process to its "+
		"first Binding.\n\n", options.RestartPods, nodes)
	text.WriteString("| restart of | s to the first Binding, median | rounds | of kube-scheduler | CPU | memory |\n")
	text.WriteString("|---|---|---|---|---|---|\n")
	peer := schedulers[0].median().took
	for _, r := range schedulers {
		var rounds []string
		for _, s := range r.samples {
			rounds = append(rounds, fmt.Sprintf("%.2f", s.took.Seconds()))
		}
		s := r.median()
		fmt.Fprintf(&text, "| %s | %.2f | %s | %s | %s | %s |\n", r.name, s.took.Seconds(), strings.Join(rounds, ", "),
			ratio(s.took.Seconds(), peer.Seconds()), seconds(s.cpu), megabytes(s.memoryBytes))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// median is the run in the middle; of an even number, the slower of the two.
func (r *restarted) median() restart {
	sorted := slices.SortedFunc(slices.Values(r.samples), func(a, b restart) int { return int(a.took - b.took) })
	return sorted[len(sorted)/2]
}
