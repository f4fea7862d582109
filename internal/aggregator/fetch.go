package aggregator

import (
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/relay"
)

// mostBundle is the largest plain zip file, in bytes.
const mostBundle = 4<<30 - 1

// FetchConfig bounds the transfer of bundles of finished runs. A bundle goes from the worker to the student that
// submitted the run: see docs/fetching.md#fetching.
type FetchConfig struct {
	// MaxBytes is the largest bundle in bytes. The aggregator keeps nothing of it. The submitter needs as much memory.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxAtOnce is the number of simultaneous transfers, each with some 1 MiB of memory.
	MaxAtOnce int `yaml:"max_at_once"`
	// Patience is how long a worker may be silent, or the submitter may read nothing, before the transfer ends.
	Patience time.Duration `yaml:"patience"`
}

func (c FetchConfig) limits() relay.Limits {
	return relay.Limits{MostBytes: c.MaxBytes, MostAtOnce: c.MaxAtOnce, Patience: c.Patience}
}

func (c FetchConfig) validate() error {
	var errs []error
	if c.MaxBytes < 1 || c.MaxBytes > mostBundle {
		errs = append(errs, fmt.Errorf("fetch.max_bytes: %d is not between 1 and %d", c.MaxBytes, int64(mostBundle)))
	}
	if c.MaxAtOnce < 1 {
		errs = append(errs, fmt.Errorf("fetch.max_at_once: %d is below 1", c.MaxAtOnce))
	}
	if c.Patience < time.Second || c.Patience > time.Hour {
		errs = append(errs, fmt.Errorf("fetch.patience: %v is not between 1s and 1h", c.Patience))
	}
	return errors.Join(errs...)
}
