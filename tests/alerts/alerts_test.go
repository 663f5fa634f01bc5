// Package alerts checks the alerts and dashboards of the chart: every expression is one that Prometheus reads, and names only metrics
// and labels that Fluxqueue has by docs/reference.md, which is made from its code. Whether alerts fire is the business of
// `promtool test rules` with alerts.yaml; here every alert must have cases there, and a section in docs/operations.md.
package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const (
	monitoring = "../../manifests/chart/files/monitoring"
	reference  = "../../docs/reference.md"
	operations = "../../docs/operations.md"
)

// The labels of each metric, by the name that a scrape has.
type metrics map[string][]string

// Metrics that are not Fluxqueue's own: of every process, and of the API server.
var ofOthers = metrics{
	"process_cpu_seconds_total":                   {},
	"process_resident_memory_bytes":               {},
	"apiserver_admission_webhook_fail_open_count": {"name", "type"},
}

// Labels that Prometheus gives to every series.
var ofTargets = []string{"instance", "job"}

var row = regexp.MustCompile("(?m)^\\| `(fluxqueue_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|")

// Reads the metrics of docs/reference.md. A histogram counts as its three series.
func listed(t *testing.T) metrics {
	t.Helper()
	all := metrics{}
	for name, of := range ofOthers {
		all[name] = of
	}
	for _, cells := range row.FindAllStringSubmatch(read(t, reference), -1) {
		var of []string
		for label := range strings.SplitSeq(cells[3], ",") {
			if label = strings.Trim(label, " `"); label != "" {
				of = append(of, label)
			}
		}
		if cells[2] != "histogram" {
			all[cells[1]] = of
			continue
		}
		all[cells[1]+"_sum"], all[cells[1]+"_count"] = of, of
		all[cells[1]+"_bucket"] = append(slices.Clone(of), "le")
	}
	if len(all) < 50 {
		t.Fatalf("%s lists only %d metrics", reference, len(all))
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Says what is wrong with an expression: it cannot be read, or names what is not there.
func faults(expression string, known metrics) []string {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			of, is := known[node.Name]
			if !is {
				found = append(found, fmt.Sprintf("there is no metric %q", node.Name))
				return nil
			}
			for _, matcher := range node.LabelMatchers {
				if matcher.Name != labels.MetricName && !has(of, matcher.Name) {
					found = append(found, fmt.Sprintf("%s has no label %q", node.Name, matcher.Name))
				}
			}
		case *parser.AggregateExpr:
			if !node.Without {
				found = append(found, lacking(node.Expr, node.Grouping, known)...)
			}
		case *parser.BinaryExpr:
			if node.VectorMatching != nil && node.VectorMatching.On {
				found = append(found, lacking(node, node.VectorMatching.MatchingLabels, known)...)
			}
		}
		return nil
	})
	return found
}

// Says which metrics within an expression lack one of these labels.
func lacking(within parser.Expr, names []string, known metrics) []string {
	var found []string
	parser.Inspect(within, func(node parser.Node, _ []parser.Node) error {
		if series, is := node.(*parser.VectorSelector); is {
			for _, name := range names {
				if !has(known[series.Name], name) {
					found = append(found, fmt.Sprintf("%s has no label %q", series.Name, name))
				}
			}
		}
		return nil
	})
	return found
}

func has(of []string, label string) bool {
	return slices.Contains(of, label) || slices.Contains(ofTargets, label)
}

