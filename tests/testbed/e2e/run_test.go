package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestWhatSpecsLeaveBehindIsTakenAwayAndNothingElse(t *testing.T) {
	namespace := func(name string, labels map[string]string) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	client := fake.NewClientset(namespace("fluxqueue-system", nil), namespace("sched-pred-1", map[string]string{"e2e-run": "r"}))
	if err := clear(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	left, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "fluxqueue-system" {
		t.Errorf("%v, %v", left, err)
	}
}

func TestAPodThatASpecHasLeftWithAFinalizerLosesIt(t *testing.T) {
	now := metav1.Now()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sched-pred-1", DeletionTimestamp: &now}}
	pod := func(name string, deleted *metav1.Time) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace.Name, DeletionTimestamp: deleted, Finalizers: []string{"example.com/test"},
		}}
	}
	client := fake.NewClientset(pod("gone", &now), pod("runs", nil))
	if err := clearNamespace(t.Context(), client, namespace); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"gone": 0, "runs": 1} {
		pod, err := client.CoreV1().Pods(namespace.Name).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(pod.Finalizers) != want {
			t.Errorf("%s: %v, %v", name, pod, err)
		}
	}
}
