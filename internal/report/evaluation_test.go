package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func some(v float64) *float64 { return &v }

// evaluation is an evaluation with every part, and names with characters special to HTML and to Markdown.
func evaluation() *evaluate.Evaluation {
	shape := func(name string, score float64) evaluate.ColumnQuality {
		return evaluate.ColumnQuality{Shape: evaluate.Shape{Column: name, Measure: evaluate.KSComplement,
			Score: &score, MissingSimilarity: 1}}
	}
	pair := func(a, b string, score, real, synthetic float64) evaluate.PairTrend {
		return evaluate.PairTrend{Columns: [2]string{a, b}, Measure: "CorrelationSimilarity", Score: &score,
			Real: &real, Synthetic: &synthetic}
	}
	return &evaluate.Evaluation{
		Rows: evaluate.Rows{Synthetic: 6000, Test: 1575, Train: 6299},
		Utility: []evaluate.ModelUtility{
			{Model: "logistic regression", B: &evaluate.Ranking{AUROC: 0.7654, AveragePrecision: 0.5432},
				C:         &evaluate.Ranking{AUROC: 0.81, AveragePrecision: 0.6},
				CoinFlips: &evaluate.Ranking{AUROC: 0.4567, AveragePrecision: 0.3}},
			{Model: "trees <b>", A: &evaluate.Ranking{AUROC: 0.8912, AveragePrecision: 0.7},
				B: &evaluate.Ranking{AUROC: 0.7123, AveragePrecision: 0.5}},
		},
		RankingAgreement: some(0.833), ImportanceAgreement: some(0.642),
		Columns: []evaluate.ColumnQuality{shape("age", 0.93), shape("creatinine", 0.47)},
		Pairs: []evaluate.PairTrend{
			pair("age", "creatinine", 0.9, 0.31, 0.11), pair("age", "year", 0.99, -0.02, -0.04),
			pair("creatinine", "year", 0.7, 0.25, -0.35),
			{Columns: [2]string{"ward", "label"}, Measure: "ContingencySimilarity", Score: some(0.88),
				Association: &evaluate.Association{Measure: evaluate.CramersV, Real: 0.41, Synthetic: 0.17}},
		},
		Marginals: []evaluate.Marginal{{Ways: 2, Sets: 15, Mean: 0.12, Worst: 0.31,
			Widest: []string{"ward|<i>", "country"}}},
		Propensity: &evaluate.Propensity{PMSE: 0.0213, Ratio: 6.4, RatioOfEqual: 2},
		Regression: []evaluate.Regression{{Column: "creatinine", RMSEReal: some(0.41), RMSESynthetic: 0.52}},
		Images: &evaluate.ImageQuality{AccuracySynthetic: 0.71, AccuracyReal: 0.97, ScoreReal: 9.1,
			ScoreSynthetic: 6.2, FrechetDistance: 31.5},
		Closeness: &evaluate.Closeness{CopiesTrain: 0.001, CopiesTest: 0.002, DistanceTrain: 0.11, DistanceTest: 0.12,
			CloserToTrain: 0.502, MembershipAUROC: 0.497},
		Baselines: &evaluate.Baselines{
			Independent: evaluate.Scores{Columns: some(0.98), Pairs: some(0.81), Marginals: []float64{0.27},
				PMSERatio: some(19), AUROC: some(0.503)},
			Real: &evaluate.Scores{Columns: some(0.97), Pairs: some(0.96), Marginals: []float64{0.08},
				PMSERatio: some(2.1), AUROC: some(0.9012)},
		},
		Unseen: &evaluate.Unseen{Rows: 0.07, Independent: 0.21, Kinds: 33, Against: 7874,
			Combinations: []evaluate.Combination{{Columns: [2]string{"ward", "label|"},
				Values: [2]string{"<b>surgery", "1"},
				Rows:   0.04}}},
		Notes: []string{"Two models were <left> out."},
	}
}

// squares is a PNG file of squares.
func squares(t *testing.T, width, height int) []byte {
	t.Helper()
	canvas := image.NewGray(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			canvas.SetGray(x, y, color.Gray{Y: uint8((x/8 + y/8) % 2 * 200)})
		}
	}
	var out bytes.Buffer
	testkit.Must(t, png.Encode(&out, canvas))
	return out.Bytes()
}
