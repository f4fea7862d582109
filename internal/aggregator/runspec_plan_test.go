package aggregator

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// sampledBeside opens a run for sums of samples besides what its mechanism answers.
func sampledBeside(sigma, rate float64, count uint64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Sampled = &conclavev1.SampledSums{Sigma: sigma, Rate: rate, Count: count}
	}
}

// both applies changes one after the other.
func both(changes ...func(*conclavev1.RunSpec)) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		for _, change := range changes {
			change(s)
		}
	}
}

// What a run cannot ask after training is found when it is opened.
func TestStagesAreChecked(t *testing.T) {
	gaussian, laplace, gamma := conclavev1.FitNoise_KIND_GAUSSIAN, conclavev1.FitNoise_KIND_LAPLACE, conclavev1.FitNoise_KIND_NORM_GAMMA
	queries := func(n uint64) func(*conclavev1.RunSpec) { return func(s *conclavev1.RunSpec) { s.Queries = n } }
	none := func(s *conclavev1.RunSpec) { s.Mechanism = nil }
	for name, c := range map[string]struct {
		change func(*conclavev1.RunSpec)
		want   string
	}{
		"no epsilon of selections": {selectionsOf(0, 5), "selections: "},
		"negative epsilon":         {selectionsOf(-1, 5), "selections: "},
		"epsilon of NaN":           {selectionsOf(math.NaN(), 5), "selections: "},
		"infinite epsilon":         {selectionsOf(math.Inf(1), 5), "selections: "},
		"tiny epsilon":             {selectionsOf(5e-324, 5), "selections: "},
		"no selection":             {selectionsOf(1, 0), "0 selections; a run has 1 to 1000000"},
		"too many":                 {selectionsOf(1, maxPlanned+1), "1000001 selections"},
		"no kind of noise":         {fitOf(0, 1), "fit: noise KIND_UNSPECIFIED"},
		"another kind":             {fitOf(9, 1), "fit: noise 9"},
		"gaussian without sigma":   {fitOf(gaussian, 0), "fit: "},
		"gaussian of NaN":          {fitOf(gaussian, math.NaN()), "fit: "},
		"gaussian below zero":      {fitOf(gaussian, -1), "fit: "},
		"gaussian of epsilon too":  {both(fitOf(gaussian, 1), func(s *conclavev1.RunSpec) { s.Fit.Epsilon = 1 }), "use Gaussian with sigma, or Laplace or norm-Gamma with epsilon"},
		"laplace of sigma too":     {both(fitOf(laplace, 1), func(s *conclavev1.RunSpec) { s.Fit.Sigma = 1 }), "use Gaussian with sigma, or Laplace"},
		"laplace without epsilon":  {fitOf(laplace, 0), "fit: "},
		"laplace below zero":       {fitOf(laplace, -1), "fit: "},
		"norm-gamma of NaN":        {fitOf(gamma, math.NaN()), "fit: "},
		"infinite norm-gamma":      {fitOf(gamma, math.Inf(1)), "fit: "},
		"samples without a rate":   {sampledBeside(2, 0, 5), "sampled: rate is 0; give the share"},
		"rate above 1":             {sampledBeside(2, 1.5, 5), "sampled: "},
		"rate of NaN":              {sampledBeside(2, math.NaN(), 5), "sampled: "},
		"samples without noise":    {sampledBeside(0, 0.5, 5), "sampled: "},
		"no sums":                  {sampledBeside(2, 0.5, 0), "sampled: count is 0; sums of samples need their number"},
		"too many sums":            {sampledBeside(2, 0.5, maxPlanned+1), "sampled: count is 1000001"},
		"one rate and two noises":  {both(samplesOf(2, 0.5, 5), sampledBeside(3, 0.5, 5)), "the run's mechanism samples at rate 0.5 too, with other noise"},
		"queries without a plan":   {queries(5), "queries is 5; only runs of sampled sums or pure noise on a fit have a plan"},
		"rounds without a plan":    {both(selectionsOf(1, 5), func(s *conclavev1.RunSpec) { s.Rounds = 5 }), "rounds is 5; only runs of sampled sums have a plan"},
		"votes of no number":       {sampledBeside(2, 0.5, 5), "queries is 0; a run with a plan needs the number"},
		"absurdly many votes":      {both(sampledBeside(2, 0.5, 5), queries(math.MaxUint64)), "needs the number of its other questions"},
		"confident votes in a plan": {both(sampledBeside(2, 0.5, 5), queries(5), func(s *conclavev1.RunSpec) {
			s.Mechanism = &conclavev1.Mechanism{Kind: conclavev1.Mechanism_KIND_CONFIDENT_GNMAX, Sigma: 20, SigmaThreshold: 30, Threshold: 5, WholeHistogram: true}
		}), "confident-gnmax and a plan do not go together"},
		"neither mechanism nor stage": {none, "mechanism"},
	} {
		pb := goodSpec()
		c.change(pb)
		if _, err := newRunSpec(pb); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), pb.Name) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// A plan is all that a run may ask, training and stages together.
