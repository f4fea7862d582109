package run

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
)

// before returns the rows as they would be without the stages, and between them, as many as a picture shows.
// They are samples of a release and cost nothing. unweighted are the rows after the last stage, sources those
// of earlier stages.
func (j *Job) before(ctx context.Context, sources []pipeline.Source, session *pipeline.Session,
	unweighted *partition.Table) ([]results.Snapshot, error) {
	s := j.Spec
	if j.Schema.Image != nil {
		return nil, nil
	}
	n := min(s.Release.Rows, picture.MaxPoints)
	table, err := session.Model.Sample(n, nil, rand.New(rand.NewPCG(s.Seed, 0xda7a)))
	if err != nil {
		return nil, err
	}
	list := []results.Snapshot{{Name: results.LastGenerator, Rows: table}}
	for i := 1; i+1 < len(sources); i++ {
		r, _, err := sources[i].Draw(ctx, n)
		if err != nil {
			return nil, err
		}
		if table, err = session.Table(r.X, r.Classes); err != nil {
			return nil, err
		}
		list = append(list, results.Snapshot{Name: "after " + strings.Join(s.Post[:i], " and "), Rows: table})
	}
	if len(s.Post) > 0 && s.Weights != pipeline.NoWeights {
		some := make([]int, n) // drawn rows have no order
		for i := range some {
			some[i] = i
		}
		list = append(list, results.Snapshot{Name: afterPostOf(s), Rows: unweighted.Subset(some)})
	}
	return list, nil
}

// afterPostOf names the rows after all stages except the weights.
func afterPostOf(s *runfile.Spec) string { return "after " + strings.Join(s.Post, " and ") }

func releasedOf(s *runfile.Spec) string {
	if s.Weights == pipeline.NoWeights {
		return afterPostOf(s)
	}
	stage := pipelines.Weighting()
	return stage.Weighted(s.Sections[stage.Name], s.Followed(nil))
}
