package aggregator

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	maxTeachers        = 1 << 20
	maxDeadlineSeconds = 24 * 3600
	// maxPlanned bounds the sums of a plan; each is an entry of the ledger.
	maxPlanned = 1_000_000
)

// namePattern holds for every name that becomes part of an etcd key or a log
// line.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkName(what, name string) error {
	if !namePattern.MatchString(name) {
		return invalidf("%s %q: a name has 1 to 128 letters, digits, dots, dashes or underscores and starts with a letter or digit", what, word(name))
	}
	return nil
}

// runSpec is a checked conclavev1.RunSpec.
type runSpec struct {
	pb     *conclavev1.RunSpec
	budget privacy.Budget
	// mechanism decides votes; nil in a run that asks for sums of gradients.
	mechanism gnmax.Mechanism
	// multiplier is the noise multiplier of such sums, 0 in a run of votes; embedding that
	// of sums of embeddings, 0 in a run that asks for none.
	multiplier, embedding float64
	// samples are the sums over samples that the run's mechanism answers, weighing those
	// that train a network to weight rows by; nil of runs without.
	samples, weighing *sampled
	// plan is all that a run with sums over samples may release, nil of others, which ask
	// until their budget is used.
	plan []privacy.Event
	// fit is the noise of fitted coefficients, nil of a run without.
	fit *fitNoise
	// quorum is the number of teachers without which a round does not count.
	quorum uint32
	// deadline is how long a round waits for the rest once it has a quorum.
	deadline time.Duration
}

// parseRunSpec reads a spec as it is stored.
func parseRunSpec(raw []byte) (*runSpec, error) {
	pb := new(conclavev1.RunSpec)
	if err := proto.Unmarshal(raw, pb); err != nil {
		return nil, fmt.Errorf("read a stored run spec: %w", err)
	}
	return newRunSpec(pb)
}

// newRunSpec checks everything about a spec that does not depend on its
// dataset.
func newRunSpec(pb *conclavev1.RunSpec) (*runSpec, error) {
	if pb == nil {
		return nil, invalidf("the request holds no run spec")
	}
	if err := checkName("run", pb.GetName()); err != nil {
		return nil, err
	}
	budget, err := privacy.NewBudget(pb.GetEpsilon(), pb.GetDelta())
	if err != nil {
		return nil, invalidf("run %q: %w", pb.GetName(), err)
	}
	switch pb.GetGuarantee() {
	case "data-independent":
	case "data-dependent":
		return nil, refusedf("run %q: the data-dependent guarantee is not offered; use data-independent", pb.GetName())
	default:
		return nil, invalidf("run %q: guarantee %q is unknown; use data-independent", pb.GetName(), pb.GetGuarantee())
	}
	if pb.GetTeachers() == 0 || pb.GetTeachers() > maxTeachers {
		return nil, invalidf("run %q: %d teachers; a run has 1 to %d", pb.GetName(), pb.GetTeachers(), maxTeachers)
	}
	if q := pb.GetQuorum(); !(q > 0 && q <= 1) {
		return nil, invalidf("run %q: quorum %v must be above 0 and at most 1 (a share of the teachers)", pb.GetName(), q)
	}
	if d := pb.GetDeadlineSeconds(); !(d > 0 && d <= maxDeadlineSeconds) {
		return nil, invalidf("run %q: deadline_seconds %v must be above 0 and at most %d", pb.GetName(), d, maxDeadlineSeconds)
	}
	if e := pb.GetClassShareEpsilon(); !(e >= 0) || math.IsInf(e, 0) {
		return nil, invalidf("run %q: class_share_epsilon %v must be a number of at least 0 (0: no class counts)", pb.GetName(), e)
	}
	if e := pb.GetEmbeddingSigma(); e != 0 {
		if _, err := gnmax.NewGaussianSum(minGradientBound, e); err != nil {
			return nil, invalidf("run %q: embedding_sigma: %w", pb.GetName(), err)
		}
	}
	spec := &runSpec{
		pb:        pb,
		budget:    budget,
		embedding: pb.GetEmbeddingSigma(),
		quorum:    quorumOf(pb.GetQuorum(), pb.GetTeachers()),
		deadline:  time.Duration(pb.GetDeadlineSeconds() * float64(time.Second)),
	}
	if err := spec.mechanisms(); err != nil {
		return nil, invalidf("run %q: %w", pb.GetName(), err)
	}
	if err := spec.planned(); err != nil {
		return nil, invalidf("run %q: %w", pb.GetName(), err)
	}
	return spec, nil
}

// mechanisms reads what answers the run's questions. A run of stages alone, of what an
// earlier run made, has no mechanism of its own.
func (s *runSpec) mechanisms() (err error) {
	if err := s.stages(); err != nil {
		return err
	}
	m := s.pb.GetMechanism()
	switch {
	case m == nil && s.staged():
		return nil
	case m.GetKind() == conclavev1.Mechanism_KIND_GAUSSIAN_SUM:
		s.multiplier = m.GetSigma()
		s.samples, err = newSampled(m.GetSigma(), m.GetRate(), "rounds", s.pb.GetRounds())
		return err
	}
	s.mechanism, err = newMechanism(m)
	return err
}

// quorumOf rounds a share of the teachers up. The tiny slack keeps products
// like 0.7 x 10 = 7.000000000000001 from asking for one teacher more.
func quorumOf(share float64, teachers uint32) uint32 {
	need := math.Ceil(share*float64(teachers) - 1e-9)
	return uint32(min(max(need, 1), float64(teachers)))
}

func newMechanism(m *conclavev1.Mechanism) (gnmax.Mechanism, error) {
	whole := m.GetWholeHistogram()
	switch m.GetKind() {
	case conclavev1.Mechanism_KIND_LNMAX:
		return gnmax.NewLNMax(m.GetLambda(), whole)
	case conclavev1.Mechanism_KIND_GNMAX:
		return gnmax.NewGNMax(m.GetSigma(), whole)
	case conclavev1.Mechanism_KIND_CONFIDENT_GNMAX:
		return gnmax.NewConfident(m.GetThreshold(), m.GetSigmaThreshold(), m.GetSigma(), whole)
	}
	return nil, fmt.Errorf("mechanism %v is unknown; use lnmax, gnmax, confident-gnmax or a Gaussian sum", m.GetKind())
}
