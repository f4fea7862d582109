package aggregator

import (
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/relay"
)

// mostBundle is the largest plain zip file, in bytes.
const mostBundle = 4<<30 - 1

// FetchConfig bounds the transfer of bundles of finished runs, from workers to the students that submitted the runs.
type FetchConfig struct {
	// MaxBytes is the size that a bundle may have. Default 1 GiB. Nothing of it is kept: more take longer.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxAtOnce is the number of simultaneous transfers, each with some 1 MiB of memory. Default 16.
	MaxAtOnce int `yaml:"max_at_once"`
	// Patience is how long a worker may be silent, or the recipient may read nothing. Default 1m.
	Patience time.Duration `yaml:"patience"`
}

func (c FetchConfig) limits() relay.Limits {
	return relay.Limits{MostBytes: c.MaxBytes, MostAtOnce: c.MaxAtOnce, Patience: c.Patience}
}

func (c FetchConfig) validate() error {
	var errs []error
	if c.MaxBytes < 1 || c.MaxBytes > mostBundle {
		errs = append(errs, fmt.Errorf("fetch.max_bytes %d must be 1 to %d", c.MaxBytes, int64(mostBundle)))
	}
	if c.MaxAtOnce < 1 {
		errs = append(errs, fmt.Errorf("fetch.max_at_once %d must be at least 1", c.MaxAtOnce))
	}
	if c.Patience < time.Second || c.Patience > time.Hour {
		errs = append(errs, fmt.Errorf("fetch.patience %v must be 1s to 1h", c.Patience))
	}
	return errors.Join(errs...)
}
