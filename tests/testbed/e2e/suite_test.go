package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// reports is the content of the report that the program of a test writes.
const reports = `[{"SpecReports": [
	{"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
	{"ContainerHierarchyTexts": ["[sig-x] B", "of (two)"], "LeafNodeType": "It", "LeafNodeText": "works", "State": "passed"},
	{"ContainerHierarchyTexts": ["[sig-x] A"], "LeafNodeType": "It", "LeafNodeText": "fails", "State": "failed",
		"Failure": {"Message": "too late\nby far"}},
	{"ContainerHierarchyTexts": ["[sig-x] A"], "LeafNodeType": "It", "LeafNodeText": "declines", "State": "skipped",
		"Failure": {"Message": "one zone"}},
	{"ContainerHierarchyTexts": ["[sig-y]"], "LeafNodeType": "It", "LeafNodeText": "is not asked for", "State": "skipped"}]}]`

// program makes a suite of a shell script, which finds the path of its report in $report.
func program(t *testing.T, script string) *suite {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "e2e.test")
	text := "#!/bin/sh\nfor arg; do case $arg in --ginkgo.json-report=*) report=${arg#*=};; esac; done\necho \"$@\" >" +
		filepath.Join(dir, "arguments") + "\n" + script
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return &suite{program: path, dir: dir, timeout: time.Minute}
}

func writing(report string) string { return fmt.Sprintf("cat >$report <<'END'\n%s\nEND\n", report) }

func TestSpecsThatWereNotAskedForAreNotListed(t *testing.T) {
	specs, err := program(t, writing(reports)).list(t.Context(), "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"[sig-x] A declines", "[sig-x] A fails", "[sig-x] B of (two) works"}; !slices.Equal(specs, want) {
		t.Errorf("%q", specs)
	}
}

func TestASuiteWithoutSpecsIsAnError(t *testing.T) {
	for name, report := range map[string]string{"none": `[{"SpecReports": []}]`, "no suite": `[]`} {
		if specs, err := program(t, writing(report)).list(t.Context(), "x", ""); err == nil {
			t.Errorf("%s: %q", name, specs)
		}
	}
	if specs, err := program(t, "exit 1\n").list(t.Context(), "x", ""); err == nil {
		t.Errorf("no report: %q", specs)
	}
}

func TestTheOutcomeIsThatOfTheSpecThatWasAskedFor(t *testing.T) {
	// Failed specs show in the status of the program too.
	s := program(t, writing(reports)+"exit 1\n")
	for spec, want := range map[string]outcome{
		"[sig-x] B of (two) works":  {state: passed},
		"[sig-x] A fails":           {state: "failed", message: "too late\nby far"},
		"[sig-x] A declines":        {state: skipped, message: "one zone"},
		"[sig-y] is not asked for":  {state: broken, message: "it was not run"},
		"[sig-x] A is not there":    {state: broken, message: "it was not run"},
		"[sig-x] B of (two) works ": {state: broken, message: "it was not run"},
	} {
		got := s.run(t.Context(), "kubeconfig", "one", spec)
		if got.state != want.state || got.message != want.message {
			t.Errorf("%s: %+v", spec, got)
		}
	}
}

func TestOneSpecIsAskedForByItsWholeName(t *testing.T) {
	s := program(t, writing(reports))
	s.run(t.Context(), "kubeconfig", "one", "[sig-x] B of (two) works")
	arguments, err := os.ReadFile(filepath.Join(s.dir, "arguments"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `--ginkgo.focus=\[sig-x\] B of \(two\) works$`; !strings.Contains(string(arguments), want) {
		t.Errorf("%s", arguments)
	}
}

func TestWhatGoesBeforeAllSpecsAndFailsIsTheReason(t *testing.T) {
	report := `[{"SpecReports": [{"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no nodes"}},
		{"ContainerHierarchyTexts": ["A"], "LeafNodeType": "It", "LeafNodeText": "a", "State": "skipped"}]}]`
	got := program(t, writing(report)).run(t.Context(), "kubeconfig", "one", "A a")
	if got.state != broken || got.message != "SynchronizedBeforeSuite: no nodes" {
		t.Errorf("%+v", got)
	}
}

func TestAProgramThatDoesNotEndIsKilledWithWhatItStarted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	got := program(t, "sleep 60 & sleep 60\n").run(ctx, "kubeconfig", "one", "A a")
	if got.state != broken || !strings.Contains(got.message, "killed") || time.Since(begin) > 30*time.Second {
		t.Errorf("%+v after %v", got, time.Since(begin))
	}
}

func TestAnOldReportDoesNotCount(t *testing.T) {
	s := program(t, "exit 1\n")
	if err := os.WriteFile(filepath.Join(s.dir, "one.json"), []byte(reports), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.run(t.Context(), "kubeconfig", "one", "[sig-x] B of (two) works"); got.state != broken {
		t.Errorf("%+v", got)
	}
}
