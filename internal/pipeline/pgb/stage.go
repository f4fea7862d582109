package pgb

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/runspec"
)

const name = "pgb"

// Stage registers boosting.
var Stage = pipeline.Stage{
	Name: name, Options: pipeline.Defaults(DefaultStage),
	Asks:           []pipeline.StageQuestion{{Stage: runspec.Selections, Kind: runspec.Scores, Says: says}},
	Kinds:          []question.Kind{ScoreSum},
	Discriminators: follows, Validate: validate, Check: check, Share: share, Price: price, Messages: messages,
	Apply: boost,
}

func says(selections int, entries int64) string {
	if entries > 0 {
		return fmt.Sprintf("After the training, the scores of %d stored discriminators on the real rows were "+
			"released with noise; the selections follow from these scores.", entries)
	}
	were := "were"
	if selections == 1 {
		were = "was"
	}
	return fmt.Sprintf("After the training, %s of one of the stored discriminators %s made at random; discriminators "+
		"that distinguish synthetic from real rows better are more "+
		"likely.", text.Several(selections, "selection"), were)
}

// StageOptions are the section `pgb:` of a run.yaml. This section configures `post: [pgb]`; see docs/boosting.md. The
// cost comes from the run's epsilon. `share` buys the selections by themselves; joint accounting leaves the training a
// little more than the rest. The number of discriminators is `pategan.student.keep` or `dpgan.student.keep`.
type StageOptions struct {
	Options `yaml:",inline"`
	// Share is the part of epsilon that all selections may cost by themselves. More selects better and leaves less for
	// the training. The default is that of the paper's authors.
	Share float64 `yaml:"share"`
	// Candidates is the number of generated records that are weighted, drawn from all stored generators and the last
	// average. More give a better choice and take memory, a number for each candidate and discriminator. 0 takes five
	// times `release.rows`, at least 10000.
	Candidates int `yaml:"candidates"`
	// Records is the **public** number of privacy units at all sites; do not count it in the data. 0 takes the sum of
	// the class counts, which were paid for.
	Records int `yaml:"records"`
	// Complements adds the opposite of each discriminator, at no cost. Records then come to score as real ones do,
	// and not higher. `false` follows the paper.
	Complements bool `yaml:"complements"`
	// Private is whether selections are random. `false` takes the best discriminator by the rows of `evaluate.train`,
	// for comparison. The result is NOT PRIVATE and needs `release.private: false`.
	Private bool `yaml:"private"`
}

// DefaultStage returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultStage() StageOptions {
	return StageOptions{Options: DefaultOptions(), Share: 0.2, Complements: true, Private: true}
}

// Validate reports every option that cannot work.
func (o StageOptions) Validate() error {
	c := pipeline.NewChecks(name)
	c.Check(o.Share > 0 && o.Share < 1, "share: %v is not a share of the budget, above 0 and below 1", o.Share)
	c.Check(o.Candidates >= 0 && o.Candidates <= pipeline.MostCandidates, "candidates: %d is not between 0 (chosen) "+
		"and %d",
		o.Candidates, pipeline.MostCandidates)
	c.Check(o.Records >= 0 && o.Records <= pipeline.MostUnits, "records: %d is not between 0 (of the class counts) "+
		"and %d",
		o.Records, pipeline.MostUnits)
	return errors.Join(o.Options.Validate(), c.Err())
}

// TakeAll gives the stage all of the budget, for a run of its own.
func (o *StageOptions) TakeAll() { o.Share = 1 }

func follows(f pipeline.Followed) bool { return slices.Contains(f.Post, name) }

// validate reports conflicts with the rest of the run.
func validate(of pipeline.Options, f pipeline.Followed) (errs []error) {
	o := of.(*StageOptions)
	if !follows(f) {
		return nil
	}
	if !o.Private && f.Private {
		errs = append(errs, errors.New("pgb.private: false is NOT PRIVATE, but the release is marked private; set "+
			"release.private: false for a comparison, or leave out pgb.private"))
	}
	if !o.Private && !f.Real {
		errs = append(errs, errors.New("pgb.private: false needs the real rows of evaluate.train; set it"))
	}
	if n := candidatesOf(o, f.Rows); n < f.Rows {
		errs = append(errs, fmt.Errorf("pgb.candidates: %d are fewer than release.rows %d, and rows would be "+
			"repeated; raise it, or use 0 to have it chosen", n, f.Rows))
	}
	return errs
}

// maxScoredBytes is the largest question for scores that aggregators take.
const maxScoredBytes = 60 << 20

// check reports what the schema does not allow.
func check(of pipeline.Options, f pipeline.Followed) (errs []error) {
	if !follows(f) {
		return nil
	}
	if f.Schema.Image != nil && !of.(*StageOptions).Private {
		errs = append(errs, errors.New("pgb.private: false is for tables only; leave it out"))
	}
	if n := f.ScoredWeights; 4*n*f.Kept > maxScoredBytes {
		errs = append(errs, fmt.Errorf("post: pgb: %d discriminators of %d weights need %d MiB, and the maximum is "+
			"%d MiB; lower %s.student.keep", f.Kept, n, 4*n*f.Kept>>20, maxScoredBytes>>20, f.Pipeline))
	}
	return errs
}
