package pgb

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

func follows(f pipeline.Followed) bool { return slices.Contains(f.Post, name) }

// validate reports what does not go with the rest of the run.
func validate(of pipeline.Options, f pipeline.Followed) (errs []error) {
	o := of.(*StageOptions)
	if !follows(f) {
		return nil
	}
	if !o.Private && f.Private {
		errs = append(errs, errors.New("pgb.private: false is NOT PRIVATE, and the release is marked private; set "+
			"release.private: false for a comparison, or leave pgb.private out"))
	}
	if !o.Private && !f.Real {
		errs = append(errs, errors.New("pgb.private: false takes the real rows of evaluate.train; name them"))
	}
	if n := candidatesOf(o, f.Rows); n < f.Rows {
		errs = append(errs, fmt.Errorf("pgb.candidates: %d are fewer than release.rows %d, and rows would be there "+
			"several times; raise it, or use 0 to have it chosen", n, f.Rows))
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
		errs = append(errs, errors.New("pgb.private: false is for tables, whose real rows it takes; leave it out"))
	}
	if n := f.ScoredWeights; 4*n*f.Kept > maxScoredBytes {
		errs = append(errs, fmt.Errorf("post: pgb: %d discriminators of %d weights take %d MiB, and %d MiB is the "+
			"most that is sent; lower %s.student.keep", f.Kept, n, 4*n*f.Kept>>20, maxScoredBytes>>20, f.Pipeline))
	}
	return errs
}
