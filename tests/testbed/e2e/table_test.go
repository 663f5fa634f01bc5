package e2e

import (
	"strings"
	"testing"
	"time"
)

func outcomes(states ...state) []outcome {
	var list []outcome
	for _, s := range states {
		list = append(list, outcome{state: s, message: "why " + string(s) + "\nat length", took: 1500 * time.Millisecond})
	}
	return list
}

func TestTheTableSaysWhatCameOfEachSpecAndWhy(t *testing.T) {
	table := &table{specs: []string{"A|B", "C"}, columns: []column{
		{"kube-scheduler", outcomes(passed, skipped)}, {"Fluxqueue", outcomes(passed, "failed")},
	}}
	var text strings.Builder
	if err := table.write(&text); err != nil {
		t.Fatal(err)
	}
	want := `| spec | kube-scheduler: 1 of 2 | Fluxqueue: 1 of 2 |
|---|---|---|
| A\|B | passed, 2 s | passed, 2 s |
| C | skipped, 2 s | failed, 2 s |

- C, with kube-scheduler: why skipped
- C, with Fluxqueue: why failed
`
	if text.String() != want {
		t.Errorf("%s", &text)
	}
}

func TestWhatPassesWithTheFirstAloneIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		peer, ours []outcome
		wrong      bool
	}{
		"alike":            {outcomes(passed, "failed"), outcomes(passed, "failed"), false},
		"better":           {outcomes(passed, "failed"), outcomes(passed, passed), false},
		"worse":            {outcomes(passed, passed), outcomes(passed, "failed"), true},
		"skipped":          {outcomes(passed, passed), outcomes(passed, skipped), true},
		"no report":        {outcomes(passed, passed), outcomes(passed, broken), true},
		"nothing compares": {outcomes("failed", skipped), outcomes("failed", skipped), true},
	} {
		table := &table{specs: []string{"A", "B"}, columns: []column{{"one", test.peer}, {"other", test.ours}}}
		if err := table.verdict(); (err != nil) != test.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
