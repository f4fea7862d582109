package relabel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/labels"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/strokes"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

const name = "relabel"

// Stage registers relabelling.
var Stage = pipeline.Stage{
	Name: name, Options: pipeline.Defaults(DefaultOptions), Follows: "relabel labels what is left",
	Asks: []pipeline.StageQuestion{
		{Stage: name, Kind: strokes.Sum.Name, Says: says}, {Stage: name, Kind: labels.Sum.Name, Says: says},
	},
	Kinds: []question.Kind{strokes.Sum, labels.Sum},
	Check: check, Share: share, Price: price, Messages: messages, Apply: apply,
}

// Options are the section `relabel:` of a run.yaml. This section configures `post: [relabel]`, for data with a label;
// see docs/relabel.md.
type Options struct {
	// Share is the part of epsilon that the new labels may cost by themselves. With 0.7 each, training and labels
	// together cost about what one costs with the whole epsilon. 0 takes 0.7 for images, 0.5 for tables of 400 columns
	// or more, and 0.3 for others.
	Share float64 `yaml:"share"`
	// Directions is how many directions among the strokes of images their labels follow from. More tell more classes
	// apart, with more noise, and take time with their square: 200 take 22,000 numbers.
	Directions int `yaml:"directions"`
	// Rounds is how often the student asks for a step toward the rule of a table. More come nearer to it, with more
	// noise in each.
	Rounds int `yaml:"rounds"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options { return Options{Directions: 200, Rounds: 10} }

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks(name)
	c.Check(o.Share >= 0 && o.Share < 1, "share: %v is not a share of the budget, from 0 and below 1", o.Share)
	c.Between("directions", float64(o.Directions), 1, strokes.MostDirections)
	c.Between("rounds", float64(o.Rounds), 1, mostRounds)
	return c.Err()
}

// TakeAll gives the stage all of the budget, for a run of its own.
func (o *Options) TakeAll() { o.Share = 1 }

func says(releases int, numbers int64) string {
	often := ""
	if releases > 1 {
		often = fmt.Sprintf("%d times ", releases)
	}
	return fmt.Sprintf("After the training %s%s about the labels of records were released with noise; the labels of "+
		"the rows follow from them.", often, text.Several(numbers, "number"))
}

func follows(f pipeline.Followed) bool { return slices.Contains(f.Post, name) }

// check reports what the schema does not allow.
func check(o pipeline.Options, f pipeline.Followed) []error {
	if !follows(f) {
		return nil
	}
	if len(f.Schema.Classes()) < 2 {
		return []error{errors.New("post: relabel: the schema has no label of several classes; leave the stage out")}
	}
	if f.Schema.Image == nil {
		if n := weights(f.Schema); n > labels.MostEntries {
			return []error{fmt.Errorf("post: relabel: the classes and columns of the schema need %d weights, and %d "+
				"is the most; leave the stage out", n, labels.MostEntries)}
		}
		return nil
	}
	if err := strokes.Check(f.Schema.Image); err != nil {
		return []error{fmt.Errorf("post: relabel: %w; leave the stage out", err)}
	}
	if _, err := some(o.(*Options), f.Schema); err != nil {
		return []error{fmt.Errorf("relabel.directions: %w", err)}
	}
	return nil
}

// weights is the number of weights of a table's rule.
func weights(s *partition.Schema) int {
	e := encode.New(s)
	return len(s.Classes()) * (e.Width() + len(e.Numbers()))
}

// some returns placeholder directions in the configured number, to know the size of the sum in advance.
func some(o *Options, s *partition.Schema) (*strokes.Directions, error) {
	count := strokes.Count(*s.Image)
	return strokes.NewDirections(s.Image, len(s.Classes()), make([]float32, count),
		make([]float32, count*min(o.Directions, count)))
}

func share(o pipeline.Options, f pipeline.Followed) plan.Share {
	if !follows(f) {
		return plan.Share{}
	}
	byData := 0.7 // images
	switch {
	case f.Schema == nil || f.Schema.Image != nil:
	case len(f.Schema.Columns) > labels.ManyColumns: // beside the label
		byData = 0.5
	default:
		byData = 0.3
	}
	return plan.Share{Field: "relabel.share", Value: cmp.Or(o.(*Options).Share, byData)}
}

// price plans the one sum of images, or the rounds of a table.
func price(o pipeline.Options, f pipeline.Followed, budget privacy.Budget) (plan.Stages, error) {
	share := share(o, f)
	if share.Value == 0 {
		return nil, nil
	}
	kind, count := strokes.Sum.Name, 1
	if f.Schema.Image == nil {
		kind, count = labels.Sum.Name, o.(*Options).Rounds
	}
	sigma, err := privacy.GaussianSigma(share.Alone(budget), int64(count), nil)
	if err == nil && boundOf(sigma) < leastBound {
		err = fmt.Errorf("a noise multiplier of %.4g is needed, and %.4g is the most that is drawn", sigma,
			plan.MostSigma/float64(leastBound))
	}
	if err != nil {
		return nil, fmt.Errorf("%s for the labels: %w", share.Of(budget), err)
	}
	return plan.Stages{{
		Kind: kind, Stage: name, Count: int64(count),
		Mechanism: budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma}),
	}}, nil
}

// The fixed-point units of a sum.
const (
	leastBound = 1 << 12
	mostBound  = 1 << 20
	// mostRounds bounds the rounds of a table.
	mostRounds = 1000
)

func boundOf(sigma float64) int64 { return plan.FinestBound(sigma, mostBound) }

// messages are the messages of the sum, or of all rounds.
func messages(o pipeline.Options, f pipeline.Followed, p plan.Stages) []pipeline.StageMessages {
	planned, ok := p.Of(name)
	if !ok || f.Schema == nil {
		return nil
	}
	m := pipeline.StageMessages{
		Times: int(planned.Count), Largest: partition.MostStreamed * boundOf(planned.Mechanism.Sigma),
	}
	if f.Schema.Image == nil {
		m.AnswerName, m.Numbers = "labels", weights(f.Schema)
		m.AnswerContent = fmt.Sprintf("%d numbers: in which direction a rule for the label becomes better on "+
			"the site's records; the aggregator sees them, and releases their sum over all sites with noise only",
			m.Numbers)
		m.Asked, m.AskedContent = "rule", "the rule so far; it follows from releases only"
		return []pipeline.StageMessages{m}
	}
	d, err := some(o.(*Options), f.Schema)
	if err != nil {
		return nil // check refuses these cases
	}
	m.AnswerName, m.Numbers = "strokes", d.Entries()
	m.AnswerContent = fmt.Sprintf("%d numbers: how much the images of the site vary in each of %d directions and "+
		"in pairs of them, and their means by class; the aggregator sees them, and releases their sum over all sites "+
		"with noise only", d.Entries(), d.Width()-1)
	m.Asked, m.AskedContent = "directions", "directions in which generated images vary; nobody's data"
	return []pipeline.StageMessages{m}
}
