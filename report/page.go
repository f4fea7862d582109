package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"github.com/conclave-dp/conclave/evaluate"
)

// Page is everything the HTML page shows. Only Certificate is required: a part
// that is not given is left out.
type Page struct {
	Title       string // the run's name when empty
	Certificate Certificate
	Columns     []ColumnSummary
	Utility     []UtilityRow
	Rounds      []Round
	Config      string // the run's configuration, as text
	Notes       []string
	Elapsed     time.Duration
}

// UtilityRow is how well one classifier does on real test rows: NOT PRIVATE.
// What is not known is nil.
type UtilityRow struct {
	Classifier string
	Synthetic  *evaluate.Utility // trained on the synthetic rows
	CoinFlips  *evaluate.Utility // trained on the rows of the same run with coin flips for votes
	Real       *evaluate.Utility // trained on real rows: the ceiling
}

// UtilityRows puts results of evaluate.TrainTest side by side, by classifier,
// in the order of the synthetic ones. coinFlips and real may be nil.
func UtilityRows(synthetic, coinFlips, real []evaluate.Utility) []UtilityRow {
	find := func(list []evaluate.Utility, name string) *evaluate.Utility {
		for i := range list {
			if list[i].Classifier == name {
				return &list[i]
			}
		}
		return nil
	}
	rows := make([]UtilityRow, 0, len(synthetic))
	for i := range synthetic {
		name := synthetic[i].Classifier
		rows = append(rows, UtilityRow{
			Classifier: name, Synthetic: &synthetic[i], CoinFlips: find(coinFlips, name), Real: find(real, name),
		})
	}
	return rows
}

// Round is the budget after one release.
type Round struct {
	Round        uint64
	EpsilonSpent float64
	Queries      int64
	Answered     int64
}

//go:embed page.html.tmpl
var pageSource string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure":  figure,
	"percent": percent,
	"score":   func(v float64) string { return fmt.Sprintf("%.3f", v) },
	"known":   func(v float64) bool { return !math.IsNaN(v) },
	"purpose": purpose,
}).Parse(pageSource))

// view is what the template sees.
type view struct {
	Page
	Style      template.CSS
	Words      words
	NotPrivate bool // something on the page comes from real rows
	Budget     *budgetChart
	Cards      []card
	CoinKnown  bool
	RealKnown  bool
	Taken      string
}

// WriteHTML writes the page: one file, no scripts, nothing loaded from
// anywhere. It fails when the certificate is invalid, a figure is not finite,
// or the writer fails; nothing is written before the page is complete.
func WriteHTML(w io.Writer, p Page) error {
	if err := p.Certificate.Validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := p.checkFigures(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if p.Title == "" {
		p.Title = p.Certificate.Run
	}
	v := view{
		Page:   p,
		Style:  template.CSS(pageStyle),
		Words:  explain(p.Certificate),
		Budget: newBudgetChart(p.Rounds, p.Certificate.Epsilon),
	}
	if p.Elapsed > 0 {
		v.Taken = p.Elapsed.Round(time.Second).String()
		if p.Elapsed < 10*time.Second {
			v.Taken = p.Elapsed.Round(100 * time.Millisecond).String()
		}
	}
	v.NotPrivate = len(p.Utility) > 0
	for _, row := range p.Utility {
		v.CoinKnown = v.CoinKnown || row.CoinFlips != nil
		v.RealKnown = v.RealKnown || row.Real != nil
	}
	for _, c := range p.Columns {
		v.NotPrivate = v.NotPrivate || c.Real
		v.Cards = append(v.Cards, newCard(c))
	}
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// checkFigures refuses what could not be drawn.
func (p Page) checkFigures() error {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	for _, r := range p.Rounds {
		if !finite(r.EpsilonSpent) || r.EpsilonSpent < 0 {
			return fmt.Errorf("round %d: epsilon spent is %v", r.Round, r.EpsilonSpent)
		}
	}
	for _, row := range p.Utility {
		for _, u := range []*evaluate.Utility{row.Synthetic, row.CoinFlips, row.Real} {
			if u != nil && !(finite(u.AUROC) && finite(u.AveragePrecision)) {
				return fmt.Errorf("utility of %s is not a finite number", row.Classifier)
			}
		}
	}
	for _, c := range p.Columns {
		for _, b := range c.Bars {
			if !finite(b.Synthetic) || !finite(b.Real) || b.Synthetic < 0 || b.Real < 0 {
				return fmt.Errorf("column %s: a bar is not a share", c.Name)
			}
		}
	}
	return nil
}

// percent writes a share; what is above zero never reads as zero.
func percent(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 0.1:
		return "< 0.1%"
	case p < 10 && p != math.Trunc(p):
		return fmt.Sprintf("%.1f%%", p)
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}
