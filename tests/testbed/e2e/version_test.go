package e2e

import (
	"os"
	"regexp"
	"testing"
)

// The suite is written for the Kubernetes that it is run against.
func TestTheSuiteIsOfTheTestbedsKubernetes(t *testing.T) {
	version := regexp.MustCompile(`(?m)^(?:require)?\s+k8s\.io/kubernetes (v\S+)`)
	of := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := version.FindSubmatch(content)
		if found == nil {
			t.Fatalf("%s names no k8s.io/kubernetes", path)
		}
		return string(found[1])
	}
	if suite, testbed := of("../../e2e/go.mod"), of("../go.mod"); suite != testbed {
		t.Errorf("the suite is %s, the testbed %s", suite, testbed)
	}
}
