package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition/encode"
)

// uneven is the share of the rows below which an effective size is warned of.
const uneven = 0.1

// weigh makes the rows and, where the spec wants them, their weights.
func (j *Job) weigh(ctx context.Context, p *drawing, session *pipeline.Session, trained trainer, ask *oracle, o Options) (*results.Made, error) {
	s := j.Spec
	n := s.Release.Rows
	resample := s.Weights != iw.None && runfile.Section[iw.Options](s).Use == iw.UseResample
	if resample {
		n = min(pipeline.MostCandidates, n*runfile.Section[iw.Options](s).Pool)
	}
	r, err := p.draw(ctx, n)
	if err != nil {
		return nil, err
	}
	table, err := session.Model.Table(r.X, r.Classes)
	if err != nil || s.Weights == iw.None {
		return &results.Made{Table: table, Unweighted: table}, err
	}
	// As they are released: whole numbers are whole, empty cells empty.
	encoded := encode.New(j.Schema).Encode(table)
	r.X, r.Classes = encoded.Features, encoded.Classes
	w := &weigher{Job: j, rows: r, trained: trained, ask: ask, watch: o.Watch, width: encoded.Width}
	logs, err := w.logs(ctx)
	if err != nil {
		return nil, err
	}
	m := &results.Made{Table: table, Unweighted: table, Weights: ratio.SelfNormalized(bounded(logs, runfile.Section[iw.Options](s).Bound))}
	effective, err := ratio.EffectiveSize(m.Weights)
	if err != nil {
		return nil, fmt.Errorf("%w: weights: %w", errStage, err)
	}
	session.Notes = append(append(session.Notes, w.notes...), fmt.Sprintf("Weights (%s): %d rows have the effective size of %.0f.", s.Weights, n, effective))
	if effective < uneven*float64(n) {
		session.Notes = append(session.Notes, "So few rows carry most of the weight that estimates from them are little but their chance; more of the budget (weighting.share), a lower weighting.bound or another method makes weights more even.")
	}
	if !resample {
		return m, nil
	}
	places, err := ratio.Resample(m.Weights, s.Release.Rows, s.Seed)
	if err != nil {
		return nil, fmt.Errorf("%w: weights: %w", errStage, err)
	}
	rand.New(rand.NewPCG(s.Seed, 0x2e5)).Shuffle(len(places), func(a, b int) { places[a], places[b] = places[b], places[a] })
	taken := r.Take(places, w.width)
	m.Weights = nil
	m.Table, err = session.Model.Table(taken.X, taken.Classes)
	session.Notes = append(session.Notes, fmt.Sprintf("%d rows were drawn from them by weight.", len(places)))
	return m, err
}

// bounded cuts log-weights such that none is above bound times the mean weight; 0 cuts
// none. It keeps the proportions of those that are not cut.
func bounded(logs []float64, bound float64) []float64 {
	if bound == 0 {
		return logs
	}
	// Above the cut, weights are bound times the mean. The higher the cut, the further
	// it is from the mean: the highest at which that holds is looked for.
	largest, smallest := slices.Max(logs), slices.Min(logs)
	excess := func(cut float64) float64 { // of the cut over bound times the mean, relative to the cut
		var mean float64
		for _, l := range logs {
			mean += math.Exp(math.Min(l-cut, 0)) / float64(len(logs))
		}
		return 1 - bound*mean
	}
	cut := largest
	if excess(largest) > 0 {
		low, high := smallest, largest // at the smallest all are equal, and bound is 1 at least
		for range 200 {
			if cut = (low + high) / 2; excess(cut) > 0 {
				high = cut
			} else {
				low = cut
			}
		}
		cut = low
	}
	cuts := make([]float64, len(logs))
	for i, l := range logs {
		cuts[i] = math.Min(l, cut)
	}
	return cuts
}

// weigher finds the log-weights of rows.
type weigher struct {
	*Job
	rows    pipeline.Rows
	width   int // of a row
	trained trainer
	ask     *oracle
	watch   func(Status)
	notes   []string
}

// logs are the rows' log-weights, up to a constant.
func (w *weigher) logs(ctx context.Context) ([]float64, error) {
	switch w.Spec.Weights {
	case iw.Discriminator:
		return w.withinClasses(w.rows.Odds), nil
	case iw.PrivateMLP, iw.ExactMLP:
		return w.network(ctx)
	}
	return w.regression(ctx)
}

// withinClasses takes from log-odds what they say of classes: discriminators know it up to a
// constant, and the shares of classes are known from elsewhere.
func (w *weigher) withinClasses(odds []float64) []float64 {
	logs := make([]float64, len(odds))
	for c := range w.Plan.Classes {
		most, sum, n := math.Inf(-1), 0.0, 0.0
		for i, of := range w.rows.Classes {
			if of == c {
				most = math.Max(most, odds[i])
			}
		}
		for i, of := range w.rows.Classes {
			if of == c {
				sum, n = sum+math.Exp(odds[i]-most), n+1
			}
		}
		for i, of := range w.rows.Classes {
			if of == c {
				logs[i] = odds[i] - most - math.Log(sum/n)
			}
		}
	}
	return logs
}

// network trains a network that tells real from synthetic rows.
func (w *weigher) network(ctx context.Context) ([]float64, error) {
	m := runfile.Section[iw.Options](w.Spec).MLP
	notes := w.trained.Notes()
	n, err := records(runfile.Section[iw.Options](w.Spec).Records, notes)
	if err != nil {
		return nil, err
	}
	e := encode.New(w.Schema)
	options := iw.NetworkOptions{Hidden: m.Hidden, Rate: m.Rate, Steps: m.Steps, Clip: m.Clip, StepSize: m.StepSize, Records: float64(n)}
	exact := w.Spec.Weights == iw.ExactMLP
	if exact {
		options.Rate, options.Records = 1, 1 // gradients are those of the mean
	}
	net, err := iw.NewNetwork(e, w.rows.X, w.rows.Classes, w.Plan.Classes, options, w.Spec.Seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStage, err)
	}
	var oracle iw.Oracle
	if exact {
		w.notes = append(w.notes, "NOT PRIVATE: weights are of a network trained on the real rows of evaluate.train.")
		oracle = newExactGradients(net.Spec(), w.real.Train)
	} else {
		sampled, _ := w.Plan.Stages.Of(runspec.Sampled)
		oracle = &weighingOracle{oracle: w.ask, asker: w.Job.weighing(net.Spec(), w.ask.coin), learned: notes, first: uint64(len(notes.Receipts)), sigma: sampled.Mechanism.NoiseMultiplier}
	}
	status := Status{Of: "weighting step", Rounds: m.Steps, Epsilon: w.Spec.Privacy.Epsilon, EpsilonSpent: notes.Spent}
	w.watch(status)
	if err := net.Run(ctx, oracle, func(done, steps int) {
		status.Round, status.Rounds, status.EpsilonSpent = done, steps, notes.Spent
		w.watch(status)
	}); err != nil {
		if errors.Is(err, pipeline.ErrDiverged) {
			err = fmt.Errorf("%w: %w", errStage, err)
		}
		return nil, err
	}
	odds, err := net.LogOdds()
	if errors.Is(err, pipeline.ErrDiverged) {
		err = fmt.Errorf("%w: %w", errStage, err)
	}
	return odds, err
}
