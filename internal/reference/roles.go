package reference

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/study"
)

// sharedParts are the parts that files of several roles have alike. They are on one page.
var sharedParts = []string{"tls", "http", "traces", "log"}

// The files of the roles, their shared parts, a site's policy and a study.
var (
	aggregatorYAML = configuration(aggregator.DefaultConfig, aggregator.Config.Validate, ownParts)
	teacherYAML    = configuration(node.DefaultConfig, validateDatabase, ownParts)
	studentYAML    = configuration(student.DefaultConfig, validateWorker, ownParts)
	sharedYAML     = configuration(aggregator.DefaultConfig, aggregator.Config.Validate, shared)
	policyYAML     = configuration(func() sitepolicy.Policy { return sitepolicy.Policy{} },
		func(p sitepolicy.Policy) error { return p.Validate() }, oneTable)
	studyYAML = configuration(func() study.Study { return *study.Default() },
		func(s study.Study) error { return s.Validate() }, oneTable)
)

// validateDatabase also checks the fields of a node that reads a database.
func validateDatabase(c node.Config) error {
	c.SQL.Pushdown = true
	return c.Validate()
}

// validateWorker also checks the fields that only a worker has.
func validateWorker(c student.Config) error {
	c.Queue = true
	return c.Validate()
}

// layout says which tables of a file are written.
type layout int

const (
	oneTable layout = iota // one table for all fields
	ownParts               // one for each part, without the shared ones
	shared                 // only the shared parts
)

// configuration makes the tables of a file.
func configuration[T any](defaults func() T, validate func(T) error, how layout) func(*comments) (string, error) {
	return func(c *comments) (string, error) {
		w := &writer{comments: c,
			defaults: func() reflect.Value {
				v := defaults()
				return reflect.ValueOf(&v).Elem()
			},
			validate: func(root reflect.Value) error { return validate(root.Interface().(T)) },
		}
		t, err := w.fields(reflect.TypeFor[T](), start(""), how != oneTable)
		if err != nil || how == oneTable {
			return t.String(), err
		}
		var b strings.Builder
		if how == ownParts {
			fmt.Fprintf(&b, "## Fields of the process\n\n%s", t)
		}
		for _, below := range t.below {
			if slices.Contains(sharedParts, below.path) == (how == shared) {
				write(&b, "##", below)
			}
		}
		return b.String(), nil
	}
}
