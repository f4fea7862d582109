package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/messages"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxSpecMessages exceeds the messages in a spec with the longest plan that aggregators accept.
const maxSpecMessages = 256

// announced is a run's spec as the aggregator sent it with a round. It is empty if there was none, or it is invalid
// or too large.
type announced struct {
	*conclavev1.RunSpec
	sha256    string
	raw       []byte // its bytes
	requester string // as the aggregator names it
}

func announcedBy(terms *conclavev1.RoundTerms) announced {
	spec := new(conclavev1.RunSpec)
	// Checked first, because small entries take sixty times their size when decoded.
	raw := terms.GetSpec()
	if terms == nil || len(raw) > runspec.MaxBytes ||
		messages.Count(raw, spec.ProtoReflect().Descriptor(), maxSpecMessages) > maxSpecMessages ||
		proto.Unmarshal(raw, spec) != nil {
		return announced{}
	}
	return announced{spec, SpecSHA256(raw), raw, terms.GetRequester()}
}

// digest is the hash of the spec's bytes.
func (s announced) digest() [sha256.Size]byte { return sha256.Sum256(s.raw) }

// SpecSHA256 is the hash of a run's spec, in hex.
func SpecSHA256(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// SpecTerms converts a run's spec for a site's policy. The error says that its plan has no price, or that its masks
// hide nothing.
func SpecTerms(s *conclavev1.RunSpec) (sitepolicy.Spec, error) {
	plan, err := runspec.Plan(s)
	if err != nil {
		return sitepolicy.Spec{}, err
	}
	var masked *masking.Group
	if s.GetMasked() != nil {
		g, err := masking.Parse(s.GetMasked())
		if err != nil {
			return sitepolicy.Spec{}, err
		}
		masked = &g
	}
	return sitepolicy.Spec{
		Dataset: s.GetDataset(), SchemaSHA256: s.GetSchemaSha256(), Unit: s.GetUnit(), Overlap: int(s.GetOverlap()),
		Pipeline: s.GetPipeline(),
		Epsilon:  s.GetEpsilon(), Delta: s.GetDelta(),
		Filter: privacy.Filter(s.GetFilter()), Guarantee: s.GetGuarantee(), Teachers: s.GetTeachers(),
		Plan: plan, Purpose: s.GetPurpose(), Study: study.FromWire(s.GetStudy()), Masked: masked,
	}, nil
}

// priced returns the plan entry that a question of a kind names, the most that the question uses of it, and the cost;
// queries is the number of votes per teacher. For sums to select by the cost covers all selections of the entry,
// because nodes do not see the later ones. The error says that the entry pays for something else, or that the plan
// does not bound the price.
func priced(plan privacy.Plan, kind string, at, queries uint32) (
	privacy.Planned, privacy.Use, []privacy.Event, error,
) {
	uses := max(1, int64(queries))
	if int(at) >= len(plan) || plan[at].Kind != kind {
		return privacy.Planned{}, privacy.Use{}, nil, errors.New("the run's plan does not pay for the round's question")
	}
	if plan[at].Mechanism.Kind == privacy.Exponential {
		uses = plan[at].Count
	}
	use := privacy.Use{Planned: int(at), Queries: uses, Answered: uses}
	cost, err := plan.Admit(nil, use)
	return plan[at], use, cost, err
}
