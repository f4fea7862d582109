package node

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/node/notify"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// People are notified once that a run waits for them. A run approved until a moment is answered until then and waits
// afterwards, and the audit log says whose approval expired.
func TestAnApprovalThatExpiresLetsTheRunWaitAgain(t *testing.T) {
	t.Parallel()
	told := make(chan notify.Waiting, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var w notify.Waiting
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &w); err != nil {
			t.Error(err)
		}
		told <- w
	}))
	t.Cleanup(hook.Close)
	f := newFakeAggregator(t)
	c := policed(t, f.watchedConfig(4), strings.Replace(lenient, "automatic", "by-hand", 1))
	c.Notify.URL = hook.URL
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	stop, _ := run(t, n)
	j := f.next()
	r := voteRound("r", 1)
	terms := termsFor(t, n, r, 50, func(s *conclavev1.RunSpec) { s.Purpose = "study 12" })
	terms.Requester = "lab"
	waits := func(attempt uint64) {
		t.Helper()
		j.askUnder(r, terms, attempt)
		if m := j.reply(); !m.GetRefusal().GetWaiting() {
			t.Fatalf("reply %v", m)
		}
	}
	people := sitepolicy.New(c.PolicyOptions(n.site.Schema.SHA256))
	approve := func(until time.Time) {
		t.Helper()
		_, err := people.Decide("r", "", sitepolicy.Decision{Approve: true, By: "ann", Until: until})
		testkit.Must(t, err)
	}
	said := func() {
		t.Helper()
		w := testkit.Receive(t, told)
		if _, err := time.Parse(time.RFC3339, w.Since); err != nil {
			t.Error(err)
		}
		w.Since = ""
		if w != (notify.Waiting{Site: "north", Node: c.Node, Dataset: "d", Run: "r", SpecSHA256: SpecSHA256(terms.Spec),
			Student: "lab", Purpose: "study 12"}) {
			t.Errorf("people are told %+v", w)
		}
	}
	waits(1)
	waits(2)
	said()
	j.leave <- status.Error(codes.Unavailable, "it goes") // the next stream does not notify people again
	j = f.next()
	waits(1)
	approve(time.Time{})
	if m := j.reply(); m.GetReady().GetRun() != "r" {
		t.Fatalf("the node says %v", m)
	}
	j.askUnder(r, terms, 3)
	if m := j.reply(); m.GetVotes() == nil {
		t.Fatalf("not answered after the approval: %v", m)
	}
	if m := inquireOf(t, j, voteRound("r", 2), terms); m.GetPermitted() == nil {
		t.Fatalf("the node says %v", m)
	}
	until := time.Now().Add(5 * time.Second)
	approve(until)
	if m := j.reply(); m.GetReady().GetRun() != "r" || time.Now().Before(until) {
		t.Fatalf("the node says %v of what it permitted", m)
	}
	if m := inquireOf(t, j, voteRound("r", 2), terms); !m.GetRefusal().GetWaiting() {
		t.Fatalf("the node says %v", m)
	}
	r = voteRound("r", 2)
	waits(4)
	said()
	if s := testkit.Value(people.Status()); s.Runs[0].Charges != 1 {
		t.Errorf("charged %+v", s.Runs[0])
	}
	testkit.Must(t, stop())
	entries, _ := trailOf(t, c)
	var expired []auditlog.Entry
	for _, e := range entries {
		if e.Event == auditlog.Expired {
			expired = append(expired, e)
		}
	}
	if len(expired) != 1 || expired[0].Run != "r" || expired[0].Reason != "by ann" || expired[0].Dataset != "d" {
		t.Errorf("the audit log has %+v", expired)
	}
	if len(told) != 0 {
		t.Errorf("people were told too often: %+v", <-told)
	}
}

// A permitted run loses its permission when the site requires another study, and the aggregator learns so at once.
func TestARunOfAnotherStudyIsNoLongerPermitted(t *testing.T) {
	t.Parallel()
	f := newFakeAggregator(t)
	c := policed(t, f.watchedConfig(4), lenient)
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	stop, _ := run(t, n)
	j := f.next()
	r := voteRound("r", 1)
	of := &study.Block{Name: "heart", Title: "Heart failure", Purpose: "Teaching", Permit: "IRB 7", Contact: "Dr. Berg",
		Expires: "2199-06-30", SHA256: SpecSHA256([]byte("study"))}
	terms := termsFor(t, n, r, 50, func(s *conclavev1.RunSpec) { s.Study = of.Wire() })
	if m := inquireOf(t, j, r, terms); m.GetPermitted() == nil {
		t.Fatalf("the node says %v", m)
	}
	wants := func(sum string) {
		text := strings.Replace(lenient, "approval", "study: {sha256: "+sum+"}, approval", 1)
		testkit.Must(t, os.WriteFile(c.Policy, []byte(text), 0o600))
	}
	wants(of.SHA256)
	if m := inquireOf(t, j, r, terms); m.GetPermitted() == nil {
		t.Fatalf("of the study that is wanted the node says %v", m)
	}
	wants(SpecSHA256([]byte("another")))
	if m := j.reply(); m.GetReady().GetRun() != "r" {
		t.Fatalf("the node says %v of what it permitted", m)
	}
	refused := inquireOf(t, j, r, terms).GetRefusal()
	if want := "policy of site north, study: runs on dataset d "; refused.GetWaiting() ||
		!strings.HasPrefix(refused.GetReason(), want) {
		t.Errorf("the node says %v", refused)
	}
	testkit.Must(t, stop())
	if s := testkit.Value(sitepolicy.New(c.PolicyOptions(n.site.Schema.SHA256)).Status()); s.EpsilonSpent != 0 {
		t.Errorf("the site was charged: %+v", s)
	}
}

// inquireOf asks a node over its stream whether it may answer a round.
func inquireOf(t *testing.T, j *join, r *conclavev1.Round, terms *conclavev1.RoundTerms) *conclavev1.WorkRequest {
	t.Helper()
	j.send(&conclavev1.WorkResponse{Attempt: 9, Terms: terms,
		Message: &conclavev1.WorkResponse_Permit{Permit: permitFor(t, r)}})
	return j.reply()
}