func TestPlansOfStages(t *testing.T) {
	laplace := privacy.Event{Kind: privacy.Laplace, Epsilon: 0.1, Count: 1}
	selections := privacy.Event{Kind: privacy.Exponential, Epsilon: 0.25, Count: 7}
	training := privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.25, NoiseMultiplier: 2, Count: 5}
	weighing := privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 3, Count: 4}
	selecting := func(s *conclavev1.RunSpec) { s.Selections = &conclavev1.Selections{Epsilon: 0.25, Count: 7} }
	pure := func(s *conclavev1.RunSpec) {
		s.Fit = &conclavev1.FitNoise{Kind: conclavev1.FitNoise_KIND_LAPLACE, Epsilon: 0.5}
	}
	noisy := func(s *conclavev1.RunSpec) {
		s.Fit = &conclavev1.FitNoise{Kind: conclavev1.FitNoise_KIND_GAUSSIAN, Sigma: 4}
	}
	fitted := privacy.Event{Kind: privacy.Laplace, Epsilon: 0.5, Count: 1}
	queries := func(s *conclavev1.RunSpec) { s.Queries = 9 }
	votes := mustSpec(t, func(*conclavev1.RunSpec) {}).mechanism.Worst(9)
	for name, c := range map[string]struct {
		change func(*conclavev1.RunSpec)
		want   []privacy.Event
	}{
		"selections alone need none":    {selecting, nil},
		"gaussian noise needs none":     {both(selecting, noisy), nil},
		"samples of both kinds":         {both(samplesOf(2, 0.25, 5), sampledBeside(3, 0.1, 4), selecting), []privacy.Event{laplace, training, weighing, selections}},
		"samples of one kind":           {both(samplesOf(2, 0.25, 5), sampledBeside(2, 0.25, 4)), []privacy.Event{laplace, {Kind: privacy.SubsampledGaussian, Rate: 0.25, NoiseMultiplier: 2, Count: 9}}},
		"samples and pure noise":        {both(samplesOf(2, 0.25, 5), pure), []privacy.Event{laplace, training, fitted}},
		"samples and gaussian noise":    {both(samplesOf(2, 0.25, 5), noisy), []privacy.Event{laplace, training, {Kind: privacy.Gaussian, Sigma: 4, Sensitivity: 1, Count: 1}}},
		"votes and samples":             {both(queries, sampledBeside(3, 0.1, 4)), append(append([]privacy.Event{laplace}, votes...), weighing)},
		"votes, selections, pure noise": {both(queries, selecting, pure), append(append([]privacy.Event{laplace}, votes...), selections, fitted)},
		"equal pure noises add up": {both(queries, func(s *conclavev1.RunSpec) {
			s.Fit = &conclavev1.FitNoise{Kind: conclavev1.FitNoise_KIND_NORM_GAMMA, Epsilon: 0.1}
		}), append([]privacy.Event{{Kind: privacy.Laplace, Epsilon: 0.1, Count: 2}}, votes...)},
		"stages of an earlier run": {both(pure, selecting, func(s *conclavev1.RunSpec) { s.Mechanism, s.ClassShareEpsilon = nil, 0 }), []privacy.Event{selections, fitted}},
		"an embedding and samples": {both(embeddingOf(4), sampledBeside(3, 0.1, 4)), []privacy.Event{{Kind: privacy.Gaussian, Sigma: 4, Sensitivity: 1, Count: 1}, weighing}},
	} {
		spec := mustSpec(t, c.change)
		if diff := cmp.Diff(privacy.Merge(c.want), []privacy.Event(spec.plan)); diff != "" && !(len(c.want) == 0 && spec.plan == nil) {
			t.Errorf("%s: %s", name, diff)
		}
		if planned := spec.budget.Filter == privacy.FilterPLD; planned != (c.want != nil) {
			t.Errorf("%s: filter %q", name, spec.budget.Filter)
		}
	}
}

// Sums of samples are taken at the rates of training and of weights, each as often as the
// plan has it, and at no other; selections likewise.
func TestRoundsKeepToThePlanOfStages(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.planned()
	spec, _ := student.open(t, d, both(samplesOf(2, 0.25, 1), sampledBeside(3, 0.5, 1), func(s *conclavev1.RunSpec) {
		s.ClassShareEpsilon, s.Selections = 0, &conclavev1.Selections{Epsilon: 0.25, Count: 2}
	}))
	node := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if r.GetSum().GetScores() != nil {
			return sums(units(0, 0))(r)
		}
		return sums(make([]int64, 3))(r)
	})
	at := func(number uint64, rate float64) *conclavev1.Round {
		return discriminatorRound(spec.Name, number, 3, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
	}
	refused := func(r *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		seen := len(node.rounds)
		_, err := student.ask(testkit.Within(t), r, nil)
		wantStatus(t, err, code, names...)
		if len(node.rounds) != seen {
			t.Error("the node was asked")
		}
	}
	refused(at(0, 0.3), codes.FailedPrecondition, "rate 0.3", spec.Name)
	student.mustAsk(t, at(0, 0.25))
	refused(at(1, 0.25), codes.ResourceExhausted, spec.Name)
	student.mustAsk(t, scoreRound(spec.Name, 1, units(0, 0), nil))
	student.mustAsk(t, selectionRound(spec.Name, 2, units(0, 0), func(q *conclavev1.Selection) { q.ScoresRound = 1 }))
	refused(selectionRound(spec.Name, 3, units(0, 0), func(q *conclavev1.Selection) { q.ScoresRound = 1 }), codes.ResourceExhausted, spec.Name)
	student.mustAsk(t, at(3, 0.5))
	refused(at(4, 0.5), codes.ResourceExhausted, spec.Name)
	_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != 4 || !got.Closed {
		t.Errorf("the ledger has %+v", got)
	}
}
