package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"golang.org/x/sync/errgroup"

	"fluxqueue/tests/testbed/controlplane"
)

const (
	creating     = 32 // requests at a time while pods are made
	clearTimeout = 3 * time.Minute
	settle       = 2 * time.Second // between rows, for controllers to come to rest
)

func (b *bench) connect(ctx context.Context) error {
	client, config, err := controlplane.Client(b.testbed.Kubeconfig())
	if err != nil {
		return err
	}
	b.client = client
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources are JSON
	if b.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		b.nodes = append(b.nodes, nodes.Items[i].Name)
	}
	if len(b.nodes) == 0 {
		return fmt.Errorf("node file %s: no nodes", b.options.Nodes)
	}
	return nil
}

// makePods makes a row's namespace and pods, and returns when all are there.
func (b *bench) makePods(ctx context.Context, namespace string, r *row) error {
	object := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.awaitAccount(ctx, namespace); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creating)
	if r.gangs && b.options.Jobs {
		for i := range r.pods / b.options.GangSize {
			group.Go(func() error {
				job := gangJob(i, b.options.GangSize, r)
				_, err := b.client.BatchV1().Jobs(namespace).Create(groupCtx, job, metav1.CreateOptions{})
				return err
			})
		}
	} else {
		for i := range r.pods {
			group.Go(func() error {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}, Spec: podSpec(r.scheduler, r.cpu)}
				if r.gangs {
					pod.Labels = map[string]string{
						"fluxqueue.pod-group":  fmt.Sprintf("gang-%d", i/b.options.GangSize),
						"fluxqueue.group-size": strconv.Itoa(b.options.GangSize),
					}
				}
				_, err := b.client.CoreV1().Pods(namespace).Create(groupCtx, pod, metav1.CreateOptions{})
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := b.awaitPods(ctx, namespace, r.pods); err != nil {
		return err
	}
	time.Sleep(settle)
	return nil
}

const (
	usualRequest = "1"    // of 32 CPUs, so that 5,000 pods fill a third of 500 nodes
	smallRequest = "500m" // so that 20,000 fit
)

// podSpec requests this amount of CPU. The pods stay.
func podSpec(scheduler, cpu string) v1.PodSpec {
	grace := int64(0)
	return v1.PodSpec{
		SchedulerName:                 scheduler,
		RestartPolicy:                 v1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &grace,
		Containers: []v1.Container{{
			Name: "main", Image: "pause",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi"),
			}},
		}},
	}
}

func gangJob(i, size int, r *row) *batchv1.Job {
	count := int32(size)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gang-%d", i)}}
	job.Spec.Parallelism, job.Spec.Completions = &count, &count
	job.Spec.Template.Spec = podSpec(r.scheduler, r.cpu)
	return job
}

func (b *bench) awaitAccount(ctx context.Context, namespace string) error {
	return poll(ctx, func() (bool, error) {
		_, err := b.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func (b *bench) awaitPods(ctx context.Context, namespace string, wanted int) error {
	return poll(ctx, func() (bool, error) {
		// Metadata would do, but this is from the API server's cache, between rows.
		pods, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && len(pods.Items) == wanted, err
	})
}

func poll(ctx context.Context, done func() (bool, error)) error {
	deadline := time.Now().Add(clearTimeout)
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the cluster is not as wanted after " + clearTimeout.String())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// deleteAll repeats each request, which deletes many objects, until it has gone through: on a busy
// machine thousands of them take longer than the API server gives one request, and the next one
// deletes the rest.
func deleteAll(ctx context.Context, requests ...func() error) error {
	for _, request := range requests {
		var last error
		err := poll(ctx, func() (bool, error) {
			last = request()
			return last == nil || apierrors.IsNotFound(last), nil
		})
		if err != nil {
			return errors.Join(err, last)
		}
	}
	return nil
}

// clear deletes the objects of a row and returns when they are gone.
func (b *bench) clear(ctx context.Context, namespace string) error {
	now, background := int64(0), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
	all := metav1.ListOptions{}
	jobs := func() error { return b.client.BatchV1().Jobs(namespace).DeleteCollection(ctx, options, all) }
	pods := func() error { return b.client.CoreV1().Pods(namespace).DeleteCollection(ctx, options, all) }
	if err := deleteAll(ctx, jobs, pods); err != nil {
		return err
	}
	if err := b.awaitPods(ctx, namespace, 0); err != nil {
		return fmt.Errorf("clearing pods: %w", err)
	}
	records := func() error {
		return b.dynamic.Resource(fluxJobs).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all)
	}
	events := func() error {
		return b.client.CoreV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all)
	}
	if err := deleteAll(ctx, records, events); err != nil {
		return err
	}
	if err := b.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		_, err := b.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
