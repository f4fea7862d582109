package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// probe requests a path from a process's monitoring port; status 0 means no answer.
func probe(method, address, path, body string, headers ...string) (status int, text string) {
	q, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Set(name, value)
	}
	q.Close = true
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(raw)
}

// auditLines reads the audit logs that a pattern matches.
func auditLines(t *testing.T, pattern string) (entries []auditlog.Entry) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	testkit.Must(t, err)
	for _, name := range files {
		raw := testkit.Read(t, name)
		for line := range strings.Lines(string(raw)) {
			if !strings.HasSuffix(line, "\n") {
				break // it is being written
			}
			var e auditlog.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Errorf("%s: %q: %v", name, line, err)
			}
			entries = append(entries, e)
		}
	}
	return entries
}

// The leader and a node are told to stop in the middle of a run. Both end cleanly, the standby leads long before a
// lease would end, and the audit logs have every release.
func TestLeaderAndNodeAreStoppedInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	etcd := newExternalEtcd(c, "300s") // longer than any wait of this test
	watched, controlled := map[string]string{}, map[string]string{}
	const token = "a word of 16 letters"
	tokenFile := filepath.Join(c.dir, "level-token")
	testkit.Must(t, os.WriteFile(tokenFile, []byte(token+"\n"), 0o600))
	watch := func(name string) settings {
		watched[name] = testkit.FreeAddress(t, "127.0.0.1")
		controlled[name] = testkit.FreeAddress(t, "127.0.0.1")
		return settings{"http": fmt.Sprintf("{listen: '%s', control: {listen: '%s', token_file: '%s'}}", watched[name],
			controlled[name], tokenFile),
			"audit_log": filepath.Join(c.dir, "audit-"+name+".jsonl")}
	}
	startAggregator := func(name string) *process {
		return c.startAggregator(c.aggregatorFile(watch(name), settings{"name": name, "log": "{format: json}"}))
	}
	awaitState := func(p *process, name, state string) {
		p.await(name+" to be "+state, func() bool {
			status, text := probe("GET", watched[name], "/readyz", "")
			return status == 200 && text == state+"\n"
		})
	}
	first := startAggregator("first")
	first.awaitLog("listening", nil)
	awaitState(first, "first", "leader")
	_, audited := c.audit(etcd.endpoint())
	second := startAggregator("second")
	awaitState(second, "second", "standby of first")
	north, south := c.startNode("north", watch("north")), c.startNode("south", watch("south"))
	awaitState(north, "north", "connected")
	awaitState(south, "south", "connected")

	for _, role := range []string{"first", "north"} {
		change := func(headers ...string) (int, string) {
			return probe("PUT", controlled[role], "/loglevel", `{"level":"error"}`, headers...)
		}
		if status, text := change(); status != http.StatusUnauthorized {
			t.Errorf("%s: /loglevel without the token: %d %s", role, status, text)
		}
		if status, text := change("Authorization: Bearer " + token); status != 200 {
			t.Errorf("%s: /loglevel: %d %s", role, status, text)
		}
	}
	releases := func(pattern string) (rounds []uint64) {
		for _, e := range auditLines(t, filepath.Join(c.dir, pattern)) {
			if e.Event == auditlog.Released {
				rounds = append(rounds, *e.Round)
			}
		}
		return rounds
	}
	c.slowDown()
	j := job{name: "operate", rounds: 14, quorum: 1}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out))
	first.await("some rounds", func() bool { return len(releases("audit-first.jsonl")) > 3 })
	testkit.Must(t, os.Rename(filepath.Join(c.dir, "audit-first.jsonl"), filepath.Join(c.dir, "audit-first-1.jsonl")))
	first.signal(syscall.SIGHUP)
	first.await("the audit log to be reopened", func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "audit-first.jsonl"))
		return err == nil
	})
	began := time.Now()
	first.stop()
	awaitState(second, "second", "leader")
	t.Logf("stop and takeover took %v", time.Since(began))
	if n := len(first.logged("released")); n != 0 || len(first.logged("log level changed")) != 1 {
		t.Errorf("the level of the log did not change: %d rounds are in it", n)
	}
	awaitRound(second, uint64(len(releases("audit-first*.jsonl")))+2)
	south.stop()
	south = c.startNode("south", watch("south"))
	finish(t, student, out, j)

	status, metrics := probe("GET", watched["second"], "/metrics", "")
	if status != 200 || !strings.Contains(metrics, "\nconclave_leader_state 1\n") ||
		!strings.Contains(metrics, `conclave_connected_teachers{dataset="`+dataset+`"} 40`) {
		t.Errorf("/metrics: %d without the leader's state and its 40 teachers", status)
	}
	third := startAggregator("third")
	awaitState(third, "third", "standby of second")
	third.stop() // a standby ends cleanly, too
	stop(north, south, second)

	released := map[uint64]int{}
	for _, round := range append(releases("audit-first*.jsonl"), releases("audit-second.jsonl")...) {
		released[round]++
	}
	for round := range uint64(j.rounds + 1) {
		if released[round] != 1 {
			t.Errorf("round %d has %d lines in the audit logs of the aggregators", round, released[round])
		}
	}
	answers := map[uint64]bool{}
	for _, e := range auditLines(t, filepath.Join(c.dir, "audit-north.jsonl")) {
		if e.Event == auditlog.Answered {
			answers[*e.Round] = true
		}
	}
	if len(answers) != j.rounds+1 {
		t.Errorf("the audit log of a node knows %d rounds, want %d", len(answers), j.rounds+1)
	}
	audited(j.rounds + 1)
	etcd.process.stop()
}
