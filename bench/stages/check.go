package stages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/run"
)

// Check says which cases are no runs: two of one name, options that a run does not take, or
// no refusal where there should be one. It loads them with the schema that is part of the
// project, so a data set's own, and the budget, may still refuse one.
func (p *Program) Check() (errs []error) {
	dir, err := os.MkdirTemp("", "conclave-"+p.Name+"-")
	if err != nil {
		return []error{err}
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, flchain.Files); err != nil {
		return []error{err}
	}
	seen := map[string]bool{}
	for _, g := range p.Groups {
		for _, c := range g.Cases {
			name := g.Name + ", " + c.Name
			if seen[name] {
				errs = append(errs, fmt.Errorf("%s: there are two", name))
			}
			seen[name] = true
			err := load(dir, text(g, c, "schema.yaml", "train.csv.gz", "test.csv.gz", 1))
			switch {
			case c.Refused == "" && err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			case c.Refused != "" && (err == nil || !strings.Contains(err.Error(), c.Refused)):
				errs = append(errs, fmt.Errorf("%s: want a refusal that says %q, got %v", name, c.Refused, err))
			}
		}
	}
	return errs
}

func load(dir, text string) error {
	file := filepath.Join(dir, "measured.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	spec, err := run.Load(file)
	if err != nil {
		return err
	}
	_, err = spec.LoadSchema()
	return err
}
