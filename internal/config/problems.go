package config

import "fmt"

// Problems are all faults of a configuration, so that a person can fix them in one go. Join them with errors.Join.
type Problems []error

// Need adds a problem unless ok.
func (p *Problems) Need(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}
