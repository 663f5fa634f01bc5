package simnode

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestExtendedResourcesOfTheCapacityAreOffered(t *testing.T) {
	file, err := parseFile([]byte(oneNode))
	if err != nil {
		t.Fatal(err)
	}
	node := file.Nodes()[0]
	if patch := extendedPatch(node); patch != nil {
		t.Errorf("a node as it was made: %v", patch)
	}
	// Of other resources the kubelet keeps some for itself.
	node.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("1")
	node.Status.Capacity["example.com/new"] = resource.MustParse("1000")
	node.Status.Capacity["example.com/gpu"] = resource.MustParse("2")
	node.Status.Allocatable["example.com/gone"] = resource.MustParse("4")
	patch := extendedPatch(node)
	want := map[v1.ResourceName]any{"example.com/new": "1k", "example.com/gpu": "2", "example.com/gone": nil}
	if !reflect.DeepEqual(patch, want) {
		t.Fatalf("%v", patch)
	}
	client := fake.NewClientset(node)
	if err := offerExtended(patch)(t.Context(), client, node); err != nil {
		t.Fatal(err)
	}
	written, err := client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patch := extendedPatch(written); patch != nil || written.Status.Allocatable.Cpu().String() != "1" {
		t.Errorf("%v, %v", patch, written.Status.Allocatable)
	}
}
