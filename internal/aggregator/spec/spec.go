// Package spec checks a run's spec when the run is opened: its names, its budget, and that the noise of its plan can
// be drawn.
package spec

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/pattern"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	maxTeachers        = 1 << 20
	maxDeadlineSeconds = 24 * 3600
	// maxPlan bounds the entries of a plan, which stay in the ledger forever. Pipelines need a few for each of their
	// stages.
	maxPlan = 64
)

// pipelinePattern is a valid pipeline name, a label for lists and logs.
var pipelinePattern = pattern.Of(`^[a-z0-9-]{1,32}$`)

// CheckName refuses an invalid name of a run, a node or a worker: names become part of etcd keys and of log lines.
func CheckName(what, name string) error {
	if !runspec.IsName(name) {
		return fault.Invalidf("%s %q: "+runspec.NameRule, what, fault.Word(name))
	}
	return nil
}

// Spec is a checked conclavev1.RunSpec.
type Spec struct {
	PB     *conclavev1.RunSpec
	Budget privacy.Budget
	// Plan is all that the run may ask, and what each costs.
	Plan privacy.Plan
	// Quorum is the number of teachers that a round needs.
	Quorum uint32
	// Masked is the group that masks the run's sums, nil without masking.
	Masked *masking.Group
	// Study is the run's study, or nil.
	Study *study.Block
	// Deadline is how long a round waits for the rest once it has a quorum.
	Deadline time.Duration
}

// Facts are the facts in the run's ledger entry, except its student.
func (s *Spec) Facts() ledger.Facts {
	return ledger.Facts{
		Pipeline: s.PB.GetPipeline(), SchemaSHA256: s.PB.GetSchemaSha256(), Teachers: s.PB.GetTeachers(),
		Coin: s.PB.GetCoinVotes(), Purpose: s.PB.GetPurpose(), Earlier: s.PB.GetEarlier(), Study: s.Study,
	}
}

// Parse parses a stored spec.
func Parse(raw []byte) (*Spec, error) {
	pb := new(conclavev1.RunSpec)
	if err := proto.Unmarshal(raw, pb); err != nil {
		return nil, fmt.Errorf("read a stored run spec: %w", err)
	}
	return New(pb)
}

// New checks everything about a spec that does not depend on its dataset.
func New(pb *conclavev1.RunSpec) (*Spec, error) {
	if pb == nil {
		return nil, fault.Invalidf("the request holds no run spec")
	}
	if err := CheckName("run", pb.GetName()); err != nil {
		return nil, err
	}
	switch {
	case proto.Size(pb) > runspec.MaxBytes:
		return nil, fault.Invalidf("run %q: its spec has %d bytes; the maximum is %d", pb.GetName(), proto.Size(pb),
			runspec.MaxBytes)
	case !pipelinePattern.MatchString(pb.GetPipeline()):
		return nil, fault.Invalidf("run %q: pipeline %q: use 1 to 32 small letters, digits and dashes",
			pb.GetName(), fault.Word(pb.GetPipeline()))
	case len(pb.GetEarlier()) > ledger.MaxEarlier:
		return nil, fault.Invalidf("run %q continues %d runs; the maximum is %d", pb.GetName(), len(pb.GetEarlier()),
			ledger.MaxEarlier)
	case runspec.CheckPurpose(pb.GetPurpose()) != nil:
		return nil, fault.Invalidf("run %q: %w", pb.GetName(), runspec.CheckPurpose(pb.GetPurpose()))
	case unknownFields(pb.ProtoReflect()):
		return nil, fault.Invalidf("run %q: its spec has unknown fields; install matching versions of student and "+
			"aggregator", pb.GetName())
	}
	budget, err := runspec.Budget(pb)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", pb.GetName(), err)
	}
	switch pb.GetGuarantee() {
	case "data-independent":
	case "data-dependent":
		return nil, fault.Refusedf("run %q: the data-dependent guarantee is not available; use data-independent",
			pb.GetName())
	default:
		return nil, fault.Invalidf("run %q: guarantee %q is unknown; use data-independent", pb.GetName(),
			pb.GetGuarantee())
	}
	if pb.GetTeachers() == 0 || pb.GetTeachers() > maxTeachers {
		return nil, fault.Invalidf("run %q: %d teachers; use 1 to %d", pb.GetName(), pb.GetTeachers(),
			maxTeachers)
	}
	if q := pb.GetQuorum(); !(q > 0 && q <= 1) {
		return nil, fault.Invalidf("run %q: quorum %v must be above 0 and at most 1 (a share of the teachers)",
			pb.GetName(), q)
	}
	if d := pb.GetDeadlineSeconds(); !(d > 0 && d <= maxDeadlineSeconds) {
		return nil, fault.Invalidf("run %q: deadline_seconds %v must be above 0 and at most %d", pb.GetName(), d,
			maxDeadlineSeconds)
	}
	plan, err := runspec.Plan(pb)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", pb.GetName(), err)
	}
	if len(plan) > maxPlan {
		return nil, fault.Invalidf("run %q: its plan has %d entries; the maximum is %d: merge entries with the same "+
			"cost",
			pb.GetName(), len(plan), maxPlan)
	}
	for i, p := range plan {
		if err := drawable(p); err != nil {
			return nil, fault.Invalidf("run %q: plan, entry %d: %w", pb.GetName(), i, err)
		}
	}
	if budget.Filter == privacy.FilterPLD && !plan.Fixed() {
		return nil, fault.Invalidf("run %q: filter pld prices the whole plan in advance, but the plan does not fix "+
			"how much will be asked: give each entry a count, and do not use confident-gnmax", pb.GetName())
	}
	of := study.FromWire(pb.GetStudy())
	if err := of.Validate(); err != nil {
		return nil, fault.Invalidf("run %q: %w", pb.GetName(), err)
	}
	masked, err := maskedOf(pb, plan)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", pb.GetName(), err)
	}
	return &Spec{
		PB:       pb,
		Budget:   budget,
		Plan:     plan,
		Masked:   masked,
		Study:    of,
		Quorum:   quorumOf(pb.GetQuorum(), pb.GetTeachers()),
		Deadline: time.Duration(pb.GetDeadlineSeconds() * float64(time.Second)),
	}, nil
}

