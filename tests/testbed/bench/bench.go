// Package bench measures how fast pods are bound, side by side on one control plane: by bare Binding requests, which
// is the limit, by kube-scheduler, and by Fluxqueue.
//
// Pods are there before a scheduler starts. Time counts from the first pod seen bound to the last, as a watch sees
// them. The simulated kubelets run in every row, so every bound pod costs the API server its status too.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"fluxqueue/tests/testbed/controlplane"
)

// Options select the measurements.
type Options struct {
	Dir       string
	Nodes     string   // node file
	Fluxqueue string   // its binary; empty leaves its rows out
	Install   []string // manifests, or kustomization directories, applied before anything is measured
	Namespace string   // of the service account as which Fluxqueue runs; see Account
	Account   string   // empty: the administrator
	Rounds    int
	Pods      int
	GangSize  int
	Jobs      bool     // gangs are Jobs, not bare pods with group labels
	InFlight  int      // Binding requests at a time
	Workloads bool     // the Job controller gives each Job a Workload and a PodGroup
	Only      []string // names of rows; empty for all
	// RestartPods is how many pods run while schedulers are restarted.
	RestartPods int
	Progress    io.Writer
}

// rowTimeout bounds the wait for all pods of a row to be bound.
const rowTimeout = 10 * time.Minute

type bench struct {
	options Options
	testbed *controlplane.Testbed
	client  *kubernetes.Clientset
	dynamic dynamic.Interface
	nodes   []string
}

// Run measures, and writes the table to out.
func Run(ctx context.Context, options Options, out io.Writer) error {
	if options.GangSize < 1 || options.Pods < 2 || options.Pods%options.GangSize != 0 {
		return fmt.Errorf("%d pods cannot be gangs of %d", options.Pods, options.GangSize)
	}
	b := &bench{options: options}
	b.say("starting a control plane with the nodes of %s", options.Nodes)
	testbed, err := controlplane.Start(ctx, controlplane.Options{
		Dir: options.Dir, Nodes: options.Nodes, Kubelets: true, Controllers: true, Workloads: options.Workloads,
	})
	if err != nil {
		return err
	}
	defer testbed.Stop()
	b.testbed = testbed
	if err := b.connect(ctx); err != nil {
		return err
	}
	rows, err := b.rows()
	if err != nil {
		return err
	}
	if err := b.testbed.Apply(ctx, options.Install...); err != nil {
		return err
	}
	for round := range options.Rounds {
		for _, r := range inRound(rows, round) {
			sample, err := b.measure(ctx, r, round)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, r.name, err)
			}
			r.samples = append(r.samples, sample)
			b.say("round %d, %s: %.0f pods/s, %d refused", round+1, r.name, sample.rate(), sample.refused)
		}
	}
	if len(rows) > 0 {
		if err := writeTable(out, options, len(b.nodes), rows); err != nil {
			return err
		}
	}
	if !b.wantsRestarts() {
		return nil
	}
	restarts, err := b.restarts(ctx)
	if err != nil {
		return err
	}
	return writeRestarts(out, options, len(b.nodes), restarts)
}

// inRound is the order in which rows are measured. They alternate, so that what changes in the machine over time meets all of them; and each
// round begins with another row: the first one meets a control plane that nothing has burdened for a while.
func inRound(rows []*row, round int) []*row {
	if len(rows) == 0 {
		return nil
	}
	first := round % len(rows)
	return slices.Concat(rows[first:], rows[:first])
}

func (b *bench) wantsRestarts() bool {
	if len(b.options.Only) == 0 {
		return b.options.Fluxqueue != ""
	}
	return slices.Contains(b.options.Only, restartKey)
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.options.Progress, "bench: "+format+"\n", args...)
}

