package service

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// FuzzSubmission decodes a hostile student's submission from the wire: no input may panic, and an accepted one has
// bounded files and a bounded spec.
func FuzzSubmission(f *testing.F) {
	good, err := proto.Marshal(roundtest.Submission("d", "r"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("\x0a\x00\x12\x01a"))
	record := coordinator.Dataset{Name: "d", SchemaSHA256: roundtest.Schema, Unit: "record"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := new(conclavev1.SubmitRunRequest)
		if proto.Unmarshal(raw, q) != nil {
			return
		}
		run, err := checkSubmission(q)
		if err != nil {
			return
		}
		if len(q.GetRunYaml()) == 0 || len(q.GetRunYaml()) > coordinator.MaxRunFile ||
			len(q.GetSchemaYaml()) > coordinator.MaxSchemaFile ||
			run.Budget.Validate() != nil || spec.CheckName("run", run.PB.GetName()) != nil {
			t.Fatalf("let through: %v", q)
		}
		_ = checkRun(run, record, false)
	})
}

// What a worker sends stays in memory as long as it waits, so names are bounded.
func TestWorkersSayNoMoreThanNames(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		w  *conclavev1.Worker
		ok bool
	}{
		"good":       {&conclavev1.Worker{Name: "w", Folders: []string{"a", "b-2"}}, true},
		"resumes":    {&conclavev1.Worker{Name: "w", Run: "a", Claim: "c"}, true},
		"folder":     {&conclavev1.Worker{Name: "w", Folders: []string{"a", long}}, false},
		"run":        {&conclavev1.Worker{Name: "w", Run: long, Claim: "c"}, false},
		"name":       {&conclavev1.Worker{Name: long}, false},
		"many":       {&conclavev1.Worker{Name: "w", Folders: make([]string, maxFolders+1)}, false},
		"half named": {&conclavev1.Worker{Name: "w", Run: "a"}, false},
		"nobody":     {nil, false},
	} {
		if err := checkWorker(c.w); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
