package aggregator

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	maxTeachers        = 1 << 20
	maxDeadlineSeconds = 24 * 3600
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
	// plan is all that the run may ask, and what each costs.
	plan privacy.Plan
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
	budget, err := runspec.Budget(pb)
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
	plan, err := runspec.Plan(pb)
	if err != nil {
		return nil, invalidf("run %q: %w", pb.GetName(), err)
	}
	for i, p := range plan {
		if err := drawable(p); err != nil {
			return nil, invalidf("run %q: plan, entry %d: %w", pb.GetName(), i, err)
		}
	}
	if budget.Filter == privacy.FilterPLD && !plan.Fixed() {
		return nil, invalidf("run %q: filter pld prices the whole plan beforehand, and the plan does not say how much of it will be asked: give each entry a count, and use no confident-gnmax", pb.GetName())
	}
	return &runSpec{
		pb:       pb,
		budget:   budget,
		plan:     plan,
		quorum:   quorumOf(pb.GetQuorum(), pb.GetTeachers()),
		deadline: time.Duration(pb.GetDeadlineSeconds() * float64(time.Second)),
	}, nil
}

// drawable refuses an entry of a plan whose noise cannot be drawn, whatever the fixed-point
// unit: found out at a release, it would be too late.
func drawable(p privacy.Planned) error {
	var err error
	switch m := p.Mechanism; m.Kind {
	case privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax:
		_, err = voteMechanism(p)
	case privacy.Gaussian:
		err = drawableSum(p)
	case privacy.SubsampledGaussian:
		if p.Count == 0 {
			return fmt.Errorf("sums over samples are accounted by plans alone, for without one they would count as all records; give %s a count", p.Kind)
		}
		if err = drawableSum(p); err == nil {
			_, err = gnmax.NewRate(m.Rate)
		}
	case privacy.Laplace:
		if err = checkLaplace(1, m.Epsilon); err != nil {
			err = fmt.Errorf("epsilon %v of %s: %w; raise it", m.Epsilon, p.Kind, err)
		}
	case privacy.Exponential:
		_, err = gnmax.NewExponential(m.Epsilon, minBound)
	}
	return err
}

// drawableSum refuses noise that is too large for the coarsest fixed-point unit and too
// small for the finest.
func drawableSum(p privacy.Planned) error {
	_, coarse := gaussianSum(p, minBound)
	if coarse == nil {
		return nil
	}
	if _, fine := gaussianSum(p, 2*maxBound); fine == nil {
		return nil
	}
	return coarse
}

// pays returns the entry of the plan that a round of a kind names.
func (s *runSpec) pays(kind string, planned uint32) (privacy.Planned, error) {
	if uint64(planned) >= uint64(len(s.plan)) {
		return privacy.Planned{}, refusedf("run %q has a plan of %d entries, and the round names entry %d; open a run whose plan has what is asked",
			s.pb.GetName(), len(s.plan), planned)
	}
	p := s.plan[planned]
	if p.Kind != kind {
		return privacy.Planned{}, refusedf("entry %d of the plan of run %q pays for %s, and the round asks for %s; open a run whose plan has it",
			planned, s.pb.GetName(), p.Kind, kind)
	}
	return p, nil
}

// quorumOf rounds a share of the teachers up. The tiny slack keeps products
// like 0.7 x 10 = 7.000000000000001 from asking for one teacher more.
func quorumOf(share float64, teachers uint32) uint32 {
	need := math.Ceil(share*float64(teachers) - 1e-9)
	return uint32(min(max(need, 1), float64(teachers)))
}
