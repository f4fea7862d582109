package aggregator

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// observed gives a cluster's server a monitoring listener and an audit log. It returns the log's path.
func observed(t *testing.T) (path string, change func(*Config)) {
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	return path, func(c *Config) { c.HTTP.Listen, c.AuditLog = "127.0.0.1:0", path }
}

// httpAt asks a monitoring listener.
func httpAt(t testing.TB, address, method, path, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(testkit.Within(t), method, "http://"+address+path, strings.NewReader(body))
	testkit.Must(t, err)
	q.Close = true
	r, err := http.DefaultClient.Do(q)
	testkit.Must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	testkit.Must(t, err)
	return r.StatusCode, string(text)
}

func (c *cluster) http(t testing.TB, path string) (int, string) {
	t.Helper()
	return httpAt(t, c.server.MonitorAddr().String(), "GET", path, "")
}

// scrape returns metric values by name and labels.
func scrape(t testing.TB, address string) map[string]float64 {
	t.Helper()
	status, text := httpAt(t, address, "GET", "/metrics", "")
	if status != 200 {
		t.Fatalf("/metrics: status %d: %s", status, text)
	}
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else {
			name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		if strings.HasPrefix(name, "conclave_") {
			v, err := strconv.ParseFloat(value, 64)
			testkit.Must(t, err)
			all[name] = v
		}
	}
	return all
}

// auditEntries reads an audit log.
func auditEntries(t testing.TB, path string) (entries []auditlog.Entry) {
	t.Helper()
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e auditlog.Entry
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &e))
		entries = append(entries, e)
	}
	return entries
}

// of returns the entries of an event.
func of(entries []auditlog.Entry, event string) (found []auditlog.Entry) {
	for _, e := range entries {
		if e.Event == event {
			found = append(found, e)
		}
	}
	return found
}

func fingerprint(t testing.TB, files certs.Files) string {
	t.Helper()
	raw, err := os.ReadFile(files.Cert)
	testkit.Must(t, err)
	block, _ := pem.Decode(raw)
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}

// malformed answers with votes that are one byte short.
func malformed(teachers uint32) roundtest.Answer {
	good := roundtest.Votes(teachers, roundtest.Alternating)
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		bad := good(r)
		v := bad[0].GetVotes()
		v.Packed = v.Packed[1:]
		return bad
	}
}