// rows returns the selected rows, in their order.
func (b *bench) rows() ([]*row, error) {
	var rows []*row
	for _, r := range allRows(b.options) {
		if len(b.options.Only) == 0 && (b.options.Fluxqueue != "" || !strings.HasPrefix(r.key, "fluxqueue")) {
			rows = append(rows, r)
			continue
		}
		for _, key := range b.options.Only {
			if key == r.key {
				rows = append(rows, r)
			}
		}
	}
	for _, r := range rows {
		if strings.HasPrefix(r.key, "fluxqueue") && b.options.Fluxqueue == "" {
			return nil, fmt.Errorf("row %s: --fluxqueue is required", r.key)
		}
	}
	if b.wantsRestarts() && b.options.Fluxqueue == "" {
		return nil, fmt.Errorf("row %s: --fluxqueue is required", restartKey)
	}
	if len(rows) == 0 && !b.wantsRestarts() {
		return nil, fmt.Errorf("no row is named %q", b.options.Only)
	}
	return rows, nil
}

// measure runs one row once: pods are made, observed while something binds them, and taken away.
func (b *bench) measure(ctx context.Context, r *row, round int) (*sample, error) {
	namespace := fmt.Sprintf("bench-%s-%d", r.key, round+1)
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	b.say("round %d, %s: making %d pods; load of the machine %s", round+1, r.name, r.pods, strings.Fields(string(load))[0])
	if err := b.makePods(ctx, namespace, r); err != nil {
		return nil, err
	}
	refusedBefore, err := b.refusals()
	if err != nil {
		return nil, err
	}
	o, err := b.observe(ctx, namespace)
	if err != nil {
		return nil, err
	}
	defer o.stop()
	binder, err := r.start(ctx, b, namespace)
	if err != nil {
		return nil, err
	}
	if err := b.awaitBound(ctx, o, binder, r.pods); err != nil {
		return nil, errors.Join(err, binder.Stop())
	}
	if err := b.awaitQuiet(ctx, o, binder); err != nil {
		return nil, errors.Join(err, binder.Stop())
	}
	if err := o.err(); err != nil {
		return nil, errors.Join(err, binder.Stop())
	}
	s := o.sample()
	if s.cpu, s.memoryBytes, err = binder.Usage(); err != nil {
		return nil, errors.Join(err, binder.Stop())
	}
	refused, err := b.refusals()
	if err != nil {
		return nil, errors.Join(err, binder.Stop())
	}
	s.refused = refused - refusedBefore
	// Its scheduler is still there while a row is cleared: it may have finalizers of its own to take off.
	if err := b.clear(ctx, namespace); err != nil {
		return nil, errors.Join(err, binder.Stop())
	}
	return s, binder.Stop()
}

func (b *bench) awaitBound(ctx context.Context, o *observer, binder binder, pods int) error {
	deadline := time.Now().Add(rowTimeout)
	for {
		bound := o.bound()
		if err := o.err(); err != nil {
			return err
		}
		switch alive, last := binder.Alive(); {
		case bound >= pods:
			return nil
		case !alive:
			return fmt.Errorf("what binds ended with %d of %d pods bound; it wrote last:\n%s", bound, pods, last)
		case time.Now().After(deadline):
			return fmt.Errorf("%d of %d pods are bound after %v", bound, pods, rowTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Events and FluxJobs may trail. A row has settled when nothing has been written for this long.
const (
	quiet        = 3 * time.Second
	quietTimeout = 5 * time.Minute
)

func (b *bench) awaitQuiet(ctx context.Context, o *observer, binder binder) error {
	deadline := time.Now().Add(quietTimeout)
	for time.Since(o.lastWrite()) < quiet {
		if alive, last := binder.Alive(); !alive {
			return fmt.Errorf("what binds ended; it wrote last:\n%s", last)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("events or FluxJobs are still written %v after the last pod was bound", quietTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func (b *bench) refusals() (int, error) {
	content, err := os.ReadFile(controlplane.RefusalsPath(b.options.Dir))
	return strings.Count(string(content), "\n"), err
}
