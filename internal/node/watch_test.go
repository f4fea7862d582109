package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// get requests a path from a node's monitoring listener, which may not be up yet.
func get(t testing.TB, n *Node, path string) (int, string) {
	t.Helper()
	testkit.Eventually(t, "a node that listens", func() bool { return n.MonitorAddr() != nil })
	q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.MonitorAddr().String()+path, nil)
	testkit.Must(t, err)
	q.Close = true
	r, err := http.DefaultClient.Do(q)
	testkit.Must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	testkit.Must(t, err)
	return r.StatusCode, string(text)
}

// awaitReady waits until /readyz has a status.
func awaitReady(t testing.TB, n *Node, want int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprint("a node whose /readyz is ", want), func() bool {
		got, _ := get(t, n, "/readyz")
		return got == want
	})
}

func trailOf(t testing.TB, c Config) (entries []auditlog.Entry, text string) {
	t.Helper()
	raw := testkit.Read(t, c.AuditLog)
	for lines := bufio.NewScanner(strings.NewReader(string(raw))); lines.Scan(); {
		var e auditlog.Entry
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &e))
		entries = append(entries, e)
	}
	return entries, string(raw)
}

// watchedConfig has a listener and an audit log.
func (f *fakeAggregator) watchedConfig(teachers int) Config {
	c := f.config(teachers)
	c.HTTP.Listen, c.AuditLog = "127.0.0.1:0", filepath.Join(f.t.TempDir(), "audit.jsonl")
	return c
}

