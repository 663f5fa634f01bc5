package simnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNodesFollowTheirGroup(t *testing.T) {
	file, err := parseFile([]byte(`
groups:
- namePrefix: gpu-
  count: 3
  cpu: 1500m
  memory: 2Gi
  pods: 10
  extended: {nvidia.com/gpu: 4}
  labels: {kind: gpu}
  roundRobin: {zone: [a, b]}
  taints: [{key: k, value: v, effect: NoSchedule}]
- {namePrefix: cpu-, count: 1, cpu: 1, memory: 1Gi, pods: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	nodes := file.Nodes()
	if len(nodes) != 4 || nodes[2].Name != "gpu-2" || nodes[3].Name != "cpu-0" {
		t.Fatalf("nodes: %v", nodes)
	}
	if zones := nodes[0].Labels["zone"] + nodes[1].Labels["zone"] + nodes[2].Labels["zone"]; zones != "aba" {
		t.Errorf("zones go %q", zones)
	}
	gpu, cpu := nodes[1].Status.Allocatable["nvidia.com/gpu"], nodes[1].Status.Allocatable["cpu"]
	if gpu.Value() != 4 || cpu.MilliValue() != 1500 {
		t.Errorf("allocatable: %v", nodes[1].Status.Allocatable)
	}
	if len(nodes[1].Spec.Taints) != 1 || nodes[1].Labels["kind"] != "gpu" || len(nodes[3].Spec.Taints) != 0 {
		t.Errorf("taints and labels: %v %v", nodes[1], nodes[3])
	}
	if nodes[0].Status.Addresses[0].Address == nodes[3].Status.Addresses[0].Address {
		t.Error("two nodes have one address")
	}
}

func TestMistakesInANodeFileAreNamed(t *testing.T) {
	for name, test := range map[string]struct{ group, wanted string }{
		"unknown field":  {`{namePrefix: a, count: 1, cpus: 3}`, "cpus"},
		"no count":       {`{namePrefix: a}`, "count 0"},
		"negative":       {`{namePrefix: a, count: 1, cpu: -1}`, "cpu -1"},
		"name":           {`{namePrefix: A_, count: 1}`, `namePrefix "A_"`},
		"too many":       {`{namePrefix: a, count: 5000000}`, "more than"},
		"no values":      {`{namePrefix: a, count: 1, roundRobin: {zone: []}}`, `roundRobin "zone"`},
		"quantity":       {`{namePrefix: a, count: 1, memory: lots}`, "quantities must match"},
		"same prefix":    {"{namePrefix: a, count: 1}\n- {namePrefix: a, count: 1}", "another group"},
		"extended names": {`{namePrefix: a, count: 1, extended: {"a b": 1}}`, `extended "a b"`},
	} {
		_, err := parseFile([]byte("groups:\n- " + test.group))
		if err == nil || !strings.Contains(err.Error(), test.wanted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShippedNodeFilesCanBeRead(t *testing.T) {
	paths, err := filepath.Glob("../nodes/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal("no node files", err)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err != nil {
			t.Error(err)
		}
	}
}
