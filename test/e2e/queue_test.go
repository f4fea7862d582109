package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// queuedRun is a run as conclave run --format json prints it.
type queuedRun struct {
	Name         string  `json:"name"`
	State        string  `json:"state"`
	Reason       string  `json:"reason"`
	EpsilonSpent float64 `json:"epsilon_spent"`
	Rounds       int     `json:"rounds"`
	Queued       bool    `json:"queued"`
	Worker       string  `json:"worker"`
	Claims       int     `json:"claims"`
	Opened       bool    `json:"opened"`
	Closed       bool    `json:"closed"`
	Results      []struct{ Name, Path, SHA256 string }
}

// workerFile is the file of a worker, whose runs get folders in out.
func (c *cluster) workerFile(name, out string) string {
	return c.studentFile("", out, settings{"run": "", "queue": "true", "worker": name})
}

func (c *cluster) startWorker(name, out string) *process {
	c.t.Helper()
	w := start(c.t, "worker "+name, binary("student"), "--config", c.workerFile(name, out))
	w.awaitLog("waiting for runs", nil)
	return w
}

// conclaveRun runs "conclave run" and returns its output and exit code. One that watches waits, so it has a process.
func (c *cluster) conclaveRun(command string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	config := c.studentFile("", "out", settings{"run": ""})
	args = append([]string{"run", command, "--config", config}, args...)
	if command == "watch" {
		return run(c.t, binary("conclave"), args...)
	}
	return called("conclave", args...)
}

func (c *cluster) submit(j job, args ...string) {
	c.t.Helper()
	out, stderr, code := c.conclaveRun("submit", append(args, c.runFile(j))...)
	if code != 0 || !strings.HasPrefix(out, j.name+" is queued on dataset "+dataset) {
		c.t.Fatalf("submit %s: exit code %d, %q, %q", j.name, code, out, stderr)
	}
}

