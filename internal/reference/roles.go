package reference

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/study"
)

// The files of the roles, of a site's policy and of a study.
var (
	aggregatorYAML = configuration(aggregator.DefaultConfig, aggregator.Config.Validate, true)
	teacherYAML    = configuration(node.DefaultConfig, validateDatabase, true)
	studentYAML    = configuration(student.DefaultConfig, validateWorker, true)
	policyYAML     = configuration(func() sitepolicy.Policy { return sitepolicy.Policy{} },
		func(p sitepolicy.Policy) error { return p.Validate() }, false)
	studyYAML = configuration(func() study.Study { return *study.Default() },
		func(s study.Study) error { return s.Validate() }, false)
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

// configuration makes the tables of a file: one for all fields, or if apart is set, one for each part.
func configuration[T any](defaults func() T, validate func(T) error, apart bool) func(*comments) (string, error) {
	return func(c *comments) (string, error) {
		w := &writer{comments: c,
			defaults: func() reflect.Value {
				v := defaults()
				return reflect.ValueOf(&v).Elem()
			},
			validate: func(root reflect.Value) error { return validate(root.Interface().(T)) },
		}
		t, err := w.fields(reflect.TypeFor[T](), start(""), apart)
		if err != nil || !apart {
			return t.String(), err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "## Fields of the process\n\n%s", t)
		for _, below := range t.below {
			write(&b, "##", below)
		}
		return b.String(), nil
	}
}
