package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/partition"
)

// The names of pictures of rows that more than one report has.
const (
	lastGenerator = "last generator"
	realTest      = "real test rows"
)

// snapshot is what rows were at a point of the run.
type snapshot struct {
	name string
	rows *partition.Table
}

// before are the rows as they would be without the stages and as they were between them, as
// many as a picture shows: samples of what is released, which costs nothing. unweighted are
// those after the last stage, sources those of the stages before.
func (j *Job) before(ctx context.Context, sources []pipeline.Source, model *pipeline.Model, unweighted *partition.Table) ([]snapshot, error) {
	s := j.Spec
	if model.Schema.Image != nil {
		return nil, nil
	}
	n := min(s.Release.Rows, picture.MaxPoints)
	table, err := model.Sample(n, pipeline.AnyClass, rand.New(rand.NewPCG(s.Seed, 0xda7a)))
	if err != nil {
		return nil, err
	}
	list := []snapshot{{lastGenerator, table}}
	for i := 1; i+1 < len(sources); i++ {
		r, _, err := sources[i].Draw(ctx, n)
		if err != nil {
			return nil, err
		}
		if table, err = model.Table(r.X, r.Classes); err != nil {
			return nil, err
		}
		list = append(list, snapshot{"after " + strings.Join(s.Post[:i], " and "), table})
	}
	if len(s.Post) > 0 && s.Weights != weightsNone {
		some := make([]int, n) // they stand in no order
		for i := range some {
			some[i] = i
		}
		list = append(list, snapshot{s.afterPost(), unweighted.Subset(some)})
	}
	return list, nil
}

// afterPost names the rows after all stages but the weights.
func (s *Spec) afterPost() string { return "after " + strings.Join(s.Post, " and ") }

// released names the rows of the release.
func (s *Spec) released() string {
	switch {
	case s.Weights == iw.None:
		return s.afterPost()
	case Section[iw.Options](s).Use == "resample":
		return fmt.Sprintf("drawn by weight (%s)", s.Weights)
	}
	return fmt.Sprintf("weighted (%s)", s.Weights)
}

// panels are the report's pictures of rows: real test rows where there are any, which are
// NOT PRIVATE, the rows before, and the release. Without stages there is none.
func panels(before []snapshot, released snapshot, test *partition.Table) []picture.Panel {
	if len(before) == 0 {
		return nil
	}
	var list []picture.Panel
	if test != nil {
		if p := picture.NewPanel(realTest, test, true); p != nil {
			list = append(list, *p)
		}
	}
	for _, s := range append(before, released) {
		if p := picture.NewPanel(s.name, s.rows, false); p != nil {
			list = append(list, *p)
		}
	}
	return list
}

// panels are the pictures of rows of the earlier report, where it had any, as far as they can
// be had again: rows between two stages are kept nowhere.
func (f *finished) panels(dir string, test *partition.Table) ([]picture.Panel, error) {
	earlier := f.earlier.Points
	if len(earlier) == 0 {
		return nil, nil
	}
	model, err := pipeline.LoadModel(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a report needs no model
	}
	if err != nil {
		return nil, err
	}
	table, err := model.Sample(min(f.synthetic.Len(), picture.MaxPoints), pipeline.AnyClass, rand.New(rand.NewPCG(0, 0xda7a)))
	if err != nil {
		return nil, err
	}
	return panels([]snapshot{{lastGenerator, table}}, snapshot{earlier[len(earlier)-1].Name, f.synthetic}, test), nil
}
