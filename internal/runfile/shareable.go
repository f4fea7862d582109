package runfile

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
)

// private are the fields of a run.yaml that name files of a site.
var private = []string{"data", "evaluate", "schema", "study"}

// Shareable returns the text of a run.yaml for others, without the fields that name files of a site. It has no
// comments, since these may say anything.
func Shareable(text string) (string, error) {
	var fields yaml.MapSlice
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return "", fmt.Errorf("the run's configuration: %w", err)
	}
	fields = slices.DeleteFunc(fields, func(f yaml.MapItem) bool {
		name, _ := f.Key.(string)
		return slices.Contains(private, name)
	})
	raw, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("the run's configuration: %w", err)
	}
	return string(raw), nil
}
