package requester

import (
	"context"

	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Submit queues the run of a run.yaml on a dataset; with overcommit also a run that would not fit if all runs before
// it spend their whole budgets. The errors are those of [student.Queue.Submit], or describe the file.
func Submit(ctx context.Context, q *student.Queue, dataset, path string, overcommit bool) (
	*conclavev1.SubmitRunResponse, error) {
	submission, job, err := run.NewSubmission(path)
	if err != nil {
		return nil, err
	}
	if err := job.Spec.CheckDataset(dataset); err != nil {
		return nil, err
	}
	return q.Submit(ctx, &conclavev1.SubmitRunRequest{
		Spec:    run.RunSpec(job.Plan, job.Spec, job.Schema, dataset, false),
		RunYaml: submission.RunFile, SchemaYaml: submission.Schema, StudyYaml: submission.Study,
		Overcommit: overcommit,
	})
}
