package relabel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/strokes"
	"github.com/conclave-dp/conclave/partition"
)

const name = "relabel"

// Stage registers relabelling.
var Stage = pipeline.Stage{
	Name: name, Options: pipeline.Defaults(DefaultOptions), Follows: "relabel labels what is left",
	Asks:  []pipeline.StageQuestion{{Stage: name, Kind: strokes.Sum.Name, Says: says}},
	Kinds: []question.Kind{strokes.Sum},
	Check: check, Share: share, Price: price, Messages: messages, Apply: apply,
}

// Options are the section `relabel:` of a run.yaml. This section configures `post: [relabel]`, for images with a
// label; see docs/relabel.md.
type Options struct {
	// Share is the part of epsilon that the new labels may cost by themselves. With 0.7 each, training and labels
	// together cost about what one costs with the whole epsilon.
	Share float64 `yaml:"share"`
	// Directions is how many directions among the strokes of images the labels follow from. More tell more classes
	// apart, with more noise, and take time with their square: 200 take 22,000 numbers.
	Directions int `yaml:"directions"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options { return Options{Share: 0.7, Directions: 200} }

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks(name)
	c.Check(o.Share > 0 && o.Share < 1, "share: %v is not a share of the budget, above 0 and below 1", o.Share)
	c.Between("directions", float64(o.Directions), 1, strokes.MostDirections)
	return c.Err()
}

// TakeAll gives the stage all of the budget, for a run of its own.
func (o *Options) TakeAll() { o.Share = 1 }

func says(_ int, numbers int64) string {
	return fmt.Sprintf("After the training %s about the strokes of images were released with noise; the labels of the "+
		"images follow from them.", text.Several(numbers, "number"))
}

func follows(f pipeline.Followed) bool { return slices.Contains(f.Post, name) }

// check reports what the schema does not allow.
func check(o pipeline.Options, f pipeline.Followed) []error {
	if !follows(f) {
		return nil
	}
	if err := strokes.Check(f.Schema.Image); err != nil {
		return []error{fmt.Errorf("post: relabel: %w; leave the stage out", err)}
	}
	if len(f.Schema.Classes()) < 2 {
		return []error{errors.New("post: relabel: the schema has no label of several classes; leave the stage out")}
	}
	if _, err := some(o.(*Options), f.Schema); err != nil {
		return []error{fmt.Errorf("relabel.directions: %w", err)}
	}
	return nil
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
	return plan.Share{Field: "relabel.share", Value: o.(*Options).Share}
}

// price plans the one sum.
func price(o pipeline.Options, f pipeline.Followed, budget privacy.Budget) (plan.Stages, error) {
	share := share(o, f)
	if share.Value == 0 {
		return nil, nil
	}
	sigma, err := privacy.GaussianSigma(share.Alone(budget), 1, nil)
	if err == nil && boundOf(sigma) < leastBound {
		err = fmt.Errorf("a noise multiplier of %.4g is needed, and %.4g is the most that is drawn", sigma,
			plan.MostSigma/float64(leastBound))
	}
	if err != nil {
		return nil, fmt.Errorf("%s for the labels: %w", share.Of(budget), err)
	}
	return plan.Stages{{
		Kind: strokes.Sum.Name, Stage: name, Count: 1,
		Mechanism: budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma}),
	}}, nil
}

// The fixed-point units of a sum.
const (
	leastBound = 1 << 12
	mostBound  = 1 << 20
)

func boundOf(sigma float64) int64 { return plan.FinestBound(sigma, mostBound) }

// messages are the messages of the sum.
func messages(o pipeline.Options, f pipeline.Followed, p plan.Stages) []pipeline.StageMessages {
	planned, ok := p.Of(name)
	if !ok || f.Schema == nil || f.Schema.Image == nil {
		return nil
	}
	d, err := some(o.(*Options), f.Schema)
	if err != nil {
		return nil // check refuses these cases
	}
	return []pipeline.StageMessages{{
		AnswerName: "strokes", Times: 1, Numbers: d.Entries(),
		Largest: partition.MostStreamed * boundOf(planned.Mechanism.Sigma),
		AnswerContent: fmt.Sprintf("%d numbers: how much the images of the site vary in each of %d directions and in "+
			"pairs of them, and their means by class; the aggregator sees them, and releases their sum over all sites "+
			"with noise only", d.Entries(), d.Width()-1),
		Asked: "directions", AskedContent: "directions in which generated images vary; nobody's data",
	}}
}