func (c *cluster) show(name string) (r queuedRun) {
	c.t.Helper()
	out, stderr, code := c.conclaveRun("show", name, "--format", "json")
	if code != 0 {
		c.t.Fatalf("show %s: exit code %d: %s", name, code, stderr)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// Three runs and one worker: one run is cancelled while it runs, one finishes, and the third has no budget left.
func TestQueue(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile(settings{
		"datasets":  fmt.Sprintf("[{name: %s, schema: %s, budget: {epsilon: 12, delta: 1e-5}}]", dataset, built.schema),
		"audit_log": filepath.Join(c.dir, "audit.jsonl"),
	}))
	aggregator.awaitLog("listening", nil)
	north, south := c.startSites()
	c.slowDown()
	long := job{name: "long", rounds: 200, quorum: 1}
	second, third := job{name: "second", rounds: 4, quorum: 1}, job{name: "third", rounds: 4, quorum: 1}
	c.submit(long)
	out, stderr, code := c.conclaveRun("submit", c.runFile(second))
	if code != 3 || !strings.Contains(stderr, "overcommit") || out != "" {
		t.Errorf("a run that would not fit: exit code %d, %q, %q", code, out, stderr)
	}
	c.submit(second, "--overcommit")
	c.submit(third, "--overcommit")
	// Local files are not submitted.
	named := second
	named.name, named.changes = "named", settings{"evaluate": fmt.Sprintf("{test: %s}", built.test)}
	if _, stderr, code := c.conclaveRun("submit", c.runFile(named)); code != 1 ||
		!strings.Contains(stderr, "evaluate.test: files of this machine") {
		t.Errorf("a run with real rows: exit code %d, %q", code, stderr)
	}
	// A queued run cannot be opened outside the queue.
	refused(t, c.startStudent(c.studentFile(c.runFile(second), c.out("past"))),
		"student: ", `"second"`, "is waiting in the queue")

	worker := c.startWorker("w1", c.out("worker"))
	awaitRound(aggregator, 3)
	watching := start(t, "watch", binary("conclave"), "run", "watch", "--config",
		c.studentFile("", "out", settings{"run": ""}), "long")
	watching.await("a word of its progress", func() bool { return watching.said("round ") })
	if out, stderr, code := c.conclaveRun("cancel", "long"); code != 0 ||
		!strings.Contains(out, "long is cancelled\nit has spent epsilon ") {
		t.Fatalf("cancel: exit code %d, %q, %q", code, out, stderr)
	}
	if code := watching.wait(); code != 4 || !watching.said(`run long: cancelled, by "lab"`) {
		t.Errorf("watching a run that is cancelled: exit code %d", code)
	}
	if _, stderr, code := c.conclaveRun("watch", "second"); code != 0 || !strings.Contains(stderr, "second: ") {
		t.Errorf("watch second: exit code %d, %q", code, stderr)
	}
	if _, stderr, code := c.conclaveRun("watch", "third"); code != 3 || !strings.Contains(stderr, "nothing was spent") {
		t.Errorf("watch third: exit code %d, %q", code, stderr)
	}
	cancelled, done, over := c.show("long"), c.show("second"), c.show("third")
	if cancelled.State != "cancelled" || !cancelled.Closed || cancelled.Rounds < 3 || cancelled.Rounds > 100 ||
		cancelled.EpsilonSpent <= 0 {
		t.Errorf("the first run is %+v", cancelled)
	}
	if done.State != "done" || done.Rounds != second.rounds+1 || done.Worker != "w1" || done.Claims != 1 ||
		len(done.Results) < 6 {
		t.Errorf("the second run is %+v", done)
	}
	if over.State != "out_of_budget" || over.Opened || over.EpsilonSpent != 0 {
		t.Errorf("the third run is %+v", over)
	}
	for _, f := range done.Results {
		raw, err := os.ReadFile(f.Path)
		if sum := sha256.Sum256(raw); err != nil || hex.EncodeToString(sum[:]) != f.SHA256 {
			t.Errorf("%s is not what the queue says (%v)", f.Path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(c.out("worker"), "long", "certificate.json")); err == nil {
		t.Error("a run that was cancelled has a certificate")
	}
	folder := filepath.Join(c.out("worker"), "second")
	if _, stderr, code := called("conclave", "ledger", "verify", "--ledger",
		filepath.Join(folder, "ledger.jsonl"), "--certificate", filepath.Join(folder, "certificate.json")); code != 0 {
		t.Errorf("ledger verify: %d, %s", code, stderr)
	}
	// Its submitter gets it, as a file and as a folder; a run without results cannot be fetched.
	fetched := filepath.Join(c.dir, "second.zip")
	if out, stderr, code := c.conclaveRun("fetch", "second", "--out", fetched); code != 0 ||
		!strings.Contains(out, " files of run second, all checks passed\n") {
		t.Errorf("fetch: exit code %d, %q, %q", code, out, stderr)
	}
	if _, stderr, code := c.conclaveRun("fetch", "second", "--out", fetched); code != 1 ||
		!strings.Contains(stderr, "second.zip already exists; give another path, or replace it with --force") {
		t.Errorf("fetch again: exit code %d, %q", code, stderr)
	}
	packed := filepath.Join(c.dir, "packed.zip")
	if _, stderr, code := called("conclave", "bundle", "--from", folder, "--out", packed); code != 0 ||
		!bytes.Equal(testkit.Read(t, packed), testkit.Read(t, fetched)) {
		t.Errorf("what came is not what conclave bundle packs: %d, %q", code, stderr)
	}
	for range 2 { // created, then replaced
		if out, stderr, code := c.conclaveRun("fetch", "second", "--out", c.out("fetched"), "--force", "--format",
			"json"); code != 0 || !strings.Contains(out, `"verdict":"proven"`) {
			t.Errorf("fetch into a folder: exit code %d, %q, %q", code, out, stderr)
		}
	}
	if !bytes.Equal(testkit.Read(t, filepath.Join(folder, "synthetic.csv")),
		testkit.Read(t, filepath.Join(c.out("fetched"), "synthetic.csv"))) {
		t.Error("other rows came")
	}
	if _, stderr, code := c.conclaveRun("fetch", "long", "--out", c.out("long")); code != 1 ||
		!strings.Contains(stderr, `run "long" has no files to fetch, because its state is "cancelled"`) {
		t.Errorf("fetch a run that was cancelled: exit code %d, %q", code, stderr)
	}
	// The folder is that of a finished run, with its run.yaml, for later stages.
	if _, stderr, code := called("conclave", "post", "--from", folder, "--stage", "drs", "--out",
		c.out("drs")); code != 0 {
		t.Errorf("conclave post: %d, %s", code, stderr)
	}
	// A run that its student left open is closed by force.
	direct := c.startStudent(c.studentFile(c.runFile(job{name: "direct", rounds: 100, quorum: 1,
		changes: settings{"privacy": "{epsilon: 2, delta: 1e-5}"}}), c.out("direct")))
	direct.awaitLog("run open", nil)
	direct.kill()
	if _, stderr, code := c.conclaveRun("cancel", "direct"); code != 1 ||
		!strings.Contains(stderr, "was opened without the queue") {
		t.Errorf("cancel a student's run: exit code %d, %q", code, stderr)
	}
	if out, stderr, code := c.conclaveRun("cancel", "--force", "direct"); code != 0 ||
		!strings.Contains(out, "direct is closed") {
		t.Errorf("cancel a student's run by force: exit code %d, %q, %q", code, out, stderr)
	}
	out, _, code = c.conclaveRun("list")
	for _, want := range []string{"long ", "cancelled", "second ", "third ", "out of budget", "direct ",
		"without the queue", "dataset " + dataset + ": budget epsilon 12 at delta 1e-05 (filter gdp); spent so far: ",
		"0 open and 0 waiting"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("the list has no %q: exit code %d\n%s", want, code, out)
		}
	}
	// An operator removes what ended.
	if out, stderr, code := c.conclaveRun("remove", "direct"); code != 0 ||
		!strings.Contains(out, "direct is removed") {
		t.Errorf("remove a run: exit code %d, %q, %q", code, out, stderr)
	}
	if _, stderr, code := c.conclaveRun("show", "direct"); code != 1 || !strings.Contains(stderr, "removed") {
		t.Errorf("a run that was removed is shown: exit code %d, %q", code, stderr)
	}
	stop(worker, north, south, aggregator)
	var result struct{ Name string }
	if err := json.Unmarshal(worker.Stdout.Bytes(), &result); err != nil || result.Name != "second" {
		t.Errorf("the worker printed %q", worker.Stdout.String())
	}
	events := map[string]int{}
	for _, e := range auditLines(t, filepath.Join(c.dir, "audit.jsonl")) {
		if strings.HasPrefix(e.Event, "run-") {
			events[e.Event+" "+e.Run]++
		}
	}
	for _, want := range []string{
		auditlog.RunSubmitted + " third", auditlog.RunClaimed + " long", auditlog.RunCancelled + " long",
		auditlog.RunClaimed + " second",
		auditlog.RunFinished + " second", auditlog.RunFinished + " third", auditlog.RunCancelled + " direct",
		auditlog.RunRemoved + " direct", auditlog.RunFetched + " second",
	} {
		if n := map[bool]int{false: 1, true: 3}[strings.HasPrefix(want, auditlog.RunFetched)]; events[want] != n {
			t.Errorf("the audit log has %d lines of %q: %v", events[want], want, events)
		}
	}
}

// A killed worker loses its run, a stopped one returns it. Others continue from its checkpoint, and nothing is
// charged twice.
func TestWorkersKilledAndStopped(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile(settings{"worker_grace": "1s"}))
	aggregator.awaitLog("listening", nil)
	_, audited := c.audit(c.embeddedEndpoint())
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "handed-on", rounds: 18, quorum: 0.9}
	c.submit(j)
	out := c.out("shared")
	first := c.startWorker("w1", out)
	awaitRound(aggregator, 3)
	first.kill()
	second := c.startWorker("w2", out)
	second.awaitLog("continuing from the checkpoint", nil)
	awaitRound(aggregator, 7)
	second.stop()
	if r := c.show(j.name); r.State != "waiting" || !strings.Contains(r.Reason, `"w2" returned it`) || r.Claims != 2 {
		t.Errorf("after its worker was stopped the run is %+v", r)
	}
	third := c.startWorker("w3", out)
	third.awaitLog("continuing from the checkpoint", nil)
	awaitRound(aggregator, 11)
	third.kill()
	again := c.startWorker("w3", out) // with its old name, it need not wait
	again.awaitLog("continuing from the checkpoint", nil)
	again.awaitLog("run done", nil)
	if r := c.show(j.name); r.State != "done" || r.Worker != "w3" || r.Rounds != j.rounds+1 || r.Claims != 4 {
		t.Errorf("at last the run is %+v", r)
	}
	c.repeat(c.runFile(j), filepath.Join(out, j.name), j)
	audited(j.rounds + 1)
	stop(again, north, south, aggregator)
}

