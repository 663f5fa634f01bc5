package main

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"
)

// RequestsCase is a pod, and what kube-scheduler counts for it: millicores, and base units of everything else. Zeros are
// left out.
type RequestsCase struct {
	Pod      *v1.Pod          `json:"pod"`
	Requests map[string]int64 `json:"requests"`
}

var always = v1.ContainerRestartPolicyAlways

func requestsCases(random *rand.Rand) []RequestsCase {
	var cases []RequestsCase
	for i := range 300 {
		pod := podWithRequests(random, i)
		asked := pod.DeepCopy()
		defaultRequests(asked.Spec.Containers)
		defaultRequests(asked.Spec.InitContainers)
		// As kube-scheduler counts a pod that waits (plugins/noderesources), and one that is on a node (framework.PodInfo).
		options := helper.PodResourcesOptions{}
		if pod.Spec.NodeName != "" {
			options.UseStatusResources = true
			options.InPlacePodLevelResourcesVerticalScalingEnabled = true
		}
		requests := map[string]int64{"pods": 1}
		for name, quantity := range helper.PodRequests(asked, options) {
			number := quantity.Value()
			if name == v1.ResourceCPU {
				number = quantity.MilliValue()
			}
			if number != 0 {
				requests[string(name)] = number
			}
		}
		cases = append(cases, RequestsCase{Pod: pod, Requests: requests})
	}
	return cases
}

// defaultRequests sets the same defaults as the API server at a pod's creation.
func defaultRequests(containers []v1.Container) {
	for i := range containers {
		resources := &containers[i].Resources
		for name, quantity := range resources.Limits {
			if _, there := resources.Requests[name]; there {
				continue
			}
			if resources.Requests == nil {
				resources.Requests = v1.ResourceList{}
			}
			resources.Requests[name] = quantity
		}
	}
}

func podWithRequests(random *rand.Rand, number int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("pod-%d", number), Namespace: "default", UID: "1",
	}}
	for i := range 1 + random.Intn(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(random, fmt.Sprintf("c%d", i)))
	}
	for i := range random.Intn(4) {
		init := container(random, fmt.Sprintf("i%d", i))
		if chance(random, 50) {
			init.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if chance(random, 25) {
		pod.Spec.Overhead = resourceList(random, 70, v1.ResourceCPU, v1.ResourceMemory)
	}
	if chance(random, 30) {
		pod.Spec.Resources = &v1.ResourceRequirements{
			Requests: resourceList(random, 60, v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi"),
		}
	}
	if chance(random, 60) {
		pod.Spec.NodeName = "n"
	}
	if chance(random, 60) {
		pod.Status = statusWithResources(random, pod)
	}
	return pod
}

func container(random *rand.Rand, name string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{
		Requests: resourceList(random, 60, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "hugepages-2Mi"),
		Limits:   resourceList(random, 30, v1.ResourceCPU, v1.ResourceMemory, "example.com/gpu"),
	}}
}

func statusWithResources(random *rand.Rand, pod *v1.Pod) v1.PodStatus {
	status := v1.PodStatus{}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(random, c.Name))
	}
	for _, c := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(random, c.Name))
	}
	if chance(random, 40) {
		reason := pick(random, v1.PodReasonInfeasible, v1.PodReasonDeferred)
		status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason}}
	}
	if pod.Spec.Resources != nil && chance(random, 60) {
		status.Resources = &v1.ResourceRequirements{Requests: resourceList(random, 60, v1.ResourceCPU, v1.ResourceMemory)}
		status.AllocatedResources = resourceList(random, 60, v1.ResourceCPU, v1.ResourceMemory)
	}
	return status
}

func containerStatus(random *rand.Rand, name string) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: name}
	if chance(random, 70) {
		status.Resources = &v1.ResourceRequirements{Requests: resourceList(random, 60, v1.ResourceCPU, v1.ResourceMemory)}
	}
	if chance(random, 70) {
		status.AllocatedResources = resourceList(random, 60, v1.ResourceCPU, v1.ResourceMemory)
	}
	return status
}
