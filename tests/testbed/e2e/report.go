package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// state is what came of a spec. All but the last are Ginkgo's words.
type state string

const (
	passed  state = "passed"
	skipped state = "skipped" // by itself: the cluster has not what it needs
	broken  state = "broken"  // it gave no report: it was killed, or ended before
)

// outcome is what came of one run of one spec.
type outcome struct {
	state   state
	message string // why it did not pass
	took    time.Duration
}

// report is Ginkgo's report of one run, as far as it is read.
type report struct {
	specs []specReport
}

type specReport struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	Failure                 struct{ Message string }
}

// text is the whole name of a spec.
func (s *specReport) text() string {
	return strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
}

// filtered says whether the spec was not asked for. One that skips itself says why.
func (s *specReport) filtered() bool { return s.State == string(skipped) && s.Failure.Message == "" }

func readReport(path string) (*report, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []struct{ SpecReports []specReport }
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, fmt.Errorf("report %s: %w", path, err)
	}
	r := &report{}
	for _, s := range suites {
		r.specs = append(r.specs, s.SpecReports...)
	}
	return r, nil
}

// chosen names the specs that were run, or would be.
func (r *report) chosen() []string {
	var names []string
	for i := range r.specs {
		if s := &r.specs[i]; s.LeafNodeType == "It" && !s.filtered() {
			names = append(names, s.text())
		}
	}
	slices.Sort(names)
	return names
}

// of says what came of a spec, and why. If what goes before all specs has failed, that is why.
func (r *report) of(spec string) (state, string) {
	for i := range r.specs {
		s := &r.specs[i]
		if s.LeafNodeType == "It" && s.text() == spec && !s.filtered() {
			return state(s.State), s.Failure.Message
		}
	}
	for i := range r.specs {
		if s := &r.specs[i]; s.LeafNodeType != "It" && s.Failure.Message != "" {
			return broken, s.LeafNodeType + ": " + s.Failure.Message
		}
	}
	return broken, "it was not run"
}