// The leader is killed, and the queue continues with the standby: running runs, waiting runs, and watchers.
func TestTheQueueSurvivesTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	etcd := newExternalEtcd(c, "2m")
	_, audited := c.audit(etcd.endpoint())
	addresses := [2]string{testkit.FreeAddress(t, "127.0.0.1"), testkit.FreeAddress(t, "127.0.0.1")}
	startMember := func(i int) *process {
		return c.startAggregator(c.aggregatorFile(settings{"name": fmt.Sprintf("aggregator-%d", i),
			"listen": addresses[i]}))
	}
	leader := startMember(0)
	leader.awaitLog("listening", nil)
	standby := startMember(1)
	standby.awaitLog("waiting for leadership", nil)
	c.address = fmt.Sprintf("'%s, %s'", addresses[0], addresses[1])
	north, south := c.startSites()
	c.slowDown()
	a, b := job{name: "a", rounds: 14, quorum: 1, changes: settings{"privacy": "{epsilon: 5, delta: 1e-5}"}},
		job{name: "b", rounds: 2, quorum: 1, changes: settings{"privacy": "{epsilon: 5, delta: 1e-5}"}}
	c.submit(a)
	c.submit(b)
	worker := c.startWorker("w", c.out("worker"))
	watching := start(t, "watch", binary("conclave"), "run", "watch", "--config",
		c.studentFile("", "out", settings{"run": ""}), "b")
	watching.await("a word of the run", func() bool { return watching.said("b: waiting, number 1 in line") })
	awaitRound(leader, 3)
	standby.awaitLog("the leader answers; once nothing listens there, its lease is not waited for", nil)
	leader.kill()
	if code := watching.wait(); code != 0 {
		t.Errorf("watching over a change of leader: exit code %d", code)
	}
	for _, j := range []job{a, b} {
		if r := c.show(j.name); r.State != "done" || r.Claims != 1 || r.Rounds != j.rounds+1 {
			t.Errorf("run %s is %+v", j.name, r)
		}
	}
	if n := len(worker.logged("run claimed")); n != 2 {
		t.Errorf("the worker took %d runs: it did not keep the one that it held", n)
	}
	audited(a.rounds + b.rounds + 2)
	stop(worker, north, south, standby, etcd.process)
}
