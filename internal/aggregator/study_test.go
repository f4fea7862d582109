package aggregator

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const studyText = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2099-06-30
dataset: study
schema: schema.yaml
budget: {epsilon: 30, delta: 1e-4}
pipelines: [pategan]
aggregator: {hosts: [localhost]}
sites: [north, south]
students: [student, lab]
`

// studied is the dataset study, whose runs must belong to the returned study. The study lasts until the test sets the
// clock.
func studied(t *testing.T) (c *cluster, of *conclavev1.Study, ends func(bool)) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "study.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(studyText), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "schema.yaml"), []byte("test"), 0o644))
	var ended atomic.Bool
	o := Options{Hooks: Hooks{Now: func() time.Time {
		if ended.Load() {
			return time.Date(2099, 7, 1, 0, 0, 0, 0, time.UTC)
		}
		return time.Date(2099, 6, 30, 23, 59, 59, 0, time.UTC)
	}}}
	c = newCluster(t, o, func(c *Config) {
		c.AuditLog = filepath.Join(dir, "audit.jsonl")
		c.Datasets = append(c.Datasets, DatasetConfig{Name: "study", SchemaSHA256: roundtest.Schema, Unit: "record",
			Budget: privacy.Budget{Epsilon: 30, Delta: 1e-4}, Study: path, Students: []string{"student", "lab"}})
	})
	s := testkit.Value(study.Parse([]byte(studyText)))
	return c, testkit.Value(s.Block([]byte(studyText))).Wire(), ended.Store
}

// A run without the dataset's study is neither submitted nor opened, nor is any run after the study ends. A queued
// run then ends at no cost when its turn comes. The audit log names the study.
func TestRunsOfAnotherStudyAreNotOpened(t *testing.T) {
	t.Parallel()
	c, of, ends := studied(t)
	student, lab := c.student(t), c.queue(t, "lab")
	submit := func(name string, of *conclavev1.Study, file string) error {
		q := roundtest.Submission("study", name)
		q.Spec.Study, q.StudyYaml = of, []byte(file)
		_, err := lab.SubmitRun(testkit.Within(t), q)
		return err
	}
	other := func(change func(*conclavev1.Study)) *conclavev1.Study {
		o := proto.Clone(of).(*conclavev1.Study)
		change(o)
		return o
	}
	amended := strings.Replace(studyText, "2099", "2199", 1)
	later := other(func(s *conclavev1.Study) { s.Expires = "2199-06-30"; s.Sha256 = study.Hash([]byte(amended)) })
	renamed := other(func(s *conclavev1.Study) { s.Title = "Something harmless" })
	for name, c := range map[string]struct {
		of   *conclavev1.Study
		file string
		code codes.Code
		want string // empty if only the submitted document is wrong
		says string
	}{
		"none":    {nil, "", codes.FailedPrecondition, "has no study", "has no study"},
		"another": {later, amended, codes.FailedPrecondition, "is required", "is required"},
		"renamed": {renamed, studyText, codes.InvalidArgument, "description of the study " +
			"differs", "its spec and the submitted " +
			"study differ"},
		"other-file":    {of, amended, codes.InvalidArgument, "", "does not match the hash in its spec"},
		"no-file":       {of, "", codes.InvalidArgument, "", "does not match the hash in its spec"},
		"file-for-none": {nil, studyText, codes.InvalidArgument, "has no study", "its spec has none"},
		"no-hash": {other(func(s *conclavev1.Study) { s.Sha256 = "x" }), "x", codes.InvalidArgument,
			"study: sha256", "study: sha256"},
		"two-lines": {other(func(s *conclavev1.Study) { s.Permit = "a\nb" }), "x", codes.InvalidArgument,
			"study: permit", "study: permit"},
	} {
		roundtest.WantStatus(t, submit(name, c.of, c.file), c.code, c.says)
		if c.want == "" {
			continue
		}
		err := student.tryOpen(t, "study", func(s *conclavev1.RunSpec) { s.Name, s.Study = name, c.of })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: opened, or %v", name, err)
		}
	}
	testkit.Must(t, submit("queued", of, studyText))
	if show := lab.show(t, "queued"); !proto.Equal(show.GetStudy(), of) {
		t.Errorf("the run is shown with %v", show.GetStudy())
	}
	if _, budget := lab.list(t, "study"); !proto.Equal(budget.GetStudy(), of) {
		t.Errorf("the dataset is shown with %v", budget.GetStudy())
	}
	testkit.Must(t, submit("late", of, studyText))
	w := lab.worker(t, &conclavev1.Worker{Dataset: "study", Name: "w"})
	if run := w.claimed(); run.GetName() != "queued" || string(run.GetStudyYaml()) != studyText {
		t.Errorf("the worker has %v", run)
	}
	ends(true)
	roundtest.WantStatus(t, submit("too-late", of, studyText), codes.FailedPrecondition, "2099-06-30 was its last day")
	err := student.tryOpen(t, "study", func(s *conclavev1.RunSpec) { s.Name, s.Study = "too-late", of })
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "2099-06-30 was its last day")
	second := lab.worker(t, &conclavev1.Worker{Dataset: "study", Name: "w2"})
	late := lab.await(t, "late", conclavev1.RunState_RUN_STATE_FAILED)
	if !strings.Contains(late.GetReason(), "nothing was spent: run \"late\": the study has ended") || late.GetOpened() {
		t.Errorf("the run that waited is %v", late)
	}
	second.drop()
	testkit.Must(t, c.stop())
	c.stop = nil
	lines := string(testkit.Read(t, c.config.AuditLog))
	want := `"study":{"title":"Heart failure in three hospitals","permit":"IRB 2026-114","sha256":"` + of.Sha256
	if !strings.Contains(lines, `"event":"`+auditlog.RunSubmitted+`"`) || !strings.Contains(lines, want) {
		t.Errorf("the audit log has %s", lines)
	}
}