// maskedOf is the group that masks a run's sums, nil without masking.
func maskedOf(pb *conclavev1.RunSpec, plan privacy.Plan) (*masking.Group, error) {
	if pb.GetMasked() == nil {
		return nil, nil
	}
	g, err := masking.Parse(pb.GetMasked())
	if err != nil {
		return nil, err
	}
	if pb.GetCoinVotes() {
		return nil, errors.New("coin votes cannot be masked; leave out masked, or coin_votes")
	}
	return &g, masking.CheckPlan(plan)
}

// unknownFields reports whether a message, or one within it, has fields that its type lacks: they would be stored and
// passed on unread.
func unknownFields(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				found = found || unknownFields(v.List().Get(i).Message())
			}
		default:
			found = unknownFields(v.Message())
		}
		return !found
	})
	return found
}

// drawable refuses a plan entry whose noise cannot be drawn in any fixed-point unit. An error at a release would come
// too late.
func drawable(p privacy.Planned) error {
	var err error
	switch m := p.Mechanism; m.Kind {
	case privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax:
		_, err = VoteMechanism(p)
	case privacy.Gaussian:
		err = drawableSum(p)
	case privacy.SubsampledGaussian:
		if p.Count == 0 {
			return fmt.Errorf("sums over samples need a plan with counts; give %s a count", p.Kind)
		}
		if err = drawableSum(p); err == nil {
			_, err = gnmax.NewRate(m.Rate)
		}
	case privacy.Laplace:
		if err = CheckLaplace(1, m.Epsilon); err != nil {
			err = fmt.Errorf("epsilon %v of %s: %w; raise it", m.Epsilon, p.Kind, err)
		}
	case privacy.Exponential:
		_, err = gnmax.NewExponential(m.Epsilon, MinBound)
	}
	return err
}

// drawableSum refuses noise that is too large for the coarsest fixed-point unit or too small for the finest.
func drawableSum(p privacy.Planned) error {
	_, coarse := GaussianSum(p, MinBound)
	if coarse == nil {
		return nil
	}
	if _, fine := GaussianSum(p, 2*MaxBound); fine == nil {
		return nil
	}
	return coarse
}

// Pays returns the plan entry that a round of a kind names.
func (s *Spec) Pays(kind string, planned uint32) (privacy.Planned, error) {
	if uint64(planned) >= uint64(len(s.Plan)) {
		return privacy.Planned{}, fault.Refusedf("run %q has a plan of %d entries, but the round uses entry %d; open "+
			"a run whose plan includes the question",
			s.PB.GetName(), len(s.Plan), planned)
	}
	p := s.Plan[planned]
	if p.Kind != kind {
		return privacy.Planned{}, fault.Refusedf("entry %d of the plan of run %q pays for %s, but the round asks for "+
			"%s; open a run whose plan includes it",
			planned, s.PB.GetName(), p.Kind, kind)
	}
	return p, nil
}

// quorumOf rounds a share of the teachers up. A tiny slack keeps products like 0.7 x 10 = 7.000000000000001 from
// requiring one teacher more.
func quorumOf(share float64, teachers uint32) uint32 {
	need := math.Ceil(share*float64(teachers) - 1e-9)
	return uint32(min(max(need, 1), float64(teachers)))
}
