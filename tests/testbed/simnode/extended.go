package simnode

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
)

// extendedPatch is the difference between the extended resources that pods may have of a node and
// those of its capacity, which users write: nil if there is none. A kubelet offers the resources of
// the capacity, and nothing else.
func extendedPatch(node *v1.Node) map[v1.ResourceName]any {
	patch := map[v1.ResourceName]any{}
	capacity, allocatable := node.Status.Capacity, node.Status.Allocatable
	for name, amount := range capacity {
		if offered, known := allocatable[name]; helper.IsExtendedResourceName(name) && (!known || offered.Cmp(amount) != 0) {
			patch[name] = amount.String()
		}
	}
	for name := range allocatable {
		if _, known := capacity[name]; helper.IsExtendedResourceName(name) && !known {
			patch[name] = nil
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

func offerExtended(patch map[v1.ResourceName]any) func(context.Context, kubernetes.Interface, *v1.Node) error {
	return func(ctx context.Context, client kubernetes.Interface, node *v1.Node) error {
		content, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": node.UID},
			"status":   map[string]any{"allocatable": patch},
		})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, content, metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	}
}
