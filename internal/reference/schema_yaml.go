package reference

import (
	"reflect"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// schemaYAML makes one of the tables of schema.yaml: of the fields below a list, or of those below none. All
// defaults are in the comments, since they depend on other fields.
func schemaYAML(below string) func(*comments) (string, error) {
	return func(c *comments) (string, error) {
		w := &writer{comments: c,
			defaults: func() reflect.Value { return reflect.New(partition.SchemaFile()).Elem() }}
		all, err := w.fields(partition.SchemaFile(), start(""), false)
		if err != nil {
			return "", err
		}
		var t table
		for _, f := range all.fields {
			if list, _, ok := strings.Cut(f.path, "[]."); ok == (below != "") && (!ok || list == below) {
				t.fields = append(t.fields, f)
			}
		}
		return t.String(), nil
	}
}
