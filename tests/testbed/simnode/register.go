package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"
)

// registering is how many nodes are made at a time.
const registering = 32

// register makes the nodes that are not there. Those that are there are left as they are.
func register(ctx context.Context, client kubernetes.Interface, nodes []*v1.Node) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(registering)
	for _, node := range nodes {
		group.Go(func() error {
			node.Status.Conditions = conditions(v1.ConditionTrue)
			node.Status.NodeInfo = v1.NodeSystemInfo{
				KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated",
				ContainerRuntimeVersion: "testbed://0", KernelVersion: "0",
			}
			_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("making node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func conditions(ready v1.ConditionStatus) []v1.NodeCondition {
	now := metav1.NewTime(time.Now())
	list := []v1.NodeCondition{
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		{Type: v1.NodeReady, Status: ready, Reason: "KubeletReady"},
	}
	if ready != v1.ConditionTrue {
		list[3].Reason, list[3].Message = "KubeletNotReady", "annotation "+KubeletAnnotation+" says so"
	}
	for i := range list {
		list[i].LastHeartbeatTime, list[i].LastTransitionTime = now, now
	}
	return list
}

// wantedReady is the status that the node's kubelet should report.
func wantedReady(node *v1.Node) v1.ConditionStatus {
	if node.Annotations[KubeletAnnotation] == KubeletNotReady {
		return v1.ConditionFalse
	}
	return v1.ConditionTrue
}

// reportsReady says whether the node's status is what its kubelet should report. It is not when the controllers took
// the kubelet for dead, or when the annotation has changed.
func reportsReady(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == wantedReady(node)
		}
	}
	return false
}

func reportReady(ctx context.Context, client kubernetes.Interface, node *v1.Node) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": conditions(wantedReady(node))},
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// usable says whether the controllers have seen the node ready: until then it carries a taint.
func usable(node *v1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1.TaintNodeNotReady {
			return false
		}
	}
	return true
}

// untaint replaces the controllers where there are none: the API server puts the taint on every new
// node.
func untaint(ctx context.Context, client kubernetes.Interface, node *v1.Node) error {
	taints := []v1.Taint{}
	for _, taint := range node.Spec.Taints {
		if taint.Key != v1.TaintNodeNotReady {
			taints = append(taints, taint)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
