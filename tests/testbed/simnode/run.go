// Package simnode simulates nodes and their kubelets: it makes Node objects from a file, keeps them ready, and does
// for pods what kubelets do, as far as the API shows it.
//
// The kubelet's own code decides whether a pod is admitted. The behaviour of its containers is made
// up from their commands (program.go). Every Node object of the cluster is simulated, whichever
// client made it.
package simnode

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options say what one process simulates.
type Options struct {
	File     string // node file, may be empty; read again on SIGHUP, which makes the nodes that are missing
	Create   bool   // make the nodes of the file at the start too
	Kubelets bool   // run pods; without, nodes are ready and pods stay as they are bound
	Untaint  bool   // take the not-ready taint from new nodes, where no controller does
	Refusals string // file for the record of refused pods
	Ready    string // file made when all nodes are usable
}

const (
	podWorkers = 32
	byNode     = "spec.nodeName"
)

type simulation struct {
	options  Options
	client   kubernetes.Interface
	kubelets *kubelets
	leases   *leases
	nodes    cache.SharedIndexInformer
	pods     cache.SharedIndexInformer
}

// Run simulates until ctx ends.
func Run(ctx context.Context, client kubernetes.Interface, options Options) error {
	record, err := openRefusals(options.Refusals)
	if err != nil {
		return err
	}
	s := &simulation{
		options: options, client: client, kubelets: newKubelets(client, record), leases: newLeases(client),
	}
	if err := s.makeInformers(); err != nil {
		return err
	}
	if options.Create {
		if err := s.makeNodes(ctx); err != nil {
			return err
		}
	}
	if err := s.watchNodes(ctx); err != nil {
		return err
	}
	go s.leases.run(ctx)
	if options.Kubelets {
		if err := s.watchPods(ctx); err != nil {
			return err
		}
	}
	go s.reportUsable(ctx)
	s.reloadOnHangup(ctx)
	s.kubelets.queue.ShutDown()
	return nil
}

func (s *simulation) makeNodes(ctx context.Context) error {
	if s.options.File == "" {
		return nil
	}
	file, err := ReadFile(s.options.File)
	if err != nil {
		return err
	}
	return register(ctx, s.client, file.Nodes())
}

func (s *simulation) reloadOnHangup(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			if err := s.makeNodes(ctx); err != nil {
				klog.ErrorS(err, "node file is not read again")
			}
		}
	}
}

// makeInformers starts nothing. Both are there before either runs, because nodes' events look at the pods.
func (s *simulation) makeInformers() error {
	s.nodes = informers.NewSharedInformerFactory(s.client, 0).Core().V1().Nodes().Informer()
	bound := func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTweakListOptions(bound))
	s.pods = factory.Core().V1().Pods().Informer()
	return s.pods.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		return []string{object.(*v1.Pod).Spec.NodeName}, nil
	}})
}

// watchNodes returns when all nodes there are have been seen.
func (s *simulation) watchNodes(ctx context.Context) error {
	registration, err := s.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.onNode(ctx, object.(*v1.Node)) },
		UpdateFunc: func(_, object any) { s.onNode(ctx, object.(*v1.Node)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			node := object.(*v1.Node)
			s.kubelets.deleteNode(node)
			s.leases.keep(node, false)
		},
	})
	if err != nil {
		return err
	}
	go s.nodes.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watching nodes: %w", ctx.Err())
	}
	return nil
}

func (s *simulation) onNode(ctx context.Context, node *v1.Node) {
	revisit := s.kubelets.setNode(node)
	alive := node.Annotations[KubeletAnnotation] != KubeletStopped
	s.leases.keep(node, alive)
	if alive && !reportsReady(node) {
		if err := s.request(ctx, node, reportReady); err != nil {
			klog.ErrorS(err, "node is not reported ready", "node", node.Name)
		}
	}
	if patch := extendedPatch(node); alive && patch != nil {
		if err := s.request(ctx, node, offerExtended(patch)); err != nil {
			klog.ErrorS(err, "extended resources of a node are not offered", "node", node.Name)
		}
	}
	if s.options.Untaint && !usable(node) {
		if err := s.request(ctx, node, untaint); err != nil {
			klog.ErrorS(err, "node keeps its taint", "node", node.Name)
		}
	}
	if revisit {
		s.revisitPods(node.Name)
	}
}

func (s *simulation) request(
	ctx context.Context, node *v1.Node, do func(context.Context, kubernetes.Interface, *v1.Node) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return do(ctx, s.client, node)
}

// revisitPods hands a node's pods to its kubelet again, which was not there when they came.
func (s *simulation) revisitPods(node string) {
	pods, err := s.pods.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		klog.ErrorS(err, "pods of a node are not looked at", "node", node)
		return
	}
	for _, object := range pods {
		pod := object.(*v1.Pod)
		s.kubelets.setPod(pod)
		s.kubelets.queue.Add(pod.UID)
	}
}

// watchPods starts the kubelets: one watch for all.
func (s *simulation) watchPods(ctx context.Context) error {
	if _, err := s.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.kubelets.setPod(object.(*v1.Pod)) },
		UpdateFunc: func(_, object any) { s.kubelets.setPod(object.(*v1.Pod)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			s.kubelets.deletePod(object.(*v1.Pod))
		},
	}); err != nil {
		return err
	}
	for range podWorkers {
		go s.kubelets.work(ctx)
	}
	go s.pods.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), s.pods.HasSynced) {
		return fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return nil
}

// reportUsable makes the ready file once no node carries the taint of new nodes.
func (s *simulation) reportUsable(ctx context.Context) {
	for ctx.Err() == nil {
		waiting := 0
		for _, object := range s.nodes.GetStore().List() {
			if node := object.(*v1.Node); !usable(node) && node.Annotations[KubeletAnnotation] == "" {
				waiting++
			}
		}
		if waiting == 0 {
			if err := os.WriteFile(s.options.Ready, nil, 0o644); err != nil {
				klog.ErrorS(err, "nodes are usable, but cannot say so")
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
