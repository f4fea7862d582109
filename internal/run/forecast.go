package run

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/pate"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// survival is the probability with which a unanimous vote should survive.
const survival = 0.95

// Forecast is what a run will cost and send. It is known before anything is spent, since it depends only on the
// run.yaml and the public schema.
type Forecast struct {
	Run      string  `json:"run"`
	Pipeline string  `json:"pipeline"`
	Epsilon  float64 `json:"epsilon"` // budget
	Delta    float64 `json:"delta"`
	Unit     string  `json:"unit"`
	// Overlap is the number of sites at which one unit may be, from 2; 0 means one site.
	Overlap  int `json:"overlap,omitempty"`
	Teachers int `json:"teachers"`
	// Rounds ask Queries in total. Round 0, for the class shares or for a sum of Embedding public features, is not
	// included.
	Rounds    int `json:"rounds"`
	Queries   int `json:"queries"`
	Embedding int `json:"embedding,omitempty"`
	// First says that there is such a round 0.
	First bool `json:"-"`
	// Planned says that all rounds and stages are planned before the first, and that nothing
	// more is admitted.
	Planned bool `json:"planned"`
	// Admitted is the number of queries that the budget's filter admits at this noise, all answered. If it is below
	// Queries, the run ends early.
	Admitted int64 `json:"admitted"`
	Cost
	// Unanimous is the number of teachers that must agree for a vote to survive the noise of one query with
	// probability 0.95; 0 if there are no votes.
	Unanimous int64 `json:"unanimous_teachers"`
	// Telling is how well two neighbouring datasets can be distinguished by all releases, Strength the word for
	// the budget.
	Telling  meaning.Telling `json:"telling"`
	Strength string          `json:"strength"`
	Warnings []string        `json:"warnings,omitempty"`
	// Masked is nil without masks.
	Masked *Masked `json:"masked,omitempty"`
	// Leaving is everything that a node sends, Arriving everything sent to it.
	Leaving  []Message `json:"leaving"`
	Arriving []Message `json:"arriving"`
}

// Cost is the cost of all releases of a run.
type Cost struct {
	// Events are all releases, every query answered, and Claim what they cost.
	Events []privacy.Event `json:"events"`
	Claim  privacy.Price   `json:"claim"`
	// FilterEpsilon is the smallest budget whose filter admits them one after
	// another.
	FilterEpsilon float64 `json:"filter_epsilon"`
	// Shares are the separate prices of the stages' questions, by option.
	Shares []SharePrice `json:"shares,omitempty"`
}

// SharePrice is the separate cost of the share that an option sets. The joint cost is less than the sum.
type SharePrice struct {
	Option  string  `json:"option"`
	Epsilon float64 `json:"epsilon"`
}

// Message is one kind of message between a node and the aggregator.
type Message struct {
	Name    string `json:"name"`
	Content string `json:"content"`
	Times   int    `json:"times"`
	// Bytes is the largest size of one, serialized; TLS and gRPC add their frames.
	Bytes int `json:"bytes"`
}

// Node is the node whose messages are forecast.
type Node struct {
	Dataset, Site, Node string
	Teachers            int
}

// NewForecast plans the run and adds up what it will cost. It reads no data.
func NewForecast(s *runfile.Spec, schema *partition.Schema, node Node) (*Forecast, error) {
	p, err := NewPlan(s, schema)
	if err != nil {
		return nil, err
	}
	f, err := forecastOf(p, s, schema, node)
	if g, _ := s.Group(schema); err == nil && g != nil { // planning has built the same group
		last := len(f.Leaving) - 1
		f.Leaving = slices.Insert(f.Leaving, last, openingMessages(s.Name, g, len(p.First())+p.Rounds)...)
	}
	return f, err
}

func forecastOf(p *plan.Plan, s *runfile.Spec, schema *partition.Schema, node Node) (*Forecast, error) {
	if node.Teachers < 1 || node.Teachers > s.Teachers {
		return nil, fmt.Errorf("a node with %d teachers in a run of %d; it must host at least one and at "+
			"most all of them", node.Teachers, s.Teachers)
	}
	budget := s.Privacy.Budget(p.Filter())
	f := &Forecast{
		Run: s.Name, Pipeline: s.Pipeline, Epsilon: budget.Epsilon, Delta: budget.Delta, Unit: s.Privacy.Unit,
		Overlap: budget.Overlap, Teachers: s.Teachers, Rounds: p.Rounds, Queries: p.Queries,
		First:   len(p.First()) > 0,
		Planned: p.Filter() == privacy.FilterPLD,
	}
	if p.Start != nil {
		f.Embedding = p.Start.Entries
	}
	all, err := f.addAnswers(p, budget)
	if err != nil {
		return nil, err
	}
	f.Events = append(p.Others(), all...)
	if f.Claim, err = privacy.Account(f.Events, budget.Delta); err != nil {
		return nil, err
	}
	if f.Telling, err = meaning.Tell(f.Events, budget.Epsilon, budget.Delta); err != nil {
		return nil, err
	}
	f.Strength, f.Warnings = s.Privacy.Protection().Strength(), s.Warnings(schema)
	if f.FilterEpsilon, err = budget.Filter.Epsilon(f.Events, budget.Delta); err != nil {
		return nil, err
	}
	for _, share := range p.Shares {
		f.Shares = append(f.Shares, SharePrice{share.Field, share.Alone(budget).Epsilon})
	}
	l := s.Training(schema).Largest(p, node.Teachers)
	if l.AnswerClasses > 0 && len(all) > 0 {
		if f.Unanimous, err = pate.TeachersToSurvive(all[0], l.AnswerClasses, survival); err != nil {
			return nil, err
		}
	}
	g, err := s.Group(schema)
	if err != nil {
		return nil, err
	}
	f.addMessages(s, schema, p, node, l, g)
	return f, f.addMasked(g)
}

