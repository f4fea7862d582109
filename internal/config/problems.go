package config

import "fmt"

// Problems are what is wrong with a configuration, all of it, so that a person can fix it in one go.
// Join them with errors.Join.
type Problems []error

// Need adds a problem unless ok.
func (p *Problems) Need(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}
