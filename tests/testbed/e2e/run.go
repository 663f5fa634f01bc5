// Package e2e runs specs of Kubernetes' own end-to-end suite with kube-scheduler and with Fluxqueue, each on a control plane of its
// own with the same simulated nodes, and says which pass with the one and not with the other.
//
// Upstream's program is not part of this one: see tests/e2e.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"

	"fluxqueue/tests/testbed/controlplane"
)

// Options select the specs and the cluster to run them against.
type Options struct {
	Dir         string // gets control planes, logs and reports
	Suite       string // upstream's e2e.test
	Focus, Skip string // regular expressions for the names of specs
	SpecTimeout time.Duration
	Nodes       string   // node file
	Fluxqueue   string   // its binary
	Install     []string // manifests, or kustomization directories, for Fluxqueue
	Namespace   string   // of the service account as which Fluxqueue runs
	Account     string   // empty: the administrator
	Flags       []string // more flags of Fluxqueue
	Workloads   bool     // the Job controller gives each Job a Workload and a PodGroup
	Progress    io.Writer
}

// scheduler is what places the pods of a whole run.
type scheduler struct {
	name string
	// pods is the schedulerName that pods must have which name none.
	pods  string
	start func(ctx context.Context, testbed *controlplane.Testbed) (*controlplane.Guest, error)
}

func (o *Options) schedulers() []scheduler {
	return []scheduler{
		{
			name: "kube-scheduler", pods: v1.DefaultSchedulerName,
			start: func(_ context.Context, testbed *controlplane.Testbed) (*controlplane.Guest, error) {
				return testbed.StartScheduler()
			},
		},
		{
			name: "Fluxqueue", pods: "fluxqueue",
			start: func(ctx context.Context, testbed *controlplane.Testbed) (*controlplane.Guest, error) {
				if err := testbed.Apply(ctx, o.Install...); err != nil {
					return nil, err
				}
				return testbed.StartFluxqueue(ctx, o.Fluxqueue, o.Namespace, o.Account, o.Flags...)
			},
		},
	}
}

func (o *Options) say(format string, args ...any) {
	fmt.Fprintf(o.Progress, "e2e: "+format+"\n", args...)
}

// Run runs all specs, and writes a table of what came of them. A spec that passes with kube-scheduler alone is an error.
func Run(ctx context.Context, options Options, out io.Writer) error {
	logs := filepath.Join(options.Dir, "specs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	program := &suite{program: options.Suite, dir: logs, timeout: options.SpecTimeout}
	specs, err := program.list(ctx, options.Focus, options.Skip)
	if err != nil {
		return err
	}
	options.say("%d specs; logs and reports are in %s", len(specs), logs)
	schedulers := options.schedulers()
	table := &table{specs: specs, columns: make([]column, len(schedulers))}
	group, groupCtx := errgroup.WithContext(ctx)
	for i, scheduler := range schedulers {
		// Most of a spec's time is spent waiting.
		group.Go(func() error {
			outcomes, err := options.runAll(groupCtx, program, scheduler, specs)
			if err != nil {
				return fmt.Errorf("with %s: %w", scheduler.name, err)
			}
			table.columns[i] = column{scheduler.name, outcomes}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := table.write(out); err != nil {
		return err
	}
	return table.verdict()
}

// runAll runs the specs one after the other on one cluster, as upstream does: what one leaves behind shows in the next.
func (o *Options) runAll(ctx context.Context, program *suite, scheduler scheduler, specs []string) ([]outcome, error) {
	testbed, err := controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(o.Dir, scheduler.name), Nodes: o.Nodes, Kubelets: true, Controllers: true, Workloads: o.Workloads,
	})
	if err != nil {
		return nil, err
	}
	defer testbed.Stop()
	guest, err := scheduler.start(ctx, testbed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = guest.Stop() }()
	if err := awaitName(ctx, testbed, scheduler.pods); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go watch(ctx, guest, end)
	return o.runEach(ctx, program, testbed, scheduler.name, specs)
}

func (o *Options) runEach(
	ctx context.Context, program *suite, testbed *controlplane.Testbed, scheduler string, specs []string,
) ([]outcome, error) {
	client, _, err := controlplane.Client(testbed.Kubeconfig())
	if err != nil {
		return nil, err
	}
	var outcomes []outcome
	for i, spec := range specs {
		result := program.run(ctx, testbed.Kubeconfig(), fmt.Sprintf("%s-%02d", scheduler, i+1), spec)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("during %q: %w", spec, context.Cause(ctx))
		}
		o.say("%s, %d of %d: %s in %.0f s: %s", scheduler, i+1, len(specs), result.state, result.took.Seconds(), spec)
		outcomes = append(outcomes, result)
		if err := clear(ctx, client); err != nil {
			return nil, fmt.Errorf("after %q: %w", spec, err)
		}
	}
	return outcomes, nil
}

// watch ends a run if its scheduler has ended: no spec would pass any more.
func watch(ctx context.Context, guest *controlplane.Guest, end context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if alive, last := guest.Alive(); !alive {
			end(fmt.Errorf("it has ended; it wrote last:\n%s", last))
			return
		}
		time.Sleep(time.Second)
	}
}

// clearTimeout bounds the wait for the namespaces of a spec to be gone.
const clearTimeout = 5 * time.Minute

// clear removes the namespaces that specs have made, and returns when they are gone: a spec depends
// on the free resources.
func clear(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, clearTimeout)
	defer cancel()
	for {
		made, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: "e2e-run"})
		if err != nil || len(made.Items) == 0 {
			return err
		}
		for i := range made.Items {
			if err := clearNamespace(ctx, client, &made.Items[i]); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d namespaces are not gone: %w", len(made.Items), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// clearNamespace deletes a namespace, and takes from its pods what keeps them: a spec that was cut off does not come back to do it.
func clearNamespace(ctx context.Context, client kubernetes.Interface, namespace *v1.Namespace) error {
	if namespace.DeletionTimestamp == nil {
		return client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{})
	}
	pods, err := client.CoreV1().Pods(namespace.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil || len(pod.Finalizers) == 0 {
			continue
		}
		_, err := client.CoreV1().Pods(namespace.Name).Patch(ctx, pod.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// nameTimeout bounds the wait for an admission policy, which the API server takes up a moment after it is there.
const nameTimeout = time.Minute

// awaitName returns when a pod that names no scheduler would get this one. Nothing is created.
func awaitName(ctx context.Context, testbed *controlplane.Testbed, name string) error {
	client, _, err := controlplane.Client(testbed.Kubeconfig())
	if err != nil {
		return err
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "whose"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "whose", Image: "none"}},
	}}
	deadline := time.Now().Add(nameTimeout)
	for {
		made, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err != nil:
			return err
		case made.Spec.SchedulerName == name:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("after %v a new pod gets the scheduler %q, not %q", nameTimeout, made.Spec.SchedulerName, name)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