// Metrics and the audit log show an operator what happened.
func TestMetricsAndAuditLogTellWhatHappened(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	level := zap.NewAtomicLevelAt(zap.InfoLevel)
	core, _ := observer.New(level)
	c := newCluster(t, Options{Logger: zap.New(core), Level: &level}, change)
	address := c.server.MonitorAddr().String()
	if status, text := c.http(t, "/readyz"); status != 200 || text != "leader\n" {
		t.Errorf("/readyz: %d %q", status, text)
	}
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	c.node(t, hello(d, "north", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	south := c.node(t, hello(d, "south", "b", 4), malformed(4))
	var released []*conclavev1.Release
	for round := range uint64(3) {
		released = append(released, student.mustAsk(t, roundtest.VoteRound(spec.Name, round, 4)))
	}
	again := student.mustAsk(t, roundtest.VoteRound(spec.Name, 1, 4))
	student.refused(t, roundtest.VoteRound(spec.Name, 9, 4), codes.FailedPrecondition)
	foreign := hello(d, "east", "c", 4)
	foreign.Unit = "person"
	refused := c.tryNode(t, foreign, roundtest.Silent)
	testkit.Receive(t, refused.ended)
	_, err := (&testStudent{rpc.NewStudentServiceClient(c.dial(t,
		certs.IssuedFiles(c.certs, certs.RoleNode, "east")))}).
		CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	roundtest.WantStatus(t, err, codes.PermissionDenied)

	spending, err := c.server.store.Spent(testkit.Within(t), d)
	testkit.Must(t, err)
	spent, err := spending.EpsilonSpent()
	testkit.Must(t, err)
	metrics := scrape(t, address)
	for name, want := range map[string]float64{
		"conclave_leader_state":                                                1,
		`conclave_connected_nodes{dataset="` + d + `"}`:                        2,
		`conclave_connected_teachers{dataset="` + d + `"}`:                     8,
		`conclave_open_rounds{dataset="` + d + `"}`:                            0,
		`conclave_rounds_released_total{dataset="` + d + `",purpose="votes"}`:  3,
		`conclave_round_duration_seconds_count{purpose="votes"}`:               3,
		"conclave_rounds_repeated_total":                                       1,
		`conclave_rounds_refused_total{reason="not_allowed"}`:                  1,
		`conclave_messages_rejected_total{kind="malformed"}`:                   3,
		`conclave_nodes_joined_total{dataset="` + d + `"}`:                     2,
		`conclave_nodes_refused_total{reason="not_allowed"}`:                   1,
		`conclave_budget_epsilon_limit{dataset="` + d + `"}`:                   100,
		`conclave_budget_delta_limit{dataset="` + d + `"}`:                     1e-5,
		`conclave_budget_epsilon_spent{dataset="` + d + `"}`:                   spent,
		`conclave_grpc_inflight_calls{method="Work"}`:                          2,
		`conclave_grpc_calls_total{code="OK",method="Ask"}`:                    4,
		`conclave_grpc_calls_total{code="PermissionDenied",method="CloseRun"}`: 1,
		"conclave_auditlog_failures_total":                                     0,
	} {
		if got, ok := metrics[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	if metrics[`conclave_etcd_request_seconds_count{code="OK",method="Txn"}`] < 5 {
		t.Error("no requests to etcd are counted")
	}

	student.close(t, spec.Name)
	south.leave()
	testkit.Eventually(t, "the node to be gone", func() bool {
		return scrape(t, address)[`conclave_connected_nodes{dataset="`+d+`"}`] == 1
	})
	if status, _ := httpAt(t, address, "PUT", "/loglevel", `{"level":"debug"}`); status != http.StatusNotFound {
		t.Errorf("/loglevel where the monitoring reads: %d", status)
	}
	testkit.Must(t, c.stop())
	if _, err := http.Get("http://" + address + "/healthz"); err == nil {
		t.Error("the listener outlives the server")
	}

	entries := auditEntries(t, path)
	for event, want := range map[string]int{
		auditlog.Started: 1, auditlog.Leading: 1, auditlog.Joined: 2, auditlog.Left: 2, auditlog.RunOpened: 1,
		auditlog.RunClosed: 1,
		auditlog.Released:  3, auditlog.Repeated: 1, auditlog.Refused: 6, auditlog.Stopped: 1,
	} {
		if got := of(entries, event); len(got) != want {
			t.Errorf("%d lines of %s, want %d: %+v", len(got), event, want, got)
		}
	}
	asker := fingerprint(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student"))
	for i, e := range of(entries, auditlog.Released) {
		if e.Role != "aggregator" || e.Name != "agg" || e.Peer != "student/student" || e.Certificate != asker ||
			e.Dataset != d ||
			e.Run != spec.Name || e.Round == nil || *e.Round != uint64(i) || e.Purpose != "votes" || e.Teachers != 4 ||
			e.Events == nil ||
			e.LedgerHash != released[i].GetLedgerHash() || e.LedgerSeq != released[i].GetLedgerSeq() ||
			e.EpsilonSpent != released[i].GetEpsilonSpent() {
			t.Errorf("release %d: %+v", i, e)
		}
	}
	if e := of(entries, auditlog.Repeated)[0]; *e.Round != 1 || e.Peer != "student/student" ||
		e.LedgerHash != again.GetLedgerHash() {
		t.Errorf("the repeated answer: %+v", e)
	}
	joined := of(entries, auditlog.Joined)[0]
	if joined.Peer != "node/north" || joined.Node != "north/a" || joined.Teachers != 4 ||
		joined.Certificate != fingerprint(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north")) {
		t.Errorf("join: %+v", joined)
	}
	reasons := map[string]int{}
	for _, e := range of(entries, auditlog.Refused) {
		reasons[e.Peer+" "+e.Code]++
		if e.Reason == "" || e.Certificate == "" {
			t.Errorf("refusal: %+v", e)
		}
	}
	for who, want := range map[string]int{"node/south InvalidArgument": 3, "student/student FailedPrecondition": 1,
		"node/east FailedPrecondition": 1, "node/east PermissionDenied": 1} {
		if reasons[who] != want {
			t.Errorf("%d refusals of %s, want %d: %v", reasons[who], who, want, reasons)
		}
	}
}

// Sums with unlikely digits are in no metric, no audit line and no log line, whether they are counted or refused.
func TestNothingThatIsWatchedHoldsASum(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	core, log := observer.New(zap.DebugLevel)
	c := newCluster(t, Options{Logger: zap.New(core)}, change)
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	sums := []int64{9182736455463, 8172635499453}
	c.node(t, hello(d, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: r.GetRun(),
			Round: r.GetNumber(), Values: sums}}}}
	})
	c.node(t, hello(d, "south", "b", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: r.GetRun(), Round: r.GetNumber(), Values: append(sums[:2:2], 1),
		}}}}
	})
	student.mustAsk(t, roundtest.CountRound(spec.Name, 0, 2, 1<<20))
	_, text := c.http(t, "/metrics")
	raw, err := os.ReadFile(path)
	testkit.Must(t, err)
	lines, err := json.Marshal(log.All())
	testkit.Must(t, err)
	for name, watched := range map[string]string{"metrics": text, "audit log": string(raw), "log": string(lines)} {
		if !strings.Contains(watched, spec.Name) && !strings.Contains(watched, d) {
			t.Errorf("%s does not speak of the run at all", name)
		}
		// Without the first digit, which a float's point follows. Fewer digits would occur by chance in times and
		// hashes.
		for _, digits := range []string{"182736455463", "172635499453"} {
			if strings.Contains(watched, digits) {
				t.Errorf("%s holds %s", name, digits)
			}
		}
	}
}

