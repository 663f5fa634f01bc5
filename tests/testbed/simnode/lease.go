package simnode

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// A kubelet renews its lease every 10 s, and is taken for dead after 50 s without. Twice that pace leaves half a
// minute for a loaded machine, at half the writes.
const (
	leaseInterval = 20 * time.Second
	leaseLife     = 40 * time.Second
	leaseTick     = 100 * time.Millisecond
	leaseWorkers  = 8
	leaseQueue    = 64
)

// leases keeps the nodes' leases renewed, spread evenly over time.
type leases struct {
	client kubernetes.Interface
	mu     sync.Mutex
	due    map[string]*renewal
}

type renewal struct {
	uid  types.UID
	next time.Time
}

func newLeases(client kubernetes.Interface) *leases {
	return &leases{client: client, due: map[string]*renewal{}}
}

// keep starts renewing a node's lease, or stops, as a kubelet that is there or not.
func (l *leases) keep(node *v1.Node, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.due[node.Name]; {
	case !alive:
		delete(l.due, node.Name)
	case known == nil || known.uid != node.UID:
		l.due[node.Name] = &renewal{uid: node.UID, next: time.Now().Add(rand.N(leaseInterval / 4))}
	}
}

type leaseJob struct {
	name string
	uid  types.UID
}

// run renews leases until ctx ends.
func (l *leases) run(ctx context.Context) {
	jobs := make(chan leaseJob, leaseQueue)
	for range leaseWorkers {
		go func() {
			for job := range jobs {
				l.renew(ctx, job)
			}
		}()
	}
	defer close(jobs)
	ticker := time.NewTicker(leaseTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, job := range l.take(now) {
				select {
				case jobs <- job:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func (l *leases) take(now time.Time) []leaseJob {
	l.mu.Lock()
	defer l.mu.Unlock()
	var jobs []leaseJob
	for name, r := range l.due {
		if r.next.Before(now) {
			// A tenth either way keeps nodes that began together from staying together.
			r.next = now.Add(leaseInterval*9/10 + rand.N(leaseInterval/5))
			jobs = append(jobs, leaseJob{name, r.uid})
		}
	}
	return jobs
}

// renew is one write, without a read: only this process writes these leases.
func (l *leases) renew(ctx context.Context, job leaseJob) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	now := metav1.NewMicroTime(time.Now())
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": now}})
	if err == nil {
		_, err = l.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Patch(ctx, job.name, types.MergePatchType,
			patch, metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		err = l.create(ctx, job, now)
	}
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "lease is not renewed", "node", job.name)
	}
}

func (l *leases) create(ctx context.Context, job leaseJob, now metav1.MicroTime) error {
	life := int32(leaseLife.Seconds())
	lease := &coordinationv1.Lease{}
	lease.Name = job.name
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: job.name, UID: job.uid}}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &job.name, LeaseDurationSeconds: &life, RenewTime: &now,
	}
	_, err := l.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
	return err
}
