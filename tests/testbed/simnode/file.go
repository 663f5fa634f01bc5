package simnode

import (
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// nodesMax bounds what one file may ask for: a count with a zero too many should be told, not tried.
const nodesMax = 50000

// File is a node file: which nodes a testbed has.
type File struct {
	Groups []Group `json:"groups"`
}

// Group is a number of nodes that differ in their names, and in labels that go round.
type Group struct {
	// NamePrefix is followed by the node's number in the group, from 0.
	NamePrefix string `json:"namePrefix"`
	Count      int    `json:"count"`

	CPU              resource.Quantity  `json:"cpu"`
	Memory           resource.Quantity  `json:"memory"`
	Pods             resource.Quantity  `json:"pods"`
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`
	// Extended resources, by their full name: `nvidia.com/gpu`.
	Extended map[string]resource.Quantity `json:"extended,omitempty"`

	// Labels are those of each node of the group.
	Labels map[string]string `json:"labels,omitempty"`
	// RoundRobin gives the first node the first value of each label, the next node the next, and so on around.
	RoundRobin    map[string][]string `json:"roundRobin,omitempty"`
	Taints        []v1.Taint          `json:"taints,omitempty"`
	Unschedulable bool                `json:"unschedulable,omitempty"`
}

// ReadFile reads and checks a node file. Unknown fields are errors.
func ReadFile(path string) (*File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := parseFile(content)
	if err != nil {
		return nil, fmt.Errorf("node file %s: %w", path, err)
	}
	return file, nil
}

func parseFile(content []byte) (*File, error) {
	file := &File{}
	if err := yaml.UnmarshalStrict(content, file); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	total := 0
	for i, group := range file.Groups {
		if err := group.check(); err != nil {
			return nil, fmt.Errorf("groups[%d]: %w", i, err)
		}
		if seen[group.NamePrefix] {
			return nil, fmt.Errorf("groups[%d]: namePrefix %q is another group's too", i, group.NamePrefix)
		}
		seen[group.NamePrefix] = true
		total += group.Count
	}
	if total > nodesMax {
		return nil, fmt.Errorf("%d nodes are more than %d", total, nodesMax)
	}
	return file, nil
}

func (g *Group) check() error {
	if problems := validation.IsDNS1123Subdomain(g.nodeName(0)); len(problems) > 0 {
		return fmt.Errorf("namePrefix %q: %s", g.NamePrefix, problems[0])
	}
	if g.Count < 1 {
		return fmt.Errorf("count %d: must be at least 1", g.Count)
	}
	for name, quantity := range g.resources() {
		if quantity.Sign() < 0 {
			return fmt.Errorf("%s %s: must not be negative", name, quantity.String())
		}
	}
	for name := range g.Extended {
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return fmt.Errorf("extended %q: %s", name, problems[0])
		}
	}
	for label, values := range g.RoundRobin {
		if len(values) == 0 {
			return fmt.Errorf("roundRobin %q: no values", label)
		}
	}
	return nil
}

func (g *Group) nodeName(i int) string { return fmt.Sprintf("%s%d", g.NamePrefix, i) }

func (g *Group) resources() v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:    g.CPU,
		v1.ResourceMemory: g.Memory,
		v1.ResourcePods:   g.Pods,
	}
	if g.EphemeralStorage != nil {
		list[v1.ResourceEphemeralStorage] = *g.EphemeralStorage
	}
	for name, quantity := range g.Extended {
		list[v1.ResourceName(name)] = quantity
	}
	return list
}

// Nodes returns the objects of all nodes of the file, ready and with nothing on them.
func (f *File) Nodes() []*v1.Node {
	var nodes []*v1.Node
	for _, group := range f.Groups {
		for i := range group.Count {
			nodes = append(nodes, group.node(i, len(nodes)))
		}
	}
	return nodes
}

// node makes the object of the i-th node of the group, the number-th of the file.
func (g *Group) node(i, number int) *v1.Node {
	node := &v1.Node{}
	node.Name = g.nodeName(i)
	node.Labels = map[string]string{
		v1.LabelHostname:   node.Name,
		v1.LabelOSStable:   "linux",
		v1.LabelArchStable: "amd64",
	}
	for label, value := range g.Labels {
		node.Labels[label] = value
	}
	for label, values := range g.RoundRobin {
		node.Labels[label] = values[i%len(values)]
	}
	node.Spec.Taints = append(node.Spec.Taints, g.Taints...)
	node.Spec.Unschedulable = g.Unschedulable
	node.Status.Capacity = g.resources()
	node.Status.Allocatable = g.resources()
	node.Status.Addresses = []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: fmt.Sprintf("172.%d.%d.%d", 16+number>>16, number>>8&255, number&255)},
		{Type: v1.NodeHostName, Address: node.Name},
	}
	return node
}
