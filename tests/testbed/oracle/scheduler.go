package oracle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// notAsked are plugins that need more of a cluster than is given here, and say nothing about where a pod without resource
// claims may go.
var notAsked = []string{names.DynamicResources, names.DefaultPreemption, names.DefaultBinder}

// scheduler is kube-scheduler's framework, with its default plugins, over a cluster that is put in its place.
type scheduler struct {
	framework framework.Framework
	lister    *lister
	nominator *nominator
	informers informers.SharedInformerFactory
}

// lister is the cluster as plugins see it. They keep it, so the snapshot behind it is exchanged. The lists of a snapshot
// depend on the version.
type lister struct {
	fwk.SharedLister
}

func newScheduler(ctx context.Context) (*scheduler, error) {
	metrics.Register()
	configuration, err := latest.Default()
	if err != nil {
		return nil, err
	}
	if len(configuration.Profiles) != 1 {
		return nil, fmt.Errorf("%d default profiles: one was expected", len(configuration.Profiles))
	}
	profile := configuration.Profiles[0]
	leaveOut(&profile.Plugins.MultiPoint)
	// The real one binds; a framework without one is an error.
	profile.Plugins.Bind.Enabled = []config.Plugin{{Name: names.DefaultBinder}}

	s := &scheduler{lister: &lister{cache.NewEmptySnapshot()}, nominator: &nominator{}}
	client := fake.NewClientset()
	s.informers = informers.NewSharedInformerFactory(client, 0)
	csiNodes := s.informers.Storage().V1().CSINodes().Lister()
	s.framework, err = runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		runtime.WithClientSet(client),
		runtime.WithInformerFactory(s.informers),
		runtime.WithSnapshotSharedLister(s.lister),
		runtime.WithPodNominator(s.nominator),
		runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(csiNodes)),
		runtime.WithParallelism(1),
	)
	return s, err
}

func leaveOut(set *config.PluginSet) {
	kept := set.Enabled[:0]
	for _, plugin := range set.Enabled {
		asked := true
		for _, name := range notAsked {
			asked = asked && plugin.Name != name
		}
		if asked {
			kept = append(kept, plugin)
		}
	}
	set.Enabled = kept
}

// setNamespaces puts these in the place of all that were known.
func (s *scheduler) setNamespaces(namespaces []*v1.Namespace) error {
	known := make([]any, 0, len(namespaces))
	for _, namespace := range namespaces {
		known = append(known, namespace)
	}
	return s.informers.Core().V1().Namespaces().Informer().GetIndexer().Replace(known, "")
}
