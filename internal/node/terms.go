package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func decodeSpec(raw []byte) (*conclavev1.RunSpec, error) {
	spec := new(conclavev1.RunSpec)
	return spec, proto.Unmarshal(raw, spec)
}

func sha256Hex(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// SpecTerms are a run's terms as a site's policy takes them.
func SpecTerms(s *conclavev1.RunSpec) sitepolicy.Spec {
	terms := sitepolicy.Spec{
		Dataset: s.GetDataset(), SchemaSHA256: s.GetSchemaSha256(), Unit: s.GetUnit(), Pipeline: s.GetPipeline(),
		Epsilon: s.GetEpsilon(), Delta: s.GetDelta(), Guarantee: s.GetGuarantee(), Teachers: s.GetTeachers(),
		Mechanism: mechanismText(s.GetMechanism()),
	}
	if s.GetSelections() != nil {
		terms.Stages = append(terms.Stages, "selections")
	}
	if s.GetFit() != nil {
		terms.Stages = append(terms.Stages, "fit")
	}
	if s.GetSampled() != nil {
		terms.Stages = append(terms.Stages, "sampled")
	}
	return terms
}

// mechanismText is a mechanism for people: its kind and the numbers that it has.
func mechanismText(m *conclavev1.Mechanism) string {
	if m == nil {
		return ""
	}
	text := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(m.GetKind().String(), "KIND_"), "_", "-"))
	for _, number := range []struct {
		name  string
		value float64
	}{{"lambda", m.GetLambda()}, {"sigma", m.GetSigma()}, {"sigma_threshold", m.GetSigmaThreshold()}, {"threshold", m.GetThreshold()}, {"rate", m.GetRate()}} {
		if number.value != 0 {
			text += fmt.Sprintf(" %s %.6g", number.name, number.value)
		}
	}
	return text
}

// eventOf reads an event of the wire. Whether it is one is for who uses it to check.
func eventOf(e *conclavev1.PrivacyEvent) privacy.Event {
	return privacy.Event{
		Kind: privacy.Kind(e.GetKind()), Sigma: e.GetSigma(), Sensitivity: e.GetSensitivity(), Rate: e.GetRate(), NoiseMultiplier: e.GetNoiseMultiplier(),
		Threshold: e.GetThreshold(), Sigma1: e.GetSigma1(), Sigma2: e.GetSigma2(), Lambda: e.GetLambda(), Epsilon: e.GetEpsilon(),
		Count: e.GetCount(), Asked: e.GetAsked(), Answered: e.GetAnswered(),
	}
}
