package simnode

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

const oneNode = `
groups:
- {namePrefix: node-, count: 1, cpu: 2, memory: 1Gi, pods: 3, extended: {example.com/gpu: 1}, labels: {disk: ssd}}
`

func kubeletsWith(t *testing.T, pods ...*v1.Pod) (*kubelets, string) {
	t.Helper()
	file, err := parseFile([]byte(oneNode))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "refusals")
	record, err := openRefusals(path)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	k := newKubelets(client, record)
	t.Cleanup(k.queue.ShutDown)
	k.setNode(file.Nodes()[0])
	for _, pod := range pods {
		if _, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return k, path
}

func bound(name, resourceName, quantity string) *v1.Pod {
	p := pod("Never", "sleep 100")
	p.Name, p.Namespace, p.UID = name, "ns", types.UID("uid-"+name)
	p.Spec.NodeName = "node-0"
	p.Spec.Containers[0].Name = "main"
	if resourceName != "" {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceName(resourceName): resource.MustParse(quantity)}
	}
	return p
}

func (k *kubelets) phaseOf(t *testing.T, ctx context.Context, name string) (v1.PodPhase, string) {
	t.Helper()
	p, err := k.client.CoreV1().Pods("ns").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Status.Phase, p.Status.Reason
}

func TestTheSecondPodOfAFullNodeIsRefused(t *testing.T) {
	picky := bound("picky", "", "")
	picky.Spec.NodeSelector = map[string]string{"disk": "tape"}
	for name, test := range map[string]struct {
		first, second *v1.Pod
		reason        string
	}{
		"cpu":      {bound("a", "cpu", "1500m"), bound("b", "cpu", "501m"), "OutOfcpu"},
		"memory":   {bound("a", "memory", "1Gi"), bound("b", "memory", "1"), "OutOfmemory"},
		"gpu":      {bound("a", "example.com/gpu", "1"), bound("b", "example.com/gpu", "1"), "OutOfexample.com/gpu"},
		"selector": {bound("a", "", ""), picky, "NodeAffinity"},
		"fits":     {bound("a", "cpu", "1500m"), bound("b", "cpu", "500m"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			k, path := kubeletsWith(t, test.first, test.second)
			for _, p := range []*v1.Pod{test.first, test.second} {
				k.setPod(p)
				if err := k.sync(ctx, p.UID); err != nil {
					t.Fatal(err)
				}
			}
			if phase, _ := k.phaseOf(t, ctx, test.first.Name); phase != v1.PodRunning {
				t.Errorf("first pod is %s", phase)
			}
			wanted, lines := v1.PodRunning, 0
			if test.reason != "" {
				wanted, lines = v1.PodFailed, 1
			}
			phase, reason := k.phaseOf(t, ctx, test.second.Name)
			if phase != wanted || reason != test.reason {
				t.Errorf("second pod is %s %s", phase, reason)
			}
			record, err := os.ReadFile(path)
			if err != nil || strings.Count(string(record), "\n") != lines || !strings.Contains(string(record), test.reason) {
				t.Errorf("record: %q %v", record, err)
			}
		})
	}
}

func TestADeletedPodHoldsItsPlaceUntilItHasStopped(t *testing.T) {
	ctx := t.Context()
	first, second := bound("a", "cpu", "2"), bound("b", "cpu", "2")
	k, _ := kubeletsWith(t, first, second)
	k.setPod(first)
	deleted := first.DeepCopy()
	now, grace := metav1.Now(), int64(30)
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &now, &grace
	deleted.Annotations = map[string]string{StopSecondsAnnotation: "0.2"}
	k.setPod(deleted)
	if err := k.sync(ctx, first.UID); err != nil {
		t.Fatal(err)
	}
	if len(k.nodes["node-0"].active) != 1 {
		t.Fatal("the pod left its place before it stopped")
	}
	time.Sleep(250 * time.Millisecond)
	if err := k.sync(ctx, first.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := k.client.CoreV1().Pods("ns").Get(ctx, "a", metav1.GetOptions{}); err == nil {
		t.Error("the stopped pod is still there")
	}
	k.deletePod(deleted)
	k.setPod(second)
	if k.pods[second.UID].refused != nil {
		t.Error("the place of the stopped pod is not free")
	}
}

func TestAPodThatRanBeforeIsNotAdmittedAgain(t *testing.T) {
	started := metav1.NewTime(time.Now().Add(-50 * time.Second))
	first, second := bound("a", "cpu", "2"), bound("b", "cpu", "2")
	first.Status.StartTime, second.Status.StartTime = &started, &started
	k, _ := kubeletsWith(t, first, second)
	k.setPod(first)
	k.setPod(second)
	p := k.pods[second.UID]
	if p.refused != nil {
		t.Fatal("a running pod was refused")
	}
	if _, next := p.life.at(time.Since(p.start)); next != 100*time.Second {
		t.Errorf("its end moved to %v after its start", next)
	}
}
