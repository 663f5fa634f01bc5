package oracle

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const cluster = `{
	"namespaces": [{"metadata": {"name": "a", "labels": {"team": "x"}}}],
	"nodes": [
		{"metadata": {"name": "n1", "labels": {"zone": "east"}}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}},
		{"metadata": {"name": "n2", "labels": {"zone": "west"}}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
	],
	"questions": [
		{"pod": {"metadata": {"name": "p", "namespace": "a", "uid": "1"}, "spec": {"nodeSelector": {"zone": "east"},
			"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}, "then": "n1", "scores": true},
		{"pod": {"metadata": {"name": "q", "namespace": "a", "uid": "2"}, "spec": {
			"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}}
	]
}`

func TestAnswersAreThoseOfKubeScheduler(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), strings.NewReader(strings.ReplaceAll(cluster, "\n", "")), &out); err != nil {
		t.Fatal(err)
	}
	var answers []Answer
	if err := json.Unmarshal(out.Bytes(), &answers); err != nil {
		t.Fatal(err)
	}
	first, second := answers[0], answers[1]
	if len(first.Passing) != 1 || len(first.Passing["n1"]) == 0 {
		t.Errorf("n1 alone takes the first pod, with a score: %v", first)
	}
	if reasons := first.Rejected["n2"]; len(reasons) != 1 || reasons[0] != "node(s) didn't match Pod's node affinity/selector" {
		t.Errorf("n2 is in the other zone: %q", reasons)
	}
	if want := "0/2 nodes are available: 2 Insufficient cpu."; second.Text != want {
		t.Errorf("the first pod has filled n1: %q, not %q", second.Text, want)
	}
}
