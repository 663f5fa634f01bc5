package e2e

import (
	"fmt"
	"io"
	"strings"
)

// table is what came of all specs, a column for each scheduler: the one that is compared with first.
type table struct {
	specs   []string
	columns []column
}

type column struct {
	name     string
	outcomes []outcome
}

func (c *column) passes() int {
	count := 0
	for _, o := range c.outcomes {
		if o.state == passed {
			count++
		}
	}
	return count
}

// write writes it as Markdown, and below it why specs did not pass.
func (t *table) write(out io.Writer) error {
	var text, reasons strings.Builder
	text.WriteString("| spec |")
	for i := range t.columns {
		fmt.Fprintf(&text, " %s: %d of %d |", t.columns[i].name, t.columns[i].passes(), len(t.specs))
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(t.columns)) + "\n")
	for i, spec := range t.specs {
		fmt.Fprintf(&text, "| %s |", cell(spec))
		for _, c := range t.columns {
			o := c.outcomes[i]
			fmt.Fprintf(&text, " %s, %.0f s |", o.state, o.took.Seconds())
			if o.state != passed {
				fmt.Fprintf(&reasons, "- %s, with %s: %s\n", cell(spec), c.name, firstLine(o.message))
			}
		}
		text.WriteString("\n")
	}
	if reasons.Len() > 0 {
		text.WriteString("\n" + reasons.String())
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// verdict is an error if a spec passes with the first scheduler and not with another one, or if nothing passes with the first: then
// the cluster is not fit for the comparison.
func (t *table) verdict() error {
	peer := t.columns[0]
	if peer.passes() == 0 {
		return fmt.Errorf("no spec passes with %s", peer.name)
	}
	var worse []string
	for _, c := range t.columns[1:] {
		for i, spec := range t.specs {
			if peer.outcomes[i].state == passed && c.outcomes[i].state != passed {
				worse = append(worse, fmt.Sprintf("%s passes with %s, and is %s with %s", spec, peer.name, c.outcomes[i].state, c.name))
			}
		}
	}
	if len(worse) > 0 {
		return fmt.Errorf("%d specs:\n%s", len(worse), strings.Join(worse, "\n"))
	}
	return nil
}

// cell is a text that does not end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
