package report

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/study"
)

// Page is everything that a report shows, as HTML, Markdown or JSON. Only Certificate is required: missing parts are
// omitted.
type Page struct {
	Title       string // the run's name when empty
	Certificate certificate.Certificate
	Rounds      []Round
	Columns     []picture.Column
	// Correlations are the correlations of the synthetic table only.
	Correlations *picture.Correlations
	// Pairs are the relations between two columns of the synthetic table, compared with itself; none if there is
	// an evaluation.
	Pairs []evaluate.PairTrend
	// Weights are the weights of the synthetic rows; if nil, those of the evaluation.
	Weights *evaluate.Weights
	// Evaluation is the comparison with real rows: NOT PRIVATE.
	Evaluation *evaluate.Evaluation
	Images     []picture.Sheet
	// Points are rows before and after the stages that follow training, on the same axes.
	Points []picture.Panel
	Config string // the run's configuration, as text
	Notes  []string
	// Figures are figures about the rows that the budget paid for; anybody may see them.
	Figures []pipeline.Figure
	// About is further information about the run.
	About About
	// Constraints count the rows that break rules of the schema; nil if that was not checked.
	Constraints *Constraints
}

// About says who made a run and for what purpose, if known.
type About struct {
	Purpose string `json:"purpose,omitempty"`
	// Study is the run's study, or nil.
	Study    *study.Block `json:"study,omitempty"`
	Operator string       `json:"operator,omitempty"` // of the aggregator, by the name of its certificate
	Sites    []string     `json:"sites,omitempty"`
	// Records is the public number of privacy units, 0 if none was given.
	Records int `json:"records,omitempty"`
}

// lines are the known parts as a list.
func (a About) lines() (list []finding) {
	if a.Purpose != "" {
		list = append(list, finding{Name: "Purpose", Value: a.Purpose})
	}
	if of := a.Study; of != nil {
		list = append(list, finding{Name: "Study", Value: fmt.Sprintf("%s (%s), to the end of %s", of.Title, of.Name,
			of.Expires)},
			finding{Name: "Data permit", Value: of.Permit},
			finding{Name: "Study protocol (SHA-256)", Value: of.SHA256})
	}
	if len(a.Sites) > 0 {
		list = append(list, finding{Name: "Sites", Value: strings.Join(a.Sites, ", ")})
	}
	if a.Operator != "" {
		list = append(list, finding{Name: "Aggregator", Value: a.Operator})
	}
	if a.Records > 0 {
		list = append(list, finding{Name: "Public number of records", Value: text.Grouped(a.Records)})
	}
	return list
}

// Round is the cost and the result of one release.
type Round struct {
	Round uint64 `json:"round"`
	// Kind is the kind of question, Stage the stage after training that asked it, Entries the length of the released
	// vector, as in the ledger.
	Kind         string  `json:"kind,omitempty"`
	Stage        string  `json:"stage,omitempty"`
	Entries      int64   `json:"entries,omitempty"`
	EpsilonSpent float64 `json:"epsilon_spent"` // of the run so far
	Queries      int64   `json:"queries"`
	Answered     int64   `json:"answered"`
	// Shares are absent if the shares were not released or not stored.
	Shares *Shares `json:"shares,omitempty"`
}

// NotPrivate reports whether any part of the page was computed from real rows.
func (p Page) NotPrivate() bool {
	return p.Evaluation != nil || slices.ContainsFunc(p.Columns, func(c picture.Column) bool { return c.Real }) ||
		slices.ContainsFunc(p.Images, func(s picture.Sheet) bool { return s.Real }) ||
		slices.ContainsFunc(p.Points, func(s picture.Panel) bool { return s.Real })
}

// prepared checks a page and fills in what has a default.
func (p Page) prepared() (Page, error) {
	for _, check := range []func() error{p.Certificate.Validate, p.Certificate.KnownPipeline, p.checkFigures} {
		if err := check(); err != nil {
			return p, fmt.Errorf("report: %w", err)
		}
	}
	if p.Title == "" {
		p.Title = p.Certificate.Run
	}
	if p.Evaluation != nil {
		marked := *p.Evaluation
		marked.Privacy = evaluate.NotPrivate
		p.Evaluation = &marked
		p.Weights = cmp.Or(p.Weights, marked.Weights)
	}
	return p, nil
}

//go:embed templates/*.tmpl
var templateFiles embed.FS

//go:embed page.css
var pageStyle string

// pageTemplate is parsed when the first page is written: most programs that can write one do not.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page.tmpl").Funcs(template.FuncMap{
		"figure":      text.Figure,
		"percent":     text.Percent,
		"score":       text.Score,
		"correlation": text.Correlation,
		"grouped":     func(n int) string { return text.Grouped(n) },
		"known":       func(v float64) bool { return !math.IsNaN(v) },
		"purpose":     purpose,
	}).ParseFS(templateFiles, "templates/*.tmpl"))
})

type view struct {
	Page
	Style     template.CSS
	Sources   string // what the content security policy allows
	Words     words
	Known     []finding
	Warned    []string
	Verdict   Verdict
	Rules     *table
	Strongest *table
	Broken    string
	Weighing  *finding
	Paid      []finding
	Budget    *budgetChart
	Agreement *agreement
	Findings  []finding
	Utility   *utilityTable
	Tables    []table
	pictures
}

type pictures struct {
	Cards   []picture.Card
	Maps    *picture.HeatMaps
	Scatter *picture.Scatter
	Sheets  []picture.DrawnSheet
}

// WriteHTML writes the page: one file, no scripts, nothing loaded from
// anywhere. It fails when the certificate is invalid, a figure is not finite,
// or the writer fails; nothing is written before the page is complete.
func WriteHTML(w io.Writer, p Page) error {
	p, err := p.prepared()
	if err != nil {
		return err
	}
	words, err := p.explain()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	v := view{
		Page:      p,
		Style:     template.CSS(pageStyle),
		Sources:   "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'",
		Words:     words,
		Known:     p.About.lines(),
		Warned:    words.Notes,
		Verdict:   p.verdict(words),
		Broken:    p.Constraints.Says(p.Certificate.Rows),
		Weighing:  weighing(p.Weights, p.Certificate.Rows),
		Paid:      paid(p.Figures),
		Budget:    newBudgetChart(p.Rounds, p.Certificate.Epsilon),
		Agreement: newAgreement(p.Rounds, words.Teachers),
		Findings:  findings(p.Evaluation),
		Utility:   newUtilityTable(p.Evaluation),
		Tables:    measurements(p.Evaluation),
		pictures: pictures{
			Maps:    picture.NewHeatMaps(p.Correlations, p.Evaluation),
			Scatter: picture.NewScatter(p.Points),
		},
	}
	v.Rules, v.Strongest = v.Verdict.table(), strongest(p.Pairs)
	if v.Sheets, err = picture.NewSheets(p.Images); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if len(v.Sheets) > 0 {
		v.Sources += "; img-src data:"
	}
	for _, c := range p.Columns {
		v.Cards = append(v.Cards, picture.NewCard(c))
	}
	var page bytes.Buffer
	if err := pageTemplate().Execute(&page, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// RealCards tells whether a column is shown next to real rows.
func (v view) RealCards() bool {
	return slices.ContainsFunc(v.Cards, func(c picture.Card) bool { return c.Real })
}
