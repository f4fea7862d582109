// Package reference writes the tables of fields in the pages of configuration files. What they say comes from the
// code: meanings from the comments of structs, defaults from the values that a file without the field gets, and
// bounds from the errors for values outside them. So a page cannot differ from the program.
package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run ./gen ../..

// pages are what is generated, by page and by the name in the page's comments around it.
var pages = []struct {
	file, name string
	make       func(*comments) (string, error)
}{
	{"docs/run-yaml.md", "run.yaml", runYAML},
	{"docs/schema.md", "schema.yaml", schemaYAML("")},
	{"docs/schema.md", "a column", schemaYAML("columns")},
	{"docs/schema.md", "a constraint", schemaYAML("constraints")},
	{"docs/config-aggregator.md", "aggregator.yaml", aggregatorYAML},
	{"docs/config-teacher.md", "teacher.yaml", teacherYAML},
	{"docs/config-student.md", "student.yaml", studentYAML},
	{"docs/config-shared.md", "several roles", sharedYAML},
	{"docs/config-policy.md", "policy.yaml", policyYAML},
	{"docs/config-study.md", "study.yaml", studyYAML},
}

// Update returns the pages of the repository at root, by their paths, with new tables.
func Update(root string) (map[string]string, error) {
	c := &comments{root: root, packages: map[string]map[string]string{}}
	out := map[string]string{}
	for _, p := range pages {
		if _, read := out[p.file]; !read {
			raw, err := os.ReadFile(filepath.Join(root, p.file))
			if err != nil {
				return nil, err
			}
			out[p.file] = string(raw)
		}
		text, err := p.make(c)
		if err == nil {
			out[p.file], err = replace(out[p.file], p.name, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
	}
	return out, nil
}

// replace puts a text between the two comments that name it.
func replace(page, name, text string) (string, error) {
	first := fmt.Sprintf("<!-- fields of %s, written by: go generate ./internal/reference -->\n", name)
	last := fmt.Sprintf("<!-- end of the fields of %s -->\n", name)
	before, rest, ok := strings.Cut(page, first)
	_, after, closed := strings.Cut(rest, last)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no place for the fields of %s; add the lines %q and %q", name, first, last)
	}
	return before + first + "\n" + strings.TrimSpace(text) + "\n\n" + last + after, nil
}
