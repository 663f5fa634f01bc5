package bench

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

func runs(seconds ...float64) []*sample {
	var samples []*sample
	for _, s := range seconds {
		samples = append(samples, &sample{pods: 101, took: time.Duration(s * float64(time.Second))})
	}
	return samples
}

func TestTheMedianRunCounts(t *testing.T) {
	for name, test := range map[string]struct {
		seconds []float64
		rate    float64
	}{
		"three":           {[]float64{1, 4, 2}, 50},
		"one":             {[]float64{2}, 50},
		"two, the slower": {[]float64{2, 1}, 50},
		"four":            {[]float64{1, 2, 1.5, 9}, 50},
	} {
		r := row{samples: runs(test.seconds...)}
		if got := r.median().rate(); got != test.rate {
			t.Errorf("%s: %v pods/s", name, got)
		}
	}
}

func TestEachRowIsTheFirstOfSomeRound(t *testing.T) {
	rows := allRows(Options{Pods: 5000, GangSize: 200})
	for round := range 2 * len(rows) {
		order := inRound(rows, round)
		if len(order) != len(rows) || order[0] != rows[round%len(rows)] {
			t.Errorf("round %d begins with %s, and has %d rows", round, order[0].key, len(order))
		}
	}
	if len(inRound(nil, 0)) != 0 {
		t.Error("there is no row, and one is measured")
	}
}

func TestTheTableComparesWithLimitAndPeer(t *testing.T) {
	rows := allRows(Options{Pods: 5000, GangSize: 200, InFlight: 48})
	for i, seconds := range []float64{1, 4, 2, 1.25} {
		rows[i].samples = runs(seconds, seconds)
	}
	rows[2].samples[0].eventsThen, rows[2].samples[0].eventsAll, rows[2].samples[0].eventsLag = 60, 100, 1500*time.Millisecond
	rows[2].samples[1].refused = 3
	var text strings.Builder
	if err := writeTable(&text, Options{Pods: 5000}, 500, rows); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{
		"| bare Bindings, 48 in flight | 100 | 100, 100 | 1.00 | 4.00 |",
		"| Fluxqueue, lone pods | 50 | 50, 50 | 0.50 | 2.00 | 60, 100, +1.5 s | none |  |  | 3 |",
		"| Fluxqueue, 25 gangs of 200 (bare pods) | 80 |",
	} {
		if !strings.Contains(text.String(), wanted) {
			t.Errorf("no %q in\n%s", wanted, text.String())
		}
	}
}

func TestATrailTellsWhatWasThereThen(t *testing.T) {
	start := time.Now()
	var seen trail
	for i, kind := range []watch.EventType{watch.Added, watch.Added, watch.Modified, watch.Added} {
		seen.see(watch.Event{Type: kind}, start.Add(time.Duration(i)*time.Second))
	}
	if then := seen.before(start.Add(2 * time.Second)); then != 2 || len(seen.made) != 3 {
		t.Errorf("%d then, %d in all", then, len(seen.made))
	}
	if seen.last != start.Add(3*time.Second) {
		t.Errorf("last at %v", seen.last.Sub(start))
	}
}
