// Package dryrun shows a site what would leave it in a run, before it joins: what its node says about itself, how it
// answers each kind of question, who sees the answer, what it costs, and what the site's policy says. It uses no
// network and leaves no trace.
//
// Begin with [New].
package dryrun

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Field is a field of the hello.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Says  string `json:"says"`
}

// Question is a kind of question and its answer.
type Question struct {
	Kind    sitepolicy.Kind `json:"kind"`
	Message string          `json:"message"` // a message of proto/conclave/v1 that leaves
	Content string          `json:"content"`
	Times   int             `json:"times"`
	Bytes   int             `json:"bytes"` // largest size of one, before TLS
	// WithoutNoise says that the node adds no noise, as in all answers that are not masked. SeenBy says who sees it
	// like that.
	WithoutNoise bool   `json:"without_noise"`
	SeenBy       string `json:"seen_by"`
	// Charges is the most that one answer costs, with the number of answers; EpsilonAll is the price of all of them
	// alone.
	Charges    []privacy.Event `json:"charges"`
	Charged    int             `json:"charged"`
	EpsilonAll float64         `json:"epsilon_all"`
	// Verdict is the policy's; Fits is how many answers fit the site's limit, and FitsAtLeast how many if each is
	// opened as often as a masked run may.
	Verdict     string `json:"verdict"`
	Fits        int    `json:"fits"`
	FitsAtLeast int    `json:"fits_at_least"`

	round *conclavev1.Round
}

// Report describes what would leave.
type Report struct {
	Run        string          `json:"run"`
	Terms      sitepolicy.Spec `json:"terms"`
	Hello      []Field         `json:"hello"`
	HelloBytes int             `json:"hello_bytes"`
	Questions  []Question      `json:"questions"`
	EpsilonAll float64         `json:"epsilon_all"` // of the whole run, at its delta
	// RevealsAtMost is how often a round may be charged, which exceeds one only in a masked run. EpsilonMost is the
	// price of the whole run in that case.
	RevealsAtMost int      `json:"reveals_at_most"`
	EpsilonMost   float64  `json:"epsilon_most"`
	Policy        string   `json:"policy"` // the policy's verdict on the whole run
	NeverLeaving  []string `json:"never_leaving"`
}

// neverLeaving lists what never leaves, whatever is asked.
var neverLeaving = []string{
	"records, and values of records", "the partition key", "teachers' weights",
	"the assignment of records to teachers and samples", "file names and file metadata",
}

// Spec makes a run's spec from a pipeline's defaults, for a single node.
func Spec(c node.Config, pipeline string, epsilon, delta float64) (*runfile.Spec, error) {
	s := runfile.DefaultSpec()
	s.Name, s.Schema, s.Pipeline, s.Teachers = "dry-run", c.Schema, pipeline, c.Teachers
	s.Privacy.Epsilon, s.Privacy.Delta, s.Privacy.Unit = epsilon, delta, c.Unit
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// New predicts a run at a node whose records are loaded.
func New(c node.Config, site *node.Site, s *runfile.Spec) (*Report, error) {
	schema := site.Schema()
	spec, questions, err := run.Questions(s, schema,
		run.Node{Dataset: c.Dataset, Site: c.Site, Node: c.Node, Teachers: c.Teachers})
	if err != nil {
		return nil, err
	}
	own, err := s.LoadSchema()
	if err != nil {
		return nil, err
	}
	if own.SHA256 != schema.SHA256 {
		return nil, fmt.Errorf("the run's schema is %s, and this node's is %s; use the same file everywhere",
			own.SHA256, schema.SHA256)
	}
	hello := site.Hello()
	sized := proto.Clone(hello).(*conclavev1.Hello)
	sized.Manifest = cmp.Or(hello.GetManifest(), strings.Repeat("0", 64))
	terms, err := node.SpecTerms(spec)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Run: s.Name, Terms: terms, Hello: fieldsOf(hello), NeverLeaving: neverLeaving,
		HelloBytes: proto.Size(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: sized}}),
	}
	enforcer, err := enforcerOf(c, site)
	if err != nil {
		return nil, err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var all []privacy.Event
	r.Policy = "no policy is set: the node answers everything that the aggregator's budget allows"
	if enforcer != nil {
		r.Policy = "allows all of it"
	}
	for i, q := range questions {
		out := Question{
			Kind: sitepolicy.Kind(q.Round.GetKind()), Message: messageOf(q.Round), Content: q.Answer.Content,
			Times: q.Answer.Times, Bytes: q.Answer.Bytes,
			WithoutNoise: terms.Masked == nil, SeenBy: sitepolicy.SeenBy(sitepolicy.Kind(q.Round.GetKind()),
				terms.Masked),
			Charges: q.Charges, Charged: q.Charged, Verdict: "no policy", Fits: q.Charged, FitsAtLeast: q.Charged,
		}
		if q.Complete {
			out.round = q.Round
		}
		events := timed(q.Charges, q.Charged)
		if out.EpsilonAll, err = spentBy(events, s.Privacy.Delta); err != nil {
			return nil, err
		}
		if enforcer != nil {
			terms := sitepolicy.Request{
				Run: s.Name, Round: uint64(i), Spec: r.Terms, SpecSHA256: node.SpecSHA256(raw),
				Question: question.Digest([]byte(strconv.Itoa(i))),
				Kind:     out.Kind, Stage: q.Stage, Charges: q.Charges,
				Use: privacy.Use{Planned: int(q.Round.GetPlanned()), Queries: 1, Answered: 1},
			}
			if err := out.foresee(enforcer, terms, all, r); err != nil {
				return nil, err
			}
		}
		if err := site.CheckKind(q.Round.GetKind()); err != nil {
			out.refuse(err, r)
			r.Policy = refusesAll // by the plan
		}
		all = append(all, events...)
		r.Questions = append(r.Questions, out)
	}
	if r.EpsilonAll, err = spentBy(all, s.Privacy.Delta); err != nil {
		return nil, err
	}
	r.RevealsAtMost = terms.RevealsAtMost()
	r.EpsilonMost, err = spentBy(timed(all, r.RevealsAtMost), s.Privacy.Delta)
	return r, err
}

