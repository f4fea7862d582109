package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

const schemaText = `name: tiny
label: label
columns:
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: label, kind: binary}
`

const runText = `name: NAME
schema: schema.yaml
privacy: {epsilon: 1, delta: 1e-5}
teachers: 10
`

// cluster is a real aggregator without nodes, and a worker's configuration.
type cluster struct {
	t      *testing.T
	dir    string
	config student.Config
	queue  *student.Queue
	log    *zap.Logger // the workers' log
	study  string      // of the submitted runs
}

func newCluster(t *testing.T, change ...func(*aggregator.Config)) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "work") // short, for the Unix socket below it
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	folder := filepath.Join(dir, "certs")
	testkit.Must(t, authority.Create(folder))
	testkit.Must(t, authority.Issue(folder, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(folder, certs.RoleStudent, "lab", nil, time.Hour))
	testkit.Must(t, authority.Issue(folder, certs.RoleStudent, "hired", nil, time.Hour))
	sum := sha256.Sum256([]byte(schemaText))
	a := aggregator.DefaultConfig()
	a.Name, a.Listen, a.Drain, a.WorkerGrace = "agg", "127.0.0.1:0", 0, time.Second
	a.TLS = certs.IssuedFiles(folder, certs.RoleAggregator, "agg")
	a.TLS.Revoked = certs.RevokedFile(folder)
	a.Etcd.Embedded, a.Etcd.Dir = true, filepath.Join(dir, "etcd")
	a.Datasets = []aggregator.DatasetConfig{{Name: "d", SchemaSHA256: hex.EncodeToString(sum[:]), Unit: "record",
		Budget: privacy.Budget{Epsilon: 20, Delta: 1e-5}}}
	for _, f := range change {
		f(&a)
	}
	server, err := aggregator.New(testkit.Within(t), a, aggregator.Options{})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, errors.Join(testkit.Receive(t, served), server.Close()))
	})
	c := student.DefaultConfig()
	c.Aggregator, c.Dataset, c.Queue, c.Worker, c.Out = server.Addr().String(), "d", true, "w",
		filepath.Join(dir, "out")
	c.TLS, c.Retry = certs.IssuedFiles(folder, certs.RoleStudent, "lab"), 50*time.Millisecond
	client, err := student.Dial(c, zap.NewNop())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, client.Close()) })
	return &cluster{t, dir, c, client.Queue(), zap.NewNop(), ""}
}

// submit queues a run. change can alter its run.yaml after planning.
func (c *cluster) submit(name string, change func(string) string) {
	c.t.Helper()
	folder := filepath.Join(c.dir, "submit")
	testkit.Must(c.t, os.MkdirAll(folder, 0o755))
	text := strings.Replace(runText, "NAME", name, 1)
	testkit.Must(c.t, os.WriteFile(filepath.Join(folder, "schema.yaml"), []byte(schemaText), 0o644))
	if c.study != "" {
		text += "study: agreed.yaml\n"
		testkit.Must(c.t, os.WriteFile(filepath.Join(folder, "agreed.yaml"), []byte(c.study), 0o644))
	}
	testkit.Must(c.t, os.WriteFile(filepath.Join(folder, "run.yaml"), []byte(text), 0o644))
	s, job, err := run.NewSubmission(filepath.Join(folder, "run.yaml"))
	testkit.Must(c.t, err)
	_, err = c.queue.Submit(testkit.Within(c.t), &conclavev1.SubmitRunRequest{
		Spec: run.RunSpec(job.Plan, job.Spec, job.Schema, "d", false), RunYaml: []byte(change(string(s.RunFile))),
		SchemaYaml: s.Schema, StudyYaml: s.Study,
	})
	testkit.Must(c.t, err)
}

func same(text string) string { return text }

// A study's run is opened by its worker with the study's text, and its document is next to its run.yaml.
func TestAWorkerHasTheStudyOfItsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.study = "name: heart\ntitle: Heart failure\npurpose: Teaching\npermit: IRB 7\ncontact: Dr. Berg\n" +
		"expires: 2199-06-30\ndataset: d\nschema: schema.yaml\nbudget: {epsilon: 20, delta: 1e-5}\n" +
		"pipelines: [marginals]\naggregator: {hosts: [agg]}\nsites: [north]\nstudents: [lab]\n"
	c.submit("studied", same)
	stop, _ := c.work(c.config)
	r := c.await("studied", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	if r.GetStudy().GetPermit() != "IRB 7" || r.GetPurpose() != "Teaching" {
		t.Errorf("the run is %v", r)
	}
	if text := testkit.Read(t, filepath.Join(c.config.Out, "studied", "study.yaml")); string(text) != c.study {
		t.Errorf("the worker has the study %q", text)
	}
	testkit.Must(t, stop())
}

func (c *cluster) await(name string, holds func(*conclavev1.RunStatus) bool) *conclavev1.RunStatus {
	c.t.Helper()
	for end := time.Now().Add(testkit.Patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := c.queue.Show(testkit.Within(c.t), name)
		testkit.Must(c.t, err)
		if holds(r.GetRun()) {
			return r.GetRun()
		}
		if time.Now().After(end) {
			c.t.Fatalf("run %s is %v", name, r)
		}
	}
}

func in(state conclavev1.RunState) func(*conclavev1.RunStatus) bool {
	return func(r *conclavev1.RunStatus) bool { return r.GetState() == state }
}

// work starts a worker; stop ends it as SIGTERM does, and returns its error.
func (c *cluster) work(config student.Config) (stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Work(ctx, config, c.log, func(*results.Result) { c.t.Error("a run was done, without teachers") })
	}()
	return func() error { cancel(); return testkit.Receive(c.t, done) }, done
}