// Once its study has ended an open run asks nothing more. Releases are repeated, a waiting round goes to no node, the
// run can be opened again and closes in order, and its ledger names the study.
func TestAnOpenRunAsksNothingAfterItsStudy(t *testing.T) {
	t.Parallel()
	c, of, ends := studied(t)
	student := c.student(t)
	spec, _ := student.open(t, "study", func(s *conclavev1.RunSpec) { s.Study, s.Quorum = of, 1 })
	n := c.node(t, hello("study", "north", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	second := c.node(t, hello("study", "south", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	first := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3))
	second.cancel()
	testkit.Receive(t, second.ended)
	c.awaitTeachers(t, "study", 4)
	// The study ends while the second round waits for a quorum.
	waits, answered := make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 1, 3), func(p *conclavev1.Progress) {
			if p.GetWaitingForQuorum() {
				waits <- struct{}{}
			}
		})
		answered <- err
	}()
	testkit.Receive(t, waits)
	ends(true)
	again := inBackground(t, student, roundtest.VoteRound(spec.Name, 1, 3))
	for _, err := range []error{testkit.Receive(t, answered), testkit.Receive(t, again)} {
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "2099-06-30 was its last day")
		if len(status.Convert(err).Details()) != 1 {
			t.Errorf("the student is not told that it is for the study: %v", status.Convert(err).Details())
		}
	}
	if len(n.rounds) != 1 {
		t.Errorf("the node was asked %d rounds", len(n.rounds))
	}
	if same := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3)); !proto.Equal(same, first) {
		t.Errorf("the release of before is %v", same)
	}
	_, reopened := student.open(t, "study", func(s *conclavev1.RunSpec) { s.Study, s.Quorum = of, 1 })
	if reopened.GetRounds() != 1 {
		t.Errorf("opened again it is %v", reopened)
	}
	student.close(t, spec.Name)
	text := student.lines(t, spec.Name)
	if strings.Count(text, `"type":"release"`) != 1 || strings.Contains(text, `"type":"abandoned"`) ||
		!strings.Contains(text, `"study":{"name":"heart","title":"Heart failure in three hospitals"`) {
		t.Errorf("the ledger is %s", text)
	}
}

func TestADatasetFitsItsStudy(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"study.yaml": studyText, "schema.yaml": "test", "other.yaml": "other",
		"elsewhere/study.yaml": studyText} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	sum := sha256.Sum256([]byte("test"))
	good := DatasetConfig{Name: "study", Schema: filepath.Join(dir, "schema.yaml"), Unit: "record",
		Budget: privacy.Budget{Epsilon: 10, Delta: 1e-4}, Study: filepath.Join(dir, "study.yaml"),
		Students: []string{"lab"}}
	hashed := good
	hashed.Schema, hashed.SchemaSHA256 = "", hex.EncodeToString(sum[:])
	hashed.Study = filepath.Join(dir, "elsewhere", "study.yaml")
	for _, d := range []DatasetConfig{good, hashed, {Name: "free"}} {
		if _, err := (Config{Datasets: []DatasetConfig{d}}).studies(); err != nil {
			t.Error(err)
		}
	}
	wrong := good
	wrong.Name, wrong.Unit, wrong.Budget.Epsilon, wrong.Students = "d", "patient", 31, []string{"lab", "eve"}
	wrong.Schema, wrong.Overlap = filepath.Join(dir, "other.yaml"), 2
	missing := good
	missing.Study = filepath.Join(dir, "none.yaml")
	anybody := good
	anybody.Students = nil
	_, err := (Config{Datasets: []DatasetConfig{good, wrong, missing, anybody}}).studies()
	for _, want := range []string{
		`datasets[1].name: study heart is for dataset "study", and this is "d"; correct it`,
		`datasets[1].unit: study heart protects unit "record", and the dataset "patient"`,
		`datasets[1].overlap: study heart has 1, and the dataset has 2`,
		`datasets[1].budget: (31, 0.0001) exceeds that of study heart, (30, 0.0001)`,
		`datasets[1].students: "lab, eve" may submit runs, but study heart lists student, lab`,
		`datasets[1].schema: the dataset's schema has SHA-256 `, `datasets[2].study: read the study: `,
		`datasets[3].students: "" may submit runs`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
}
