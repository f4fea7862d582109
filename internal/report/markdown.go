package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// WriteMarkdown writes a short version of the page as plain Markdown, with the
// same marks. It fails as WriteHTML does.
func WriteMarkdown(w io.Writer, p Page) error {
	p, err := p.prepared()
	if err != nil {
		return err
	}
	words, err := p.explain()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	m := &markdown{words: words}
	m.head(p)
	m.verdict(p)
	m.figures(p)
	m.guarantee(p)
	m.rounds(p)
	m.quality(p)
	m.columns(p)
	if t := strongest(p.Pairs); t != nil {
		m.line("## %s", t.Name)
		m.line("%s", escape(t.Says))
		m.table(*t)
	}
	m.points(p)
	m.checks(p)
	if _, err := io.WriteString(w, m.b.String()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// markdown gathers a document. Its methods escape what they are given, except
// for line, which takes text of this package.
type markdown struct {
	b     strings.Builder
	words words
}

const privateMark = " **NOT PRIVATE**"

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n\n", args...) }

func (m *markdown) head(p Page) {
	words := m.words
	m.line("# %s: privacy report", escape(p.Title))
	if words.Coin {
		m.line("> **This is a baseline, not a release.** %s", words.Baseline)
	}
	if words.Dependent {
		m.line(
			"> **The stated epsilon is data-dependent.** It is private information itself and may not be published " +
				"as a guarantee.")
	}
	if p.NotPrivate() {
		m.line(
			"> **NOT PRIVATE: keep this file at the site.** Some figures here were computed from real rows without " +
				"noise; each one is marked. The synthetic data, the model and the certificate are not affected.")
	} else {
		m.line(
			"> **You may share this file with the synthetic rows.** It uses real rows only through the guarantee " +
				"below.")
	}
	c := p.Certificate
	m.line("%s synthetic rows, made by the pipeline %s %s.", text.Grouped(c.Rows), escape(c.Pipeline), words.Source)
	for _, k := range p.About.lines() {
		fmt.Fprintf(&m.b, "- %s: %s\n", k.Name, escape(k.Value))
	}
	if len(p.About.lines()) > 0 {
		m.b.WriteString("\n")
	}
	if w := weighing(p.Weights, c.Rows); w != nil {
		m.findings([]finding{*w})
	}
}

func (m *markdown) verdict(p Page) {
	v := p.verdict(m.words)
	mark := ""
	if len(v.Rules) > 0 {
		mark = privateMark
	}
	m.line("## Can I use this, and for what?%s", mark)
	m.line("**%s** **%s**", escape(v.Fit), escape(v.NotFit))
	if broken := p.Constraints.Says(p.Certificate.Rows); broken != "" {
		m.line("%s", escape(broken))
	}
	if t := v.table(); t != nil {
		m.table(*t)
		m.line("%s", escape(t.Says))
	}
}

func (m *markdown) guarantee(p Page) {
	if len(m.words.Notes) > 0 {
		m.line("## What to know first")
		for _, note := range m.words.Notes {
			fmt.Fprintf(&m.b, "- %s\n", escape(note))
		}
		m.b.WriteString("\n")
	}
	c, words := p.Certificate, m.words
	m.line("## What was guaranteed")
	m.table(table{Words: 1, Head: []string{"", "figure", ""}, Rows: [][]string{
		{"guarantee", "ε = " + text.Figure(c.Epsilon), words.Strength + " protection: " + words.Because},
		{"delta", "δ = " + text.Figure(c.Delta), "roughly, the chance that the limit fails: " + words.Remainder},
		{"spent", fmt.Sprintf("%.4g", c.EpsilonSpent), words.SharePercent + " of the budget, computed afterwards"},
		{"protected unit", c.Unit, "neighbours: " + words.Neighbours},
	}})
	m.line("%s", escape(words.Meaning))
	m.line("**%s** %s %s", words.Guess.Value, escape(words.Guess.Says), escape(words.Guess.Basis))
	m.line("%s", escape(words.Whom))
	m.line("%s", escape(words.Spent))
	if words.Masked != "" {
		m.line("%s", escape(words.Masked))
	}
}

func (m *markdown) rounds(p Page) {
	a := newAgreement(p.Rounds, m.words.Teachers)
	if a == nil {
		return
	}
	m.line("## Rounds")
	m.line("%s", a.Counts)
	if a.Drawn {
		m.line("%s Each share was released with noise of %s.", a.Summary, a.Noise)
	}
}

func (m *markdown) quality(p Page) {
	if p.Evaluation == nil {
		return
	}
	e := p.Evaluation
	m.line("## Quality%s", privateMark)
	m.line("Compared with %s real test rows, without noise.", text.Grouped(e.Rows.Test))
	m.findings(findings(e))
	for _, n := range e.Notes {
		m.line("%s", escape(n))
	}
	if u := newUtilityTable(e); u != nil {
		m.line("### Use for prediction%s", privateMark)
		m.line("AUROC, with the average precision in brackets.")
		for _, s := range u.settings() {
			fmt.Fprintf(&m.b, "- **%s**: %s\n", s.Name, s.Says)
		}
		m.b.WriteString("\n")
		m.table(u.plain())
		m.findings(u.Agreements)
	}
	for _, t := range measurements(e) {
		m.line("### %s%s", t.Name, privateMark)
		m.line("%s", t.Says)
		m.table(t)
	}
}

func (m *markdown) findings(list []finding) {
	for _, f := range list {
		fmt.Fprintf(&m.b, "- %s: **%s**. %s\n", f.Name, f.Value, escape(f.Says))
	}
	if len(list) > 0 {
		m.b.WriteString("\n")
	}
}

func (m *markdown) columns(p Page) {
	if len(p.Columns) == 0 {
		return
	}
	t := table{Words: 2, Head: []string{"column", "kind", "mean", "empty"}}
	real, mark := slices.ContainsFunc(p.Columns, func(c picture.Column) bool { return c.Real }), ""
	if real {
		t.Head, mark = append(t.Head, "empty, real", "similarity"), privateMark
	}
	for _, c := range p.Columns {
		mean := "–"
		if !c.Horizontal && text.Finite(c.Mean) && len(c.Bars) > 0 {
			mean = c.MeanText()
		}
		row := []string{text.Shorten(c.Name, longestName), string(c.Kind), mean, text.Percent(c.Missing)}
		if c.Real {
			row = append(row, text.Percent(c.MissingReal), text.Percent(c.Score))
		} else if real {
			row = append(row, "–", "–")
		}
		t.Rows = append(t.Rows, row)
	}
	m.line("## Columns of the synthetic rows%s", mark)
	m.table(t)
}

func (m *markdown) points(p Page) {
	s := picture.NewScatter(p.Points)
	if s == nil {
		return
	}
	mark := ""
	if s.NotPrivate {
		mark = " (with real rows:" + privateMark + ")"
	}
	var names []string
	for _, panel := range s.Panels {
		names = append(names, escape(panel.Name))
	}
	m.line("Pictures of rows by %s and %s are in report.html%s: %s.", escape(s.X), escape(s.Y), mark,
		strings.Join(names, "; "))
}

func (m *markdown) checks(p Page) {
	c := p.Certificate
	m.line("## How to check this")
	m.line("Type this in the folder of the run. Get ca.crt, the certificate of the authority, from a site:")
	m.line("    conclave verify . --authority ca.crt")
	m.line("This checks files, signatures and costs. The next command checks the costs alone:")
	m.line("    conclave ledger verify --ledger ledger.jsonl --certificate certificate.json")
	m.line("Stated in the certificate, but not proven by a ledger: %s.", escape(m.words.Stated))
	t := table{Words: 1, Head: []string{"", "value"}, Rows: [][]string{
		{"run", c.Run}, {"accountant", c.Accountant}, {"ledger head", c.LedgerHead}, {"schema SHA-256", c.SchemaSHA256},
		{"created", c.Created}, {"software", c.Software},
	}}
	for _, mechanism := range c.Mechanisms {
		t.Rows = append(t.Rows, []string{"mechanism", mechanism.String()})
	}
	m.table(t)
	if len(p.Notes) > 0 {
		m.line("## Notes")
	}
	for _, n := range p.Notes {
		m.line("%s", escape(n))
	}
	if p.Config != "" {
		m.line("## Configuration")
		// A code block of indented lines ends at no text that is in it.
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(p.Config)
		m.line("    %s", strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    "))
	}
}
