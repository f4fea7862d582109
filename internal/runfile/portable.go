package runfile

import (
	"errors"
	"fmt"
)

// CheckPortable refuses what names files of one machine.
func (s *Spec) CheckPortable() error {
	var errs []error
	for _, f := range []struct {
		field, fix string
		set        bool
	}{
		{"data", "the nodes of a cluster bring their data", len(s.Data) > 0},
		{"evaluate.test", "compare afterwards, with conclave report where the real rows are", s.Evaluate.Test != ""},
		{"evaluate.train", "compare afterwards, with conclave report where the real rows are", s.Evaluate.Train != ""},
		{"evaluate.coin_flips", "compare afterwards, with conclave report where the other rows are",
			s.Evaluate.CoinFlips != ""},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("%s: names files of this machine, and a run of the queue is executed on "+
				"another; leave it out: %s", f.field, f.fix))
		}
	}
	return errors.Join(errs...)
}
