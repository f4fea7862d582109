package service

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/queue"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxPath bounds the path of a worker's file.
	maxPath = 1024
	// maxFolders bounds the started runs that a worker names.
	maxFolders = 1000
)

// checkSubmission checks a submitted run and returns its spec. It checks only the size of the files, and the schema's
// hash. Workers check the content of run.yaml.
func checkSubmission(q *conclavev1.SubmitRunRequest) (*spec.Spec, error) {
	run, err := spec.New(q.GetSpec())
	if err != nil {
		return nil, err
	}
	name := run.PB.GetName()
	switch {
	case len(q.GetRunYaml()) == 0 || len(q.GetRunYaml()) > coordinator.MaxRunFile:
		return nil, fault.Invalidf("run %q: its run.yaml has %d bytes; it must have 1 to %d",
			name, len(q.GetRunYaml()), coordinator.MaxRunFile)
	case !utf8.Valid(q.GetRunYaml()):
		return nil, fault.Invalidf("run %q: its run.yaml is not UTF-8", name)
	case len(q.GetSchemaYaml()) == 0 || len(q.GetSchemaYaml()) > coordinator.MaxSchemaFile:
		return nil, fault.Invalidf("run %q: its schema has %d bytes; it must have 1 to %d",
			name, len(q.GetSchemaYaml()), coordinator.MaxSchemaFile)
	case run.PB.GetCoinVotes():
		return nil, fault.Refusedf("run %q uses coin votes, which are for local runs only; the queue does not accept "+
			"it", name)
	}
	// Before a worker parses it. The schema equals the dataset's, byte by byte.
	if err := config.CheckYAML(q.GetRunYaml(), coordinator.MaxRunFile); err != nil {
		return nil, fault.Invalidf("run %q: its run.yaml: %w", name, err)
	}
	if sum := sha256.Sum256(q.GetSchemaYaml()); hex.EncodeToString(sum[:]) != run.PB.GetSchemaSha256() {
		return nil, fault.Invalidf("run %q: the submitted schema does not match the hash in its spec", name)
	}
	return run, checkStudyFile(run, q.GetStudyYaml())
}

// checkStudyFile refuses a document that differs from the one named in the run's spec.
func checkStudyFile(run *spec.Spec, file []byte) error {
	name := run.PB.GetName()
	switch {
	case run.Study == nil && len(file) > 0:
		return fault.Invalidf("run %q was submitted with a study, and its spec has none", name)
	case run.Study == nil:
		return nil
	case len(file) > coordinator.MaxStudyFile:
		return fault.Invalidf("run %q: its study has %d bytes; the maximum is %d", name, len(file),
			coordinator.MaxStudyFile)
	case study.Hash(file) != run.Study.SHA256:
		return fault.Invalidf("run %q: the submitted study does not match the hash in its spec", name)
	}
	// Before a worker parses it.
	if err := config.CheckYAML(file, coordinator.MaxStudyFile); err != nil {
		return fault.Invalidf("run %q: its study: %w", name, err)
	}
	of, err := study.Parse(file)
	if err != nil {
		return fault.Invalidf("run %q: its study: %w", name, err)
	}
	if block, err := of.Block(file); err != nil || !block.Is(run.Study) {
		return fault.Invalidf("run %q: its spec and the submitted study differ", name)
	}
	return nil
}

// queued converts a student's submission to a queued run, with its spec and the spec's bytes.
func queued(student string, q *conclavev1.SubmitRunRequest, run *spec.Spec, raw []byte) queue.Submission {
	sum := sha256.Sum256(q.GetRunYaml())
	return queue.Submission{
		Record: coordinator.Submission{
			Name: run.PB.GetName(), Dataset: run.PB.GetDataset(), Pipeline: run.PB.GetPipeline(),
			Spec: raw, Budget: run.Budget, Plan: run.Plan, By: student, RunFile: hex.EncodeToString(sum[:]),
		},
		Files: coordinator.Files{Run: q.GetRunYaml(), Schema: q.GetSchemaYaml(), Study: q.GetStudyYaml()},
		Study: run.Study, Teachers: run.PB.GetTeachers(), Overcommit: q.GetOvercommit(),
	}
}

func checkWorker(w *conclavev1.Worker) error {
	if w == nil {
		return fault.Invalidf("the first message of a worker must contain its name")
	}
	if err := spec.CheckName("worker", w.GetName()); err != nil {
		return err
	}
	if (w.GetRun() == "") != (w.GetClaim() == "") {
		return fault.Invalidf("worker %q sent a run without a claim, or a claim without a run", w.GetName())
	}
	if len(w.GetFolders()) > maxFolders {
		return fault.Invalidf("worker %q lists %d runs that it has started; the maximum is %d",
			w.GetName(), len(w.GetFolders()), maxFolders)
	}
	if w.GetProcess() != "" {
		if err := spec.CheckName("process", w.GetProcess()); err != nil {
			return err
		}
	}
	// The message stays in memory as long as the worker waits.
	for _, folder := range w.GetFolders() {
		if err := spec.CheckName("run", folder); err != nil {
			return err
		}
	}
	if w.GetRun() != "" {
		if err := spec.CheckName("run", w.GetRun()); err != nil {
			return err
		}
	}
	return nil
}

func endOf(q *conclavev1.FinishRunRequest) (coordinator.End, error) {
	end := coordinator.End{Claim: q.GetClaim()}
	if q.GetReason() != "" {
		end.Reason = fault.Clean(q.GetReason())
	}
	if end.Claim == "" {
		return end, fault.Invalidf("run %q was reported as finished without a claim", fault.Printable(q.GetRun()))
	}
	switch q.GetState() {
	case conclavev1.RunState_RUN_STATE_DONE:
		end.State = coordinator.Done
	case conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET:
		end.State = coordinator.OutOfBudget
	case conclavev1.RunState_RUN_STATE_FAILED:
		end.State = coordinator.Failed
	default:
		return end, fault.Invalidf("run %q was reported as %v; use done, out of budget or failed",
			fault.Printable(q.GetRun()), q.GetState())
	}
	for _, r := range q.GetResults() {
		sum, err := hex.DecodeString(r.GetSha256())
		if err != nil || len(sum) != 32 || len(r.GetName()) > fault.MaxReason || len(r.GetPath()) > maxPath ||
			r.GetName() == "" {
			return end, fault.Invalidf("run %q has a result without a name, a path or a SHA-256",
				fault.Printable(q.GetRun()))
		}
		end.Results = append(end.Results, coordinator.Result{
			Name: fault.Clean(r.GetName()), Path: fault.Clean(r.GetPath()), SHA256: r.GetSha256(),
		})
	}
	return end, nil
}
