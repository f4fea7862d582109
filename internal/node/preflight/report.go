// Package preflight checks, before a node is started, everything that it needs: its configuration, the site's records
// and folders, certificates, the way to the aggregator, the site's policy and the machine. It reports every problem
// and how to fix it.
//
// Begin with [Run]. It changes nothing: it does not join as a node, and it removes the files with which it tests
// permissions.
package preflight

import (
	"errors"
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK         Status = "ok"
	Problem    Status = "problem"     // the node would not start, or would answer nothing
	Warning    Status = "warning"     // it works, or may work, but something should be done
	NotChecked Status = "not checked" // with the reason
)

// Check is one check and its outcome.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Fix is what to do about a problem or a warning.
	Fix string `json:"fix,omitempty"`
}

// Report has all checks, in the order in which a node needs them. It may contain numbers of records, and is only for
// the site.
type Report struct {
	// OK reports whether there is no problem.
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

func (r *Report) add(name string, status Status, fix, format string, args ...any) {
	r.Checks = append(r.Checks, Check{name, status, fmt.Sprintf(format, args...), fix})
	r.OK = r.OK && status != Problem
}

func (r *Report) ok(name, format string, args ...any) { r.add(name, OK, "", format, args...) }

func (r *Report) skip(name, why string) { r.add(name, NotChecked, "", "%s", why) }

// fail adds a problem for each of the errors that err joins.
func (r *Report) fail(name string, err error) { r.each(name, Problem, err) }

func (r *Report) each(name string, status Status, err error) {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) && strings.Contains(err.Error(), "\n") {
		for _, one := range several.Unwrap() {
			r.each(name, status, one)
		}
		return
	}
	detail, fix := split(err)
	r.add(name, status, fix, "%s", detail)
}

// split splits an error's text into the problem and, after a semicolon, the fix.
func split(err error) (detail, fix string) {
	var input *partition.InputError
	if errors.As(err, &input) && input.Advice() != "" {
		return strings.TrimSuffix(err.Error(), "; "+input.Advice()), input.Advice()
	}
	text := err.Error()
	if at := strings.LastIndex(text, "; "); at >= 0 {
		return text[:at], text[at+2:]
	}
	return text, "correct what the line above names"
}
