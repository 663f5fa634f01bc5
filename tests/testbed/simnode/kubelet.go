package simnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// KubeletAnnotation on a Node says how its simulated kubelet is: [KubeletStopped], [KubeletNotReady], or well.
const KubeletAnnotation = "testbed/kubelet"

const (
	// KubeletStopped neither renews its lease nor looks at its pods: the node is as if its machine were off.
	KubeletStopped = "stopped"
	// KubeletNotReady reports its node as not ready, and runs its pods.
	KubeletNotReady = "not-ready"
)

// kubelets is what all simulated kubelets know. Each decision is one node's own: it uses that node's object and the
// pods admitted on it.
type kubelets struct {
	client   kubernetes.Interface
	refusals *refusals
	queue    workqueue.TypedRateLimitingInterface[types.UID]

	mu    sync.Mutex
	nodes map[string]*simNode
	pods  map[types.UID]*simPod
	ips   uint32
}

type simNode struct {
	object *v1.Node
	admit  lifecycle.PodAdmitHandler
	active map[types.UID]*v1.Pod // admitted, and not ended as far as this kubelet knows
}

func (n *simNode) stopped() bool { return n.object.Annotations[KubeletAnnotation] == KubeletStopped }

func (n *simNode) address() string {
	for _, address := range n.object.Status.Addresses {
		if address.Type == v1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}

// simPod is a pod that some kubelet has looked at.
type simPod struct {
	pod     *v1.Pod
	life    life
	start   time.Time
	podIP   string
	host    string
	refused *lifecycle.PodAdmitResult
	told    bool      // the refusal's event is written
	written stage     // the last stage in the API
	ended   bool      // a final phase is in the API
	stopAt  time.Time // when the containers of a deleted pod have stopped; zero for others
}

func newKubelets(client kubernetes.Interface, refusals *refusals) *kubelets {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 5*time.Second)
	return &kubelets{
		client:   client,
		refusals: refusals,
		queue:    workqueue.NewTypedRateLimitingQueue(limiter),
		nodes:    map[string]*simNode{},
		pods:     map[types.UID]*simPod{},
	}
}

// setNode takes in a node, new or changed, and returns whether its pods must be looked at again: it
// is new to us, or its kubelet runs again.
func (k *kubelets) setNode(object *v1.Node) bool {
	// The admission code writes this label where it is missing, into its argument.
	if object.Labels[v1.LabelOSStable] != "linux" {
		object = object.DeepCopy()
		if object.Labels == nil {
			object.Labels = map[string]string{}
		}
		object.Labels[v1.LabelOSStable] = "linux"
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	node, known := k.nodes[object.Name]
	if known && node.object.UID != object.UID {
		k.forgetNode(object.Name)
		known = false
	}
	if !known {
		node = &simNode{active: map[types.UID]*v1.Pod{}}
		// These are the kubelet's own checks. The answers of its device plugins are in the node's
		// allocatable resources.
		node.admit = lifecycle.NewPredicateAdmitHandler(
			func(context.Context, bool) (*v1.Node, error) { return node.object, nil },
			lifecycle.NewAdmissionFailureHandlerStub(),
			func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil },
		)
		k.nodes[object.Name] = node
	}
	wasStopped := known && node.stopped()
	node.object = object
	return !known || (wasStopped && !node.stopped())
}

func (k *kubelets) deleteNode(object *v1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if node := k.nodes[object.Name]; node != nil && node.object.UID == object.UID {
		k.forgetNode(object.Name)
	}
}

// forgetNode must be called with mu held. The node's pods are the garbage collector's from here.
func (k *kubelets) forgetNode(name string) {
	for uid := range k.nodes[name].active {
		delete(k.pods, uid)
	}
	delete(k.nodes, name)
}

// setPod takes in a pod that is bound to a node, new or changed.
func (k *kubelets) setPod(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	node := k.nodes[pod.Spec.NodeName]
	if node == nil || node.stopped() {
		return
	}
	final := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	p := k.pods[pod.UID]
	switch {
	case p == nil && final && pod.DeletionTimestamp == nil:
		return
	case p == nil:
		p = k.take(node, pod, final)
	default:
		p.pod = pod
		if final {
			p.ended = true
			delete(node.active, pod.UID)
		} else if _, active := node.active[pod.UID]; active {
			node.active[pod.UID] = pod
		}
	}
	if pod.DeletionTimestamp != nil && p.stopAt.IsZero() {
		p.stopAt = time.Now()
		if _, active := node.active[pod.UID]; active && !p.start.IsZero() {
			p.stopAt = p.stopAt.Add(stopTime(pod))
		}
		k.queue.Add(pod.UID)
	} else if final && pod.DeletionTimestamp == nil {
		// Whichever client wrote the phase, nothing more happens to this pod here.
		delete(k.pods, pod.UID)
	}
}

// take must be called with mu held. It admits or refuses a pod that is new to this process.
func (k *kubelets) take(node *simNode, pod *v1.Pod, final bool) *simPod {
	p := &simPod{pod: pod, ended: final, host: node.address()}
	k.pods[pod.UID] = p
	if final || pod.DeletionTimestamp != nil && pod.Status.StartTime == nil {
		// Deleted before it started: there is nothing to admit.
		return p
	}
	p.life = newLife(pod)
	if started := pod.Status.StartTime; started != nil {
		// Admitted by the process before this one. A real kubelet would admit it again after a restart.
		p.start, p.podIP = started.Time, pod.Status.PodIP
	} else {
		result := admit(node.admit, &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: node.others()})
		if !result.Admit {
			p.refused = &result
			k.queue.Add(pod.UID)
			return p
		}
		p.start = time.Now()
	}
	if p.podIP == "" {
		p.podIP = k.nextIP(pod, p.host)
	}
	node.active[pod.UID] = pod
	k.queue.Add(pod.UID)
	return p
}

func (n *simNode) others() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(n.active))
	for _, pod := range n.active {
		pods = append(pods, pod)
	}
	return pods
}

func (k *kubelets) nextIP(pod *v1.Pod, host string) string {
	if pod.Spec.HostNetwork {
		return host
	}
	k.ips++
	return fmt.Sprintf("10.%d.%d.%d", k.ips>>16&127, k.ips>>8&255, k.ips&255)
}

func (k *kubelets) deletePod(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, pod.UID)
	if node := k.nodes[pod.Spec.NodeName]; node != nil {
		delete(node.active, pod.UID)
	}
}

// work handles pods until the queue is shut down.
func (k *kubelets) work(ctx context.Context) {
	for {
		uid, quit := k.queue.Get()
		if quit {
			return
		}
		if err := k.sync(ctx, uid); err != nil {
			klog.ErrorS(err, "pod is tried again", "uid", uid)
			k.queue.AddRateLimited(uid)
		} else {
			k.queue.Forget(uid)
		}
		k.queue.Done(uid)
	}
}