// The site's operator sees what happened, and no value of any record.
func TestMetricsAndAuditLogOfANode(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.watchedConfig(4)
	table := questiontest.SmallTable(t, 80, 1)
	n := start(t, c, table)
	stop, log := run(t, n)
	j := f.next()
	awaitReady(t, n, 200)
	j.votes(voteRound("r", 0))
	j.votes(voteRound("r", 1))
	j.votes(voteRound("r", 1)) // a second time
	wrong := questiontest.Change(voteRound("r", 2), func(q *conclavev1.VoteQuestion) { q.Teacher.Classes = 7 })
	j.ask(wrong)
	if m := j.reply(); m.GetRefusal() == nil {
		t.Fatalf("a wrong round was answered: %v", m)
	}
	_, metrics := get(t, n, "/metrics")
	for _, want := range []string{
		"conclave_node_connected_state 1", "conclave_node_joins_total 1", "conclave_node_refused_total 1",
		"conclave_node_withdrawn_total 0",
		`conclave_node_answered_total{purpose="votes"} 2`, `conclave_node_training_seconds_count{purpose="votes"} 2`,
	} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if status, _ := get(t, n, "/loglevel"); status != http.StatusNotFound {
		t.Errorf("/loglevel where the monitoring reads: %d", status)
	}
	j.leave <- status.Error(codes.Unavailable, "gone for now")
	awaitReady(t, n, http.StatusServiceUnavailable)
	f.next()
	awaitReady(t, n, 200)
	testkit.Must(t, stop())

	entries, text := trailOf(t, c)
	var events []string
	for _, e := range entries {
		events = append(events, e.Event)
		if e.Role != "node" || e.Name != "north/0" || e.Event != auditlog.Started && e.Event != auditlog.Stopped &&
			(e.Peer != "aggregator/agg" || len(e.Certificate) != 64 || e.Dataset != "d") {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(events, " "); got != "started join answer answer answer refusal leave join leave stopped" {
		t.Fatalf("the audit log says %s", got)
	}
	if e := entries[4]; e.Run != "r" || *e.Round != 1 || e.Purpose != "votes" || e.Teachers != 4 {
		t.Errorf("answer %+v", e)
	}
	if e := entries[5]; *e.Round != 2 || e.Reason == "" {
		t.Errorf("refusal %+v", e)
	}
	if entries[6].Reason != "gone for now" {
		t.Errorf("leave %+v", entries[6])
	}

	// The numbers of the records have 15 digits or more, so that none occurs by chance.
	said, err := json.Marshal(log.All())
	testkit.Must(t, err)
	for row := range table.Len() {
		x := fmt.Sprint(table.Cells(row)[0])
		if len(x) > 12 {
			x = x[:12]
		}
		for name, watched := range map[string]string{"metrics": metrics, "audit log": text, "log": string(said)} {
			if len(x) == 12 && strings.Contains(watched, x) {
				t.Fatalf("%s holds the value %s of a record", name, x)
			}
		}
	}
}

// The passes of a fit are one line and one round, however many there are.
func TestPassesOfAFitAreNotCounted(t *testing.T) {
	w := newMetrics()
	fit := asking{run: "r", round: 3, purpose: "fit", passes: true}
	for i, first := range []bool{true, false, false} {
		if w.count(fit, time.Second) != first {
			t.Errorf("pass %d: counted %v", i, !first)
		}
	}
	families, err := w.registry.Gather()
	testkit.Must(t, err)
	for _, family := range families {
		if name := family.GetName(); name == "conclave_node_training_seconds" {
			t.Errorf("%s times a fit", name)
		} else if name == "conclave_node_answered_total" && family.GetMetric()[0].GetCounter().GetValue() != 1 {
			t.Errorf("%s: %v", name, family)
		}
	}
}

// A stopping node answers the round in hand first.
func TestTheRoundInHandIsAnsweredBeforeTheEnd(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.watchedConfig(4)
	c.Drain = testkit.Patience
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	reached, open := held(n)
	cancel, ended := begin(t, n)
	j := f.next()
	j.ask(discriminatorRound("r", 0, nil))
	j.ask(discriminatorRound("r", 1, nil)) // waits at the node, and is not started
	testkit.Receive(t, reached)
	cancel()
	open()
	if m := j.reply(); m.GetSum() == nil {
		t.Errorf("the round in hand was answered with %v", m)
	}
	if _, err := j.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after its answer the node ends the stream with %v", err)
	}
	j.leave <- nil
	testkit.Must(t, testkit.Receive(t, ended))
}

// A silent stream does not delay a stopping node beyond its limit.
func TestANodeThatIsToldToStopWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	f := newFakeAggregator(t)
	c := f.watchedConfig(4)
	c.Drain = 300 * time.Millisecond
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	reached, open := held(n)
	cancel, ended := begin(t, n)
	j := f.next()
	j.ask(discriminatorRound("r", 0, nil))
	testkit.Receive(t, reached)
	began := time.Now()
	cancel()
	open() // it answers, but this aggregator never ends the stream
	testkit.Must(t, testkit.Receive(t, ended))
	if took := time.Since(began); took < c.Drain {
		t.Errorf("it ended after %v", took)
	}
}

// A site whose audit log has no space sends nothing.
func TestAnAnswerThatCannotBeWrittenDownStays(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	f := newFakeAggregator(t)
	c := f.watchedConfig(4)
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	run(t, n)
	j := f.next()
	j.votes(voteRound("r", 0))
	testkit.Must(t, os.Rename(c.AuditLog, c.AuditLog+".1"))
	testkit.Must(t, os.Symlink("/dev/full", c.AuditLog))
	if err := n.watch.auditLog.Reopen(); !errors.Is(err, auditlog.ErrLost) {
		t.Fatal(err)
	}
	j.ask(voteRound("r", 1))
	m := j.reply()
	if m.GetRefusal().GetReason() != errAudit.Error() {
		t.Errorf("answered with %v", m)
	}
	awaitReady(t, n, http.StatusServiceUnavailable)
	testkit.Must(t, os.Remove(c.AuditLog))
	testkit.Must(t, n.watch.auditLog.Reopen())
	j.votes(voteRound("r", 1))
	awaitReady(t, n, 200)
}