// fill makes the disk of the audit log appear full.
func fill(t testing.TB, s *Server, path string) {
	t.Helper()
	testkit.Must(t, os.Rename(path, path+".1"))
	testkit.Must(t, os.Symlink("/dev/full", path))
	if err := s.audit.Log.Reopen(); !errors.Is(err, auditlog.ErrLost) {
		t.Errorf("a line on a full disk: %v", err)
	}
}

// While the audit log cannot be written nothing new is released. A round that is already charged is answered: its
// ledger entry records it.
func TestAFullDiskStopsReleases(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	path, change := observed(t)
	var c *cluster
	c = newCluster(t, Options{Hooks: Hooks{BeforeCharge: func(_ string, round uint64) {
		if round == 1 {
			fill(t, c.server, path)
		}
	}}}, change)
	student, spec, node := c.begin(t, nil, roundtest.Votes(8, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 1, 4)) // its line is lost
	for len(node.rounds) > 0 {
		testkit.Receive(t, node.rounds)
	}
	err := student.refused(t, roundtest.VoteRound(spec.Name, 2, 4), codes.Unavailable, "audit log")
	if strings.Contains(err.Error(), path) {
		t.Errorf("the student learns of the aggregator's files: %v", err)
	}
	student.refused(t, roundtest.VoteRound(spec.Name, 1, 4), codes.Unavailable, "audit log")
	_, err = student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
	roundtest.WantStatus(t, err, codes.Unavailable, "audit log")
	if n := len(student.ledger(t, spec.Name)); n != 2 || len(node.rounds) != 0 {
		t.Errorf("%d releases in the ledger, want 2; a node was asked %d times", n, len(node.rounds))
	}
	if status, text := c.http(t, "/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "audit log") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if lost := scrape(t, c.server.MonitorAddr().String())["conclave_auditlog_failures_total"]; lost < 2 {
		t.Errorf("%v lines lost in the metrics", lost)
	}

	testkit.Must(t, os.Remove(path))
	testkit.Must(t, c.server.audit.Log.Reopen())
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 2, 4))
	if status, _ := c.http(t, "/readyz"); status != 200 {
		t.Errorf("/readyz: %d once there is room", status)
	}
	if e := of(auditEntries(t, path), auditlog.Released); len(e) != 1 || *e[0].Round != 2 {
		t.Errorf("releases in the new file: %+v", e)
	}
}
