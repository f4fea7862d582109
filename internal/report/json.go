package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/picture"
)

// File is a report.json.
type File struct {
	Format int `json:"format"` // 1
	// Privacy says NOT PRIVATE if any part was computed from real rows.
	Privacy     string                  `json:"privacy"`
	Title       string                  `json:"title"`
	Certificate certificate.Certificate `json:"certificate"`
	// Masked says between which sites the sums were masked, and against whom the figures hold; empty without
	// masks.
	Masked string `json:"masked,omitempty"`
	// Strength is the word for epsilon and delta, and Telling how well two neighbouring datasets can be
	// distinguished.
	Strength string          `json:"strength"`
	Telling  meaning.Telling `json:"telling"`
	About    About           `json:"about"`
	// Verdict follows from the evaluation, and is NOT PRIVATE if there is one.
	Verdict     Verdict              `json:"verdict"`
	Constraints *Constraints         `json:"constraints,omitempty"`
	Rounds      []Round              `json:"rounds"`
	Weights     *evaluate.Weights    `json:"weights,omitempty"` // of the synthetic rows
	Evaluation  *evaluate.Evaluation `json:"evaluation,omitempty"`
	// Pairs are the relations between two columns of the synthetic rows; none if there is an evaluation.
	Pairs []evaluate.PairTrend `json:"synthetic_pairs,omitempty"`
	// Figures are figures about the rows that the budget paid for.
	Figures []pipeline.Figure `json:"figures,omitempty"`
	// Points names the pictures of rows in report.html; only that file has the points.
	Points []picture.Panel `json:"points,omitempty"`
	Notes  []string        `json:"notes,omitempty"`
	Config string          `json:"config,omitempty"`
}

// fileFormat is the only one so far.
const fileFormat = 1

// ReleasesOnly is the privacy of a report without figures of real rows.
const ReleasesOnly = "computed from releases under the certificate's guarantee"

// WriteJSON writes the page for other programs. It holds the figures of the evaluation but no pictures, so it says
// NOT PRIVATE only if there is an evaluation.
func WriteJSON(w io.Writer, p Page) error {
	p, err := p.prepared()
	if err != nil {
		return err
	}
	telling, err := p.Certificate.Tell()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	words, err := p.explain()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	f := File{
		Pairs: p.Pairs, Verdict: p.verdict(words), Constraints: p.Constraints,
		Format: fileFormat, Privacy: ReleasesOnly, Title: p.Title, Certificate: p.Certificate, Rounds: p.Rounds,
		Weights: p.Weights, Evaluation: p.Evaluation, Points: p.Points, Notes: p.Notes, Config: p.Config,
		Figures: p.Figures,
		Masked:  maskedWords(p.Certificate.Masked), Strength: p.guarantee().Strength(), Telling: telling,
		About: p.About,
	}
	if f.Evaluation != nil {
		f.Privacy = evaluate.NotPrivate
	}
	if f.Rounds == nil {
		f.Rounds = []Round{}
	}
	if f.Certificate.Mechanisms == nil {
		f.Certificate.Mechanisms = []certificate.Mechanism{}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(f); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// ReadJSON reads a report.json back and refuses figures that no page could show.
// Nothing in it is proven: take what you can from the certificate and the ledger.
func ReadJSON(raw []byte) (File, error) {
	var f File
	if err := json.Unmarshal(raw, &f); err != nil {
		return File{}, fmt.Errorf("not a report: %w", err)
	}
	if f.Format != fileFormat {
		return File{}, fmt.Errorf("not a report: format %d is unknown to this version", f.Format)
	}
	if _, err := (Page{Certificate: f.Certificate, Rounds: f.Rounds, Weights: f.Weights,
		Evaluation: f.Evaluation, Figures: f.Figures}).prepared(); err != nil {
		return File{}, fmt.Errorf("not a report: %w", err)
	}
	return f, nil
}