const (
	refusesAll  = "refuses it from the first round on"
	refusesPart = "refuses a part of it: the run ends, or continues without this site"
)

// refuse notes that the site answers no round of a kind.
func (q *Question) refuse(why error, r *Report) {
	q.Verdict, q.Fits, q.FitsAtLeast = "refused: "+why.Error(), 0, 0
	switch {
	case len(r.Questions) == 0:
		r.Policy = refusesAll
	case r.Policy != refusesAll:
		r.Policy = refusesPart
	}
}

// foresee asks the policy about all rounds of a kind.
func (q *Question) foresee(enforcer *sitepolicy.Enforcer, t sitepolicy.Request, earlier []privacy.Event,
	r *Report) error {
	f, err := enforcer.Forecast(t, q.Charged, earlier)
	if err != nil {
		return err
	}
	q.FitsAtLeast = f.FitsAtLeast
	switch q.Fits = f.Fits; {
	case f.Refusal != nil:
		q.refuse(f.Refusal, r)
		q.Fits, q.FitsAtLeast = f.Fits, f.FitsAtLeast
	case f.Fits < q.Charged:
		q.Verdict = fmt.Sprintf("allowed %d of %d times, then the site's own limit is reached", f.Fits, q.Charged)
		r.Policy = refusesPart
	case f.Waits:
		q.Verdict = "allowed after a person at the site approves the run"
		if r.Policy == "allows all of it" {
			r.Policy = "allows all of it after a person at the site approves the run: teacher approve"
		}
	default:
		q.Verdict = "allowed"
	}
	if f.Refusal == nil && f.FitsAtLeast < f.Fits {
		q.Verdict += fmt.Sprintf("; up to %d times, because each may be opened %d times",
			f.FitsAtLeast, t.Spec.RevealsAtMost())
	}
	return nil
}

func enforcerOf(c node.Config, site *node.Site) (*sitepolicy.Enforcer, error) {
	if c.Policy == "" {
		return nil, nil
	}
	facts, _, err := site.Facts()
	if err != nil {
		return nil, err
	}
	o := c.PolicyOptions(site.Schema().SHA256)
	o.Facts, o.ReadOnly = facts, true
	return sitepolicy.New(o), nil
}

func fieldsOf(h *conclavev1.Hello) []Field {
	return []Field{
		{"protocol", strconv.Itoa(int(h.GetProtocol())), "protocol version"},
		{"dataset", h.GetDataset(), "from the configuration"},
		{"site", h.GetSite(), "from the configuration; also in the certificate"},
		{"node", h.GetNode(), "from the configuration"},
		{"teachers", strconv.Itoa(int(h.GetTeachers())), "from the configuration; not the number of records"},
		{"schema_sha256", h.GetSchemaSha256(), "of the public schema file"},
		{"unit", h.GetUnit(), "from the configuration"},
		{"manifest", cmp.Or(h.GetManifest(), "64 hexadecimal digits, made at the first start"),
			"keyed fingerprint of the partitions, with the node's own key; it reveals nothing"},
		{"ledger", headText(h.GetLedger()),
			"the newest ledger entry that the node received, to detect a ledger that went back"},
	}
}

func headText(m *conclavev1.LedgerHead) string {
	if m == nil {
		return "none before the first join"
	}
	return fmt.Sprintf("entry %d, %x", m.GetSeq(), m.GetHash())
}

// messageOf is the message that answers a round.
func messageOf(r *conclavev1.Round) string {
	if r.GetVotes() != nil {
		return "Votes"
	}
	return "Sum"
}

// timed multiplies the events of a charge by n.
func timed(events []privacy.Event, n int) []privacy.Event {
	all := make([]privacy.Event, 0, len(events))
	for _, e := range events {
		e.Count *= int64(n)
		e.Asked *= int64(n)
		e.Answered *= int64(n)
		all = append(all, e)
	}
	return all
}

func spentBy(events []privacy.Event, delta float64) (float64, error) {
	if len(events) == 0 {
		return 0, nil
	}
	claim, err := privacy.Running(events, delta)
	return claim.Epsilon, err
}

// ErrNothing says that no question can be rehearsed.
var ErrNothing = errors.New("this run has no question that a dry run can answer")