type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(monitoring, "alerts.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

func TestFaultsAreFound(t *testing.T) {
	known := metrics{"a": {"queue"}, "b_bucket": {"le"}}
	for expression, fault := range map[string]string{
		"sum(":                         "parse error",
		"c":                            `there is no metric "c"`,
		`a{state="x"}`:                 `a has no label "state"`,
		"sum by (state) (rate(a[5m]))": `a has no label "state"`,
		"a / on (le) b_bucket":         `a has no label "le"`,
	} {
		if found := faults(expression, known); !strings.Contains(strings.Join(found, "; "), fault) {
			t.Errorf("%s: %v", expression, found)
		}
	}
	if found := faults(`sum by (queue, instance) (a{queue="x"}) or sum(b_bucket{le="1.0"})`, known); found != nil {
		t.Error(found)
	}
}

func TestAlertsNameMetricsThatThereAre(t *testing.T) {
	known := listed(t)
	for _, rule := range rules(t) {
		for _, fault := range faults(rule.Expr, known) {
			t.Errorf("%s: %s", rule.Alert, fault)
		}
	}
}

// Every alert has a case in which it fires, one in which it does not, and a section that says what to do.
func TestAlertsHaveCasesAndRunbooks(t *testing.T) {
	var cases struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "alerts.yaml")), &cases); err != nil {
		t.Fatal(err)
	}
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range cases.Tests {
		for _, of := range test.AlertRuleTest {
			if len(of.ExpAlerts) > 0 {
				fires[of.Alertname] = true
			} else {
				rests[of.Alertname] = true
			}
		}
	}
	page := read(t, operations)
	for _, rule := range rules(t) {
		if !fires[rule.Alert] || !rests[rule.Alert] {
			t.Errorf("alerts.yaml has no case in which %s fires, or none in which it does not", rule.Alert)
		}
		if got, want := rule.Annotations["runbook_url"], "docs/operations.md#"+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s: runbook_url is %q, not %q", rule.Alert, got, want)
		}
		_, section, is := strings.Cut(page, "\n### "+rule.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		for _, part := range []string{"**Meaning.**", "**Look.**", "**Do.**"} {
			if !is || !strings.Contains(section, part) {
				t.Errorf("docs/operations.md has no section %s with the part %s", rule.Alert, part)
			}
		}
		if !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
	}
}

// A panel of a dashboard, or a row of panels.
type panel struct {
	Title   string
	Type    string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

type dashboard struct {
	UID        string
	Title      string
	Panels     []panel
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(monitoring, "*.json"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("%v: %v", paths, err)
	}
	all := map[string]dashboard{}
	for _, path := range paths {
		var one dashboard
		if err := json.Unmarshal([]byte(read(t, path)), &one); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[filepath.Base(path)] = one
	}
	return all
}

// What Grafana puts in the place of its variables.
var substituted = strings.NewReplacer("$__rate_interval", "2m", "$queue", ".*")

var variableQuery = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

func TestDashboardsNameMetricsThatThereAre(t *testing.T) {
	known := listed(t)
	for name, dashboard := range dashboards(t) {
		queries := 0
		for _, panel := range dashboard.Panels {
			if panel.Type != "row" && len(panel.Targets) == 0 {
				t.Errorf("%s: panel %q has no query", name, panel.Title)
			}
			for _, target := range panel.Targets {
				queries++
				for _, fault := range faults(substituted.Replace(target.Expr), known) {
					t.Errorf("%s: panel %q: %s", name, panel.Title, fault)
				}
			}
		}
		if queries < 20 {
			t.Errorf("%s: only %d queries were found", name, queries)
		}
		for _, variable := range dashboard.Templating.List {
			query, is := variable.Query.(map[string]any)
			if !is {
				continue
			}
			parts := variableQuery.FindStringSubmatch(fmt.Sprint(query["query"]))
			if parts == nil || !has(known[parts[1]], parts[2]) {
				t.Errorf("%s: variable %s: %v", name, variable.Name, query["query"])
			}
		}
	}
}

// Panels do not lie on each other, and each metric of Fluxqueue that a user can do something about is on a dashboard.
func TestDashboardsHaveEveryMetric(t *testing.T) {
	shown := map[string]bool{}
	uids := map[string]bool{}
	for name, dashboard := range dashboards(t) {
		if dashboard.UID == "" || uids[dashboard.UID] {
			t.Errorf("%s: uid %q", name, dashboard.UID)
		}
		uids[dashboard.UID] = true
		taken := map[[2]int]string{}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				for metric := range listed(t) {
					if strings.Contains(target.Expr, metric) {
						shown[base(metric)] = true
					}
				}
			}
			at := panel.GridPos
			if at.X+at.W > 24 {
				t.Errorf("%s: panel %q is too wide", name, panel.Title)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other, is := taken[[2]int{x, y}]; is {
						t.Fatalf("%s: panel %q lies on %q", name, panel.Title, other)
					}
					taken[[2]int{x, y}] = panel.Title
				}
			}
		}
	}
	for metric := range listed(t) {
		if strings.HasPrefix(metric, "fluxqueue_") && !shown[base(metric)] {
			t.Errorf("%s is on no dashboard", metric)
		}
	}
}

// The name of a histogram, for its series.
func base(metric string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, is := strings.CutSuffix(metric, suffix); is {
			return name
		}
	}
	return metric
}
