// Asks Kubernetes' own code how it judges made-up pods and nodes, and prints questions and answers as JSON.
//
// machine/src/cluster/golden.rs holds the same questions against our code. After a change here, or
// for a new version of Kubernetes (go.mod), write the answers again:
//
//	go run . > cases.json
//
// The pods and nodes come from a fixed seed, so the output changes only when the questions or the answers do.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// QuantityCase is a text, and the amount that it stands for.
type QuantityCase struct {
	Text  string `json:"text"`
	Milli int64  `json:"milli"`
	Value int64  `json:"value"`
}

// RepelsCase is a label selector, and whether it selects labels.
type RepelsCase struct {
	Selector *metav1.LabelSelector `json:"selector"`
	Labels   map[string]string     `json:"labels"`
	Matches  bool                  `json:"matches"`
}

func main() {
	random := rand.New(rand.NewSource(36))
	out := bufio.NewWriter(os.Stdout)
	out.WriteString("{\n")
	list(out, "quantities", quantityCases(random), ",")
	list(out, "requests", requestsCases(random), ",")
	nodes, pods, judgments := filterCases(random)
	list(out, "nodes", nodes, ",")
	list(out, "pods", pods, ",")
	list(out, "judgments", judgments, ",")
	list(out, "repels", repelsCases(random), "")
	out.WriteString("}\n")
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// list writes one case per line, so that a difference between two versions can be read.
func list[T any](out *bufio.Writer, name string, cases []T, after string) {
	fmt.Fprintf(out, "%q: [\n", name)
	for i, each := range cases {
		line, err := json.Marshal(each)
		if err != nil {
			log.Fatal(err)
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(line)
	}
	fmt.Fprintf(out, "\n]%s\n", after)
}

func pick[T any](random *rand.Rand, from ...T) T {
	return from[random.Intn(len(from))]
}

func chance(random *rand.Rand, percent int) bool {
	return random.Intn(100) < percent
}

// quantityCases makes numbers of up to five digits with every suffix; the answers stay far below 2^63.
func quantityCases(random *rand.Rand) []QuantityCase {
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E2", "e-2", "E+1", "e-12"}
	var cases []QuantityCase
	for range 400 {
		text := pick(random, "", "", "", "+")
		for range 1 + random.Intn(3) {
			text += pick(random, "0", "1", "2", "5", "7", "9")
		}
		if chance(random, 50) {
			text += "."
			for range random.Intn(5) {
				text += pick(random, "0", "1", "3", "5", "9")
			}
		}
		text += pick(random, suffixes...)
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			log.Fatalf("%q: %v", text, err)
		}
		// A zero Value next to a non-zero quantity would mean that the amount does not fit.
		cases = append(cases, QuantityCase{Text: text, Milli: quantity.MilliValue(), Value: quantity.Value()})
	}
	return cases
}

func repelsCases(random *rand.Rand) []RepelsCase {
	var cases []RepelsCase
	for range 200 {
		selector := &metav1.LabelSelector{}
		if chance(random, 50) {
			selector.MatchLabels = someLabels(random)
		}
		for range random.Intn(3) {
			requirement := metav1.LabelSelectorRequirement{
				Key:      pick(random, "app", "zone", "number"),
				Operator: pick(random, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
			}
			if requirement.Operator == metav1.LabelSelectorOpIn || requirement.Operator == metav1.LabelSelectorOpNotIn {
				requirement.Values = someValues(random, 1+random.Intn(2))
			}
			selector.MatchExpressions = append(selector.MatchExpressions, requirement)
		}
		if chance(random, 5) {
			selector = nil
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			log.Fatal(err)
		}
		own := someLabels(random)
		cases = append(cases, RepelsCase{Selector: selector, Labels: own, Matches: parsed.Matches(labels.Set(own))})
	}
	return cases
}

func someLabels(random *rand.Rand) map[string]string {
	some := map[string]string{}
	for _, key := range []string{"app", "zone", "number"} {
		if chance(random, 60) {
			some[key] = someValues(random, 1)[0]
		}
	}
	return some
}

func someValues(random *rand.Rand, count int) []string {
	var values []string
	for range count {
		values = append(values, pick(random, "a", "b", "5", "10", "x-3", ""))
	}
	return values
}

func resourceList(random *rand.Rand, percent int, names ...v1.ResourceName) v1.ResourceList {
	list := v1.ResourceList{}
	for _, name := range names {
		if chance(random, percent) {
			list[name] = resource.MustParse(amount(random, name))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func amount(random *rand.Rand, name v1.ResourceName) string {
	switch name {
	case v1.ResourceCPU:
		return pick(random, "0", "100m", "1", "1500m", "0.1", "500u", "250000000n", "2.5", "1e1", "1k")
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return pick(random, "0", "64Mi", "1.5Gi", "128974848", "129e6", "123Mi", "100m", "0.3Ki", "2Ti", "1G")
	case "hugepages-2Mi":
		return pick(random, "0", "2Mi", "4Mi", "1Gi")
	default:
		return pick(random, "0", "1", "2", "8", "1k")
	}
}
