package config

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pattern"
)

var namePattern = pattern.Of(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)

// CheckName refuses names that cannot name a dataset, site, node or run. Names are used in paths, certificates and
// ledgers, so all roles accept the same ones.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is not a name; use 1 to 64 small letters, digits, dots and hyphens, with a letter or "+
			"digit at both ends", name)
	}
	return nil
}
