package oracle

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominator knows the pods that are nominated to nodes. They are put in its place like everything else of a cluster, so nothing
// that plugins tell it matters.
type nominator struct {
	byNode map[string][]fwk.PodInfo
}

// set puts these pods in the place of all that were nominated.
func (n *nominator) set(pods []*v1.Pod) error {
	n.byNode = map[string][]fwk.PodInfo{}
	for _, pod := range pods {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return err
		}
		node := pod.Status.NominatedNodeName
		n.byNode[node] = append(n.byNode[node], info)
	}
	return nil
}

func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo { return n.byNode[node] }

func (n *nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n *nominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n *nominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