// addAnswers adds how many queries the budget admits after round 0, and returns the cost of the planned ones.
func (f *Forecast) addAnswers(p *plan.Plan, budget privacy.Budget) ([]privacy.Event, error) {
	if p.Rounds == 0 {
		return nil, nil // round 0 is all that is asked
	}
	admitted := p.Releases(p.Queries) // a plan is admitted as a whole
	if !p.Sampled() {
		var err error
		if admitted, err = budget.Admits(p.Others(), p.Training.Worst(1)[0]); err != nil {
			return nil, err
		}
	}
	if f.Admitted = admitted; p.Sums() {
		f.Admitted *= int64(p.PerRound)
	}
	return p.Training.Worst(min(p.Releases(p.Queries), admitted)), nil
}

func (f *Forecast) addMessages(
	s *runfile.Spec, schema *partition.Schema, p *plan.Plan, node Node, l pipeline.Largest, g *masking.Group,
) {
	const digest = 64 // characters of a SHA-256
	hello := &conclavev1.Hello{
		Protocol: 5, Dataset: node.Dataset, Site: node.Site, Node: node.Node, Teachers: uint32(node.Teachers),
		SchemaSha256: schema.SHA256, Unit: s.Privacy.Unit, Manifest: string(make([]byte, digest)),
	}
	// the largest that are accepted
	sum := &conclavev1.Sum{Run: s.Name, Values: slices.Repeat([]int64{1 << 53}, p.Classes)}
	first := Message{"class counts",
		fmt.Sprintf("%d numbers: the number of units of each class at the site; the aggregator sees them, and "+
			"releases only their noisy sum", p.Classes),
		1, proto.Size(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: sum}, Attempt: math.MaxUint32})}
	if p.Start != nil {
		l := largestStart(s, schema, p)
		first = Message{l.AnswerName, l.AnswerContent, 1, proto.Size(l.Answer)}
		f.Arriving = []Message{{"first round", l.RoundContent, 1, proto.Size(l.Round)}}
	}
	f.Leaving = []Message{
		{"hello", "names of dataset, site and node, number of teachers, hash of the schema, keyed fingerprint of the " +
			"partition manifest; once per connection",
			1, proto.Size(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: hello}})},
		{"permit", "that the site currently permits the run; once per connection", 1,
			proto.Size(&conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Permitted{
				Permitted: &conclavev1.Permitted{Run: s.Name, Key: largestKey(node.Site, g)},
			}})},
	}
	if len(p.First()) > 0 {
		f.Leaving = append(f.Leaving, first)
	}
	if p.Rounds > 0 {
		f.Leaving = append(f.Leaving, Message{l.AnswerName, l.AnswerContent, p.Rounds, proto.Size(l.Answer)})
		f.Arriving = append(f.Arriving, Message{"round", l.RoundContent, p.Rounds, proto.Size(l.Round)})
	}
	for _, stage := range pipelines.Stages {
		if stage.Messages == nil {
			continue
		}
		for _, m := range stage.Messages(s.Sections[stage.Name], s.Followed(schema), p.Stages) {
			size := proto.Size(pipeline.LargestSum(s.Name, math.MaxUint32, m.Numbers, m.Largest))
			f.Leaving = append(f.Leaving, Message{m.AnswerName, m.AnswerContent, m.Times, size})
			f.Arriving = append(f.Arriving, Message{Name: m.Asked, Content: m.AskedContent})
		}
	}
	f.Leaving = append(f.Leaving,
		Message{"refusal", "why a round is not answered, in words without data; only if there is a problem", 0,
			0})
}

// starting is a training whose student itself asks for its planned start.
type starting interface {
	LargestStart(p *plan.Plan) pipeline.Largest
}

// largestStart returns the largest messages of the start that replaces the class shares.
func largestStart(s *runfile.Spec, schema *partition.Schema, p *plan.Plan) pipeline.Largest {
	if own, ok := s.Training(schema).(starting); ok {
		return own.LargestStart(p)
	}
	of := startOf(s)
	return of.Warm.Largest(s.Sections[of.Name], s.Problem(schema), p.Start)
}
