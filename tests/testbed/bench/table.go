package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// writeTable writes the medians, the ratios between them, and what trails, as Markdown.
func writeTable(out io.Writer, options Options, nodes int, rows []*row) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%d pods, %d nodes, %d rounds, %d processors. Pods are there before the scheduler starts; time "+
		"counts from the first Binding to the last. Kubelets run in every row.\n\n",
		options.Pods, nodes, options.Rounds, runtime.NumCPU())
	text.WriteString("| row | pods/s, median | rounds | of the limit | of kube-scheduler | Events by the last Binding, in all, last | " +
		"FluxJobs by the last Binding, in all, last write | CPU | memory | refused |\n")
	text.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	limit, peer := rateOf(rows, "bindings"), rateOf(rows, "kube-scheduler")
	for _, r := range rows {
		// The trailing pods and their cost are those of the median run.
		s := r.median()
		fmt.Fprintf(&text, "| %s | %.0f | %s | %s | %s | %s | %s | %s | %s | %d |\n", r.name, s.rate(), r.rates(),
			ratio(s.rate(), limit), ratio(s.rate(), peer), trailing(s.eventsThen, s.eventsAll, s.eventsLag),
			trailing(s.jobsThen, s.jobsAll, s.jobsLag), seconds(s.cpu), megabytes(s.memoryBytes), r.refused())
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// median is the run in the middle; of an even number, the slower of the two.
func (r *row) median() *sample {
	sorted := slices.SortedFunc(slices.Values(r.samples), func(a, b *sample) int {
		return int(b.took - a.took) // the slowest first
	})
	return sorted[len(sorted)/2-(1-len(sorted)%2)]
}

func (r *row) rates() string {
	var rates []string
	for _, s := range r.samples {
		rates = append(rates, fmt.Sprintf("%.0f", s.rate()))
	}
	return strings.Join(rates, ", ")
}

func (r *row) refused() int {
	total := 0
	for _, s := range r.samples {
		total += s.refused
	}
	return total
}

func rateOf(rows []*row, key string) float64 {
	for _, r := range rows {
		if r.key == key {
			return r.median().rate()
		}
	}
	return 0
}

func ratio(rate, of float64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", rate/of)
}

func trailing(then, all int, lag time.Duration) string {
	if all == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, %d, %+.1f s", then, all, lag.Seconds())
}

func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func megabytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d MB", n>>20)
}
