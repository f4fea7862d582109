package measure

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// reference is what reference/measure.py writes.
type reference struct {
	Ranking []struct {
		Positive                 []bool
		Scores, Weight           []float64
		AUROC                    float64
		AUROCWeighted            float64 `json:"auroc_weighted"`
		AveragePrecision         float64 `json:"average_precision"`
		AveragePrecisionWeighted float64 `json:"average_precision_weighted"`
		Interpolated, Accuracy   float64
		InterpolatedWeighted     float64 `json:"interpolated_weighted"`
		AccuracyWeighted         float64 `json:"accuracy_weighted"`
	}
	Samples []struct {
		A, B, WA, WB                []float64
		KS, Wasserstein, TV, Median float64
		KSWeighted                  float64 `json:"ks_weighted"`
		WassersteinWeighted         float64 `json:"wasserstein_weighted"`
		TVWeighted                  float64 `json:"tv_weighted"`
		MedianWeighted              float64 `json:"median_weighted"`
	}
	Pairs []struct {
		X, Y, Weight    []float64
		Pearson, RMSE   float64
		PearsonWeighted float64 `json:"pearson_weighted"`
		RMSEWeighted    float64 `json:"rmse_weighted"`
	}
	Contingency []struct {
		A, B       [][]int32
		Sizes      []int
		WA, WB     []float64
		TV         float64
		TVWeighted float64 `json:"tv_weighted"`
	}
	Propensity []struct {
		Synthetic          []bool
		Propensity, Weight []float64
		PMSE               float64
		PMSEWeighted       float64 `json:"pmse_weighted"`
	}
	Transport []struct {
		A, B           [][]float64
		WA, WB         []float64
		Cost           float64
		CostUnweighted *float64 `json:"cost_unweighted"`
	}
}

func TestFiguresEqualThoseOfSciPyAndScikitLearn(t *testing.T) {
	text := testkit.Read(t, "testdata/reference.json")
	var all reference
	testkit.Must(t, json.Unmarshal(text, &all))
	compared := 0
	check := func(name string, at int, want float64) func(float64, error) {
		return func(got float64, err error) {
			t.Helper()
			compared++
			if err != nil || !(math.Abs(got-want) < 1e-9) {
				t.Errorf("%s %d is %v, %v; want %v", name, at, got, err, want)
			}
		}
	}
	for i, c := range all.Ranking {
		check("auroc", i, c.AUROC)(AUROC(c.Positive, c.Scores, nil))
		check("weighted auroc", i, c.AUROCWeighted)(AUROC(c.Positive, c.Scores, c.Weight))
		check("average precision", i, c.AveragePrecision)(AveragePrecision(c.Positive, c.Scores, nil))
		check("weighted average precision", i, c.AveragePrecisionWeighted)(AveragePrecision(c.Positive, c.Scores,
			c.Weight))
		check("interpolated precision", i, c.Interpolated)(InterpolatedPrecision(c.Positive, c.Scores, nil))
		check("weighted interpolated precision", i, c.InterpolatedWeighted)(InterpolatedPrecision(c.Positive, c.Scores,
			c.Weight))
		check("accuracy", i, c.Accuracy)(Accuracy(c.Positive, c.Scores, 0.5, nil))
		check("weighted accuracy", i, c.AccuracyWeighted)(Accuracy(c.Positive, c.Scores, 0.5, c.Weight))
	}
	for i, c := range all.Transport {
		check("weighted transport", i, c.Cost)(Transport(costs(c.A, c.B), c.WA, c.WB))
		if c.CostUnweighted != nil {
			check("transport", i, *c.CostUnweighted)(Transport(costs(c.A, c.B), nil, nil))
		}
		if len(c.A[0]) == 1 {
			check("transport in one dimension", i, c.Cost)(Wasserstein(first(c.A), first(c.B), c.WA, c.WB))
		}
	}
	for i, c := range all.Samples {
		check("ks", i, c.KS)(KolmogorovSmirnov(c.A, c.B, nil, nil))
		check("weighted ks", i, c.KSWeighted)(KolmogorovSmirnov(c.A, c.B, c.WA, c.WB))
		check("tv", i, c.TV)(TotalVariation(c.A, c.B, nil, nil))
		check("weighted tv", i, c.TVWeighted)(TotalVariation(c.A, c.B, c.WA, c.WB))
		check("wasserstein", i, c.Wasserstein)(Wasserstein(c.A, c.B, nil, nil))
		check("weighted wasserstein", i, c.WassersteinWeighted)(Wasserstein(c.A, c.B, c.WA, c.WB))
		check("median", i, c.Median)(Median(c.A, nil))
		check("weighted median", i, c.MedianWeighted)(Median(c.A, c.WA))
	}
	for i, c := range all.Pairs {
		check("pearson", i, c.Pearson)(Pearson(c.X, c.Y, nil))
		check("weighted pearson", i, c.PearsonWeighted)(Pearson(c.X, c.Y, c.Weight))
		check("rmse", i, c.RMSE)(RMSE(c.X, c.Y, nil))
		check("weighted rmse", i, c.RMSEWeighted)(RMSE(c.X, c.Y, c.Weight))
	}
	for i, c := range all.Contingency {
		check("contingency", i, c.TV)(ContingencyTotalVariation(c.A, c.B, c.Sizes, nil, nil))
		check("weighted contingency", i, c.TVWeighted)(ContingencyTotalVariation(c.A, c.B, c.Sizes, c.WA, c.WB))
	}
	for i, c := range all.Propensity {
		check("pmse", i, c.PMSE)(PMSE(c.Synthetic, c.Propensity, nil))
		check("weighted pmse", i, c.PMSEWeighted)(PMSE(c.Synthetic, c.Propensity, c.Weight))
	}
	if compared != 78 {
		t.Errorf("%d figures compared, want 78", compared)
	}
}

// costs returns the Euclidean distance from each point of a to each of b.
func costs(a, b [][]float64) [][]float64 {
	out := make([][]float64, len(a))
	for i, p := range a {
		for _, q := range b {
			d := 0.0
			for k := range p {
				d = math.Hypot(d, p[k]-q[k])
			}
			out[i] = append(out[i], d)
		}
	}
	return out
}

func first(points [][]float64) []float64 {
	var out []float64
	for _, p := range points {
		out = append(out, p[0])
	}
	return out
}
