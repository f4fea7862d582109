package sitepolicy

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/study"
)

// Spec is what a run may ask and at what price, as the aggregator sends it.
type Spec struct {
	Dataset      string `json:"dataset"`
	SchemaSHA256 string `json:"schema_sha256"`
	Unit         string `json:"unit"`
	// Overlap is at how many sites one unit may be, from 2; 0 means one site.
	Overlap  int     `json:"overlap,omitempty"`
	Pipeline string  `json:"pipeline"`
	Epsilon  float64 `json:"epsilon"` // the run's budget
	Delta    float64 `json:"delta"`
	// Filter is the rule by which the budget admits releases; see [privacy.Filter].
	Filter    privacy.Filter `json:"filter,omitempty"`
	Guarantee string         `json:"guarantee"`
	Teachers  uint32         `json:"teachers"`
	// Purpose is the purpose in the student's words, or empty.
	Purpose string `json:"purpose,omitempty"`
	// Study is the study that the run names, or nil.
	Study *study.Block `json:"study,omitempty"`
	// Plan is everything that the run may ask, with the cost of each question.
	Plan privacy.Plan `json:"plan,omitempty"`
	// Masked is the group that masks the run's sums, nil without masking.
	Masked *masking.Group `json:"masked,omitempty"`
}

// Stages are the stages in the plan.
func (s Spec) Stages() (names []string) {
	for _, p := range s.Plan {
		if p.Stage != "" && !slices.Contains(names, p.Stage) {
			names = append(names, p.Stage)
		}
	}
	return names
}

// Noise describes the plan in words: for each entry its kind, mechanism and number.
func (s Spec) Noise() string {
	texts := make([]string, len(s.Plan))
	for i, p := range s.Plan {
		texts[i] = p.String()
	}
	return strings.Join(texts, "; ")
}

// Request is a round that waits for an answer: its question, spec and price.
type Request struct {
	Run string
	// Requester is the student, as the aggregator names it; empty if it names nobody.
	Requester string
	Round     uint64
	Spec      Spec
	// SpecSHA256 is the hash of the spec, Question that of the student's question, or of an attempt in a masked run;
	// in hex. Repeating the last charged question of a run is free.
	SpecSHA256, Question string
	// Kind is the kind of question, Stage the stage of the plan entry that pays; empty for training.
	Kind  Kind
	Stage string
	// Use is the most that the answers may use of the plan, and Charges its cost.
	Use     privacy.Use
	Charges []privacy.Event
}

// validate checks what is written to the ledger.
func (t Request) validate() error {
	switch {
	case !runspec.IsName(t.Run):
		return errors.New("the run has no name")
	case t.Requester != "" && !runspec.IsName(t.Requester):
		return errors.New("the requester has no name")
	case !isSHA256(t.SpecSHA256) || !isSHA256(t.Question):
		return errors.New("a digest is not valid")
	case t.Use.Planned < 0 || t.Use.Queries < 1:
		return errors.New("they have no entry of the plan")
	case len(t.Charges) == 0:
		return errors.New("they have no price")
	case !isWord(string(t.Kind)):
		return errors.New("the kind of the question is not valid")
	}
	for i, e := range t.Charges {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return t.Spec.validate()
}

// maxWord bounds strings of a spec, which the student chooses.
const maxWord = 256

// isWord reports whether a text, perhaps empty, displays as it is: on one line, without control characters and
// without changes of text direction.
func isWord(s string) bool {
	return len(s) <= maxWord && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// budget is the run's budget.
func (s Spec) budget() privacy.Budget {
	return privacy.Budget{Epsilon: s.Epsilon, Delta: s.Delta, Filter: s.Filter, Overlap: s.Overlap}
}

func (s Spec) validate() error {
	for _, word := range []string{s.Dataset, s.SchemaSHA256, s.Unit, s.Pipeline, s.Guarantee} {
		if !isWord(word) {
			return errors.New("a word of the run's spec is not valid")
		}
	}
	if err := s.budget().Validate(); err != nil {
		return err
	}
	if err := runspec.CheckPurpose(s.Purpose); err != nil {
		return err
	}
	if err := s.Study.Validate(); err != nil {
		return err
	}
	if err := s.Plan.Validate(); err != nil {
		return err
	}
	if s.Masked != nil {
		if err := s.Masked.Validate(); err != nil {
			return err
		}
	}
	_, err := privacy.NewBudget(s.Epsilon, s.Delta)
	return err
}

// same reports whether two specs are equal: people decide about exactly what is asked.
func (s Spec) same(other Spec) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func isSHA256(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && hex.EncodeToString(raw) == s
}