// A manipulated run fails by name, and the worker continues with the next run, which it returns when it is told to
// stop.
func TestBadRunsFailAndTheWorkerGoesOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, change := range map[string]func(string) string{
		"renamed":  func(s string) string { return strings.Replace(s, "name: renamed", "name: other", 1) },
		"dearer":   func(s string) string { return strings.Replace(s, "epsilon: 1", "epsilon: 2", 1) },
		"spying":   func(s string) string { return s + "evaluate: {test: /etc/passwd}\n" },
		"no-yaml":  func(string) string { return "{" },
		"no-field": func(s string) string { return s + "shell: rm\n" },
	} {
		c.submit(name, change)
	}
	c.submit("waits-for-teachers", same)
	stop, _ := c.work(c.config)
	for name, want := range map[string]string{
		"renamed": `is for run "other"`, "dearer": "privacy.epsilon: the run.yaml says 2",
		"spying": "evaluate.test: files", "no-yaml": "run.yaml", "no-field": `unknown field "shell"`,
	} {
		r := c.await(name, in(conclavev1.RunState_RUN_STATE_FAILED))
		if !strings.Contains(r.GetReason(), want) || r.GetOpened() || r.GetWorker() != "w" {
			t.Errorf("%s is %v; want %q", name, r, want)
		}
	}
	c.await("waits-for-teachers", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	testkit.Must(t, stop())
	for range 3 { // more often than it may lose its worker
		r := c.await("waits-for-teachers", in(conclavev1.RunState_RUN_STATE_WAITING))
		if !strings.Contains(r.GetReason(), "returned it") || r.GetClosed() {
			t.Errorf("after the worker was stopped it is %v", r)
		}
		stop, _ = c.work(c.config)
		c.await("waits-for-teachers", in(conclavev1.RunState_RUN_STATE_RUNNING))
		testkit.Must(t, stop())
	}
	// Cancelled while its worker waits for teachers: the worker is free again.
	stop, _ = c.work(c.config)
	c.await("waits-for-teachers", in(conclavev1.RunState_RUN_STATE_RUNNING))
	if _, err := c.queue.Cancel(testkit.Within(t), "waits-for-teachers", false); err != nil {
		t.Fatal(err)
	}
	c.submit("next", same)
	c.await("next", in(conclavev1.RunState_RUN_STATE_RUNNING))
	testkit.Must(t, stop())
}

// A worker whose run waits for missing teachers is free for another run, and returns to the first.
func TestAWorkerDoesNotWaitForOneRunAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(a *aggregator.Config) { a.QuorumPatience = time.Second })
	c.submit("a", same)
	stop, _ := c.work(c.config)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	c.submit("b", same)
	c.await("b", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetClaims() >= 2 })
	testkit.Must(t, stop())
}

// Two at a time, under their own names.
func TestSeveralRunsAtATime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.config.Workers = 2
	c.submit("a", same)
	c.submit("b", same)
	stop, _ := c.work(c.config)
	names := map[string]bool{}
	for _, run := range []string{"a", "b"} {
		names[c.await(run, in(conclavev1.RunState_RUN_STATE_RUNNING)).GetWorker()] = true
	}
	if !names["w.1"] || !names["w.2"] {
		t.Errorf("the workers are %v", names)
	}
	testkit.Must(t, stop())
}

// A worker that cannot write returns its run and ends, because another one may be able to.
func TestAWorkerThatCannotWriteEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	testkit.Must(t, os.MkdirAll(c.config.Out, 0o755))
	testkit.Must(t,
		os.WriteFile(filepath.Join(c.config.Out, "a"), []byte("a file where the run's folder is to be"), 0o644))
	c.submit("a", same)
	_, ended := c.work(c.config)
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), `run "a" was returned`) {
			t.Errorf("the worker ended with %v", err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("the worker goes on")
	}
	if r := c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING)); r.GetClaims() != 1 {
		t.Errorf("it is %v", r)
	}
	bad := c.config
	bad.Out = filepath.Join(c.config.Out, "a")
	if err := Work(testkit.Within(t), bad, zap.NewNop(), nil); err == nil || !strings.HasPrefix(err.Error(), "out: ") {
		t.Errorf("into a file: %v", err)
	}
	bad = c.config
	bad.Dataset = "none"
	if err := Work(testkit.Within(t), bad, zap.NewNop(), nil); !errors.Is(err, student.ErrRefused) {
		t.Errorf("on no dataset: %v", err)
	}
}

func TestFilesAndTheirHashes(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("test"), 0o644))
	files, err := filesOf(&results.Result{Outputs: map[string]string{"b": filepath.Join(dir, "x"), "a": dir}})
	if err != nil || len(files) != 1 || files[0].GetName() != "b" ||
		files[0].GetSha256() != "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" {
		t.Errorf("%v, %v", files, err)
	}
	if _, err := filesOf(&results.Result{Outputs: map[string]string{"b": filepath.Join(dir, "none")}}); err == nil {
		t.Error("a file that is not there has a hash")
	}
}

func TestAReportHasAllOfAStatus(t *testing.T) {
	got := progressOf(run.Status{Round: 3, Rounds: 9, Of: "step", EpsilonSpent: 0.5, Epsilon: 1,
		Waiting: "for a quorum", Part: "1 of 2", Halted: true})
	want := &conclavev1.RunProgress{Round: 3, Rounds: 9, Of: "step", EpsilonSpent: 0.5, Epsilon: 1,
		Waiting: "for a quorum", Part: "1 of 2", Halted: true}
	if !proto.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
