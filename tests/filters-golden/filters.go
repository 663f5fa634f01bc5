package main

import (
	"fmt"
	"log"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Judgment is what kube-scheduler's filters and scores say of one pod on one node.
type Judgment struct {
	// Rejected is the text of the first filter that rejects, in the default profile's order.
	Rejected string `json:"rejected,omitempty"`
	// Affinity is the raw score of preferred node affinity.
	Affinity int64 `json:"affinity,omitempty"`
	// Intolerable counts PreferNoSchedule taints that are not tolerated: the raw score of TaintToleration.
	Intolerable int64 `json:"intolerable,omitempty"`
}

// filterCases makes nodes and pods; judgments[i][j] is pod i on node j.
func filterCases(random *rand.Rand) (nodes []*v1.Node, pods []*v1.Pod, judgments [][]Judgment) {
	for i := range 24 {
		nodes = append(nodes, node(random, i))
	}
	for i := range 120 {
		pod := podWithConstraints(random, i)
		pods = append(pods, pod)
		var row []Judgment
		for _, node := range nodes {
			row = append(row, judge(pod, node))
		}
		judgments = append(judgments, row)
	}
	return nodes, pods, judgments
}

func judge(pod *v1.Pod, node *v1.Node) Judgment {
	judgment := Judgment{Rejected: rejection(pod, node)}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			log.Fatal(err)
		}
		judgment.Affinity = terms.Score(node)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == v1.TaintEffectPreferNoSchedule && !tolerated(pod, &taint) {
			judgment.Intolerable++
		}
	}
	return judgment
}

func rejection(pod *v1.Pod, node *v1.Node) string {
	if node.Spec.Unschedulable && !tolerated(pod, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}) {
		return "node(s) were unschedulable"
	}
	repelling := func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	}
	if _, found := helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, repelling, false); found {
		return "node(s) had untolerated taint(s)"
	}
	// kube-scheduler ignores the error, too.
	if match, _ := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); !match {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	needed, err := ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec}, version.MustParse("1.37.2"))
	if err != nil {
		log.Fatal(err)
	}
	if match, err := needed.IsSubset(ndf.DefaultFramework.MustMapSorted(node.Status.DeclaredFeatures)); err != nil {
		log.Fatal(err)
	} else if !match {
		return "node(s) didn't match Pod's required features"
	}
	return ""
}

func tolerated(pod *v1.Pod, taint *v1.Taint) bool {
	return helper.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, false)
}

var effects = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}

func taintKey(random *rand.Rand) string {
	return pick(random, "dedicated", "gpu", v1.TaintNodeUnschedulable, v1.TaintNodeNotReady)
}

func node(random *rand.Rand, number int) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", number), UID: "1", Labels: someLabels(random)}}
	node.Spec.Unschedulable = chance(random, 15)
	if chance(random, 50) {
		for range 1 + random.Intn(2) {
			taint := v1.Taint{Key: taintKey(random), Value: pick(random, "", "a", "b"), Effect: pick(random, effects...)}
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
	// In order, as nodes declare them.
	for _, feature := range []string{"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"} {
		if chance(random, 60) {
			node.Status.DeclaredFeatures = append(node.Status.DeclaredFeatures, feature)
		}
	}
	return node
}

func podWithConstraints(random *rand.Rand, number int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", number), Namespace: "default", UID: "1"}}
	pod.Spec.Containers = []v1.Container{{Name: "c"}}
	if chance(random, 70) {
		for range 1 + random.Intn(3) {
			toleration := v1.Toleration{
				Key:      pick(random, "", taintKey(random)),
				Operator: pick(random, "", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpExists, v1.TolerationOpLt),
				Value:    pick(random, "", "", "a", "b"),
				Effect:   pick(random, append(effects, "")...),
			}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
	if chance(random, 20) {
		pod.Spec.NodeSelector = map[string]string{pick(random, "app", "zone", "number"): someValues(random, 1)[0]}
	}
	if chance(random, 60) {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: nodeAffinity(random)}
	}
	if chance(random, 15) {
		restart := v1.ContainerRestartRule{Action: pick(random, v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)}
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{restart}
	}
	if chance(random, 15) {
		hostUsers := chance(random, 30)
		pod.Spec.HostUsers = &hostUsers
		pod.Spec.HostNetwork = chance(random, 70)
	}
	return pod
}

func nodeAffinity(random *rand.Rand) *v1.NodeAffinity {
	affinity := &v1.NodeAffinity{}
	if chance(random, 60) {
		selector := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{}}
		for range random.Intn(4) {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, nodeTerm(random, true))
		}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = selector
	}
	for range random.Intn(3) {
		preferred := v1.PreferredSchedulingTerm{Weight: int32(random.Intn(101)), Preference: nodeTerm(random, false)}
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, preferred)
	}
	return affinity
}

// nodeTerm makes a term of up to three requirements; sloppy ones may be malformed, which makes the term match nothing.
func nodeTerm(random *rand.Rand, sloppy bool) v1.NodeSelectorTerm {
	term := v1.NodeSelectorTerm{}
	for range random.Intn(3) {
		requirement := v1.NodeSelectorRequirement{
			Key: pick(random, "app", "zone", "number", "absent"),
			Operator: pick(random, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists,
				v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt),
		}
		switch requirement.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			requirement.Values = someValues(random, 1+random.Intn(2))
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			requirement.Values = []string{pick(random, "4", "5", "7", "010")}
		}
		if sloppy && chance(random, 10) {
			requirement.Operator = pick(random, "Near", requirement.Operator)
			requirement.Values = someValues(random, random.Intn(3))
		}
		if sloppy && chance(random, 4) {
			requirement.Values = append(requirement.Values, pick(random, "not a label value", "-3", "+5"))
		}
		term.MatchExpressions = append(term.MatchExpressions, requirement)
	}
	if chance(random, 20) {
		field := v1.NodeSelectorRequirement{
			Key:      metav1.ObjectNameField,
			Operator: pick(random, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn),
			Values:   []string{fmt.Sprintf("node-%d", random.Intn(24))},
		}
		if sloppy && chance(random, 20) {
			field.Operator = pick(random, v1.NodeSelectorOpExists, field.Operator)
			field.Values = append(field.Values, pick(random, "node-1", "node-2"))
		}
		term.MatchFields = append(term.MatchFields, field)
	}
	return term
}
