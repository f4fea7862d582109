package report

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// table writes a table; figures are aligned to the right.
func (m *markdown) table(t table) {
	row := func(cells []string) {
		m.b.WriteString("|")
		for _, cell := range cells {
			m.b.WriteString(" " + escape(cell) + " |")
		}
		m.b.WriteString("\n")
	}
	row(t.Head)
	m.b.WriteString("|")
	for i := range t.Head {
		if i < t.Words {
			m.b.WriteString("---|")
		} else {
			m.b.WriteString("---:|")
		}
	}
	m.b.WriteString("\n")
	for _, cells := range t.Rows {
		row(cells)
	}
	m.b.WriteString("\n")
}

// plain is the table without its pictures.
func (t *utilityTable) plain() table {
	p := table{Words: 1, Head: []string{"model"}}
	settings := t.settings()
	for _, s := range settings {
		p.Head = append(p.Head, s.Name)
	}
	for _, r := range t.Rows {
		row := []string{r.Model}
		for _, s := range settings {
			ranking := map[string]*evaluate.Ranking{"A": r.A, "B": r.B, "C": r.C}[s.Name]
			if s.Name == coinFlips {
				ranking = r.CoinFlips
			}
			if ranking == nil {
				row = append(row, "–")
				continue
			}
			row = append(row, fmt.Sprintf("%s (%s)", text.Score(ranking.AUROC), text.Score(ranking.AveragePrecision)))
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// escape makes a text literal in Markdown, on one line: it puts a backslash before special characters, and uses
// entities for those of HTML.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r < ' ':
			b.WriteString(" ")
		case strings.ContainsRune("\\`*_[]|~#!", r):
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
