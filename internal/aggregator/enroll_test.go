package aggregator

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/study/roster"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// aStudy is the hash of some study.
var aStudy = strings.Repeat("ab", 32)

// joining is a site with a start kit.
type joining struct {
	rpc.EnrollServiceClient
	name, dataset string
}

func (c *cluster) joining(t *testing.T, dataset, name string) *joining {
	return &joining{rpc.NewEnrollServiceClient(c.dialAs(t, certs.RoleJoiner, name)), name, dataset}
}

// send sends a request for a role and name, and returns the fingerprint of its key and that of the one it replaced.
func (j *joining) send(t *testing.T, role certs.Role, name string) (q *request.Request, replaced string, err error) {
	t.Helper()
	dir := t.TempDir()
	q, err = request.New(dir, role, name, nil, request.FirstKey)
	testkit.Must(t, err)
	r, err := j.SendRequest(testkit.Within(t), &conclavev1.SendRequestRequest{
		Dataset: j.dataset, StudySha256: aStudy, Request: testkit.Read(t, certs.FilesAtSite(dir, role, name).Request)})
	return q, r.GetReplaced(), err
}

func (j *joining) fetch(t *testing.T) *conclavev1.FetchRosterResponse {
	t.Helper()
	r, err := j.FetchRoster(testkit.Within(t), &conclavev1.FetchRosterRequest{Dataset: j.dataset})
	testkit.Must(t, err)
	return r
}

// admit signs a roster of requests, based on an earlier one, with the authority in a folder.
func (c *cluster) admit(t *testing.T, dir, dataset string, generation uint64, sites []roster.Site,
	asking ...*request.Request) (*conclavev1.PublishRosterRequest, []roster.Site) {
	t.Helper()
	_, fingerprint, err := authority.Own(dir)
	testkit.Must(t, err)
	for _, q := range asking {
		issued, err := authority.Approve(dir, q, time.Hour)
		testkit.Must(t, err)
		sites = append(sites, roster.Site{Name: q.Identity.Name, Key: q.Fingerprint, Certificate: string(issued.PEM)})
	}
	signed, err := roster.Sign(dir, roster.Roster{Study: aStudy, Schema: roundtest.Schema, Authority: fingerprint,
		Dataset: dataset, Generation: generation, Sites: sites})
	testkit.Must(t, err)
	return &conclavev1.PublishRosterRequest{Dataset: dataset,
		Roster: &conclavev1.SignedRoster{Roster: signed.Text, Signature: signed.Signature}}, sites
}

// Sites ask; the operator lists the requests and publishes a roster. All of it is in the audit log and survives the
// leader.
func TestSitesAreAdmitted(t *testing.T) {
	t.Parallel()
	path, watched := observed(t)
	c := newCluster(t, Options{}, watched)
	d := c.dataset()
	north, south := c.joining(t, d, "north"), c.joining(t, d, "south")
	desk := rpc.NewAdmitServiceClient(c.dialAs(t, certs.RoleOperator, "desk"))
	ctx := testkit.Within(t)
	if r := north.fetch(t); r.GetRoster() != nil || r.GetRequestKey() != "" {
		t.Errorf("before anybody asked: %v", r)
	}
	first, replaced, err := north.send(t, certs.RoleNode, "north")
	if err != nil || replaced != "" {
		t.Fatalf("the first request: %q, %v", replaced, err)
	}
	// Another holder of the kit can take the place; both learn it.
	second, replaced, err := north.send(t, certs.RoleNode, "north")
	if err != nil || replaced != first.Fingerprint {
		t.Fatalf("the second request: %q, %v", replaced, err)
	}
	if got := north.fetch(t).GetRequestKey(); got != second.Fingerprint {
		t.Errorf("the request that is kept has key %s", got)
	}
	other, _, err := south.send(t, certs.RoleNode, "south")
	testkit.Must(t, err)
	list, err := desk.ListRequests(ctx, &conclavev1.ListRequestsRequest{Dataset: d})
	testkit.Must(t, err)
	if q := list.GetRequests(); len(q) != 2 || q[0].GetSite() != "north" || q[0].GetReplaced() != 1 ||
		q[1].GetReplaced() != 0 || q[1].GetStudySha256() != aStudy || list.GetRoster() != nil {
		t.Errorf("listed %v", list)
	}

	one, sites := c.admit(t, c.certs, d, 1, nil, second)
	for range 2 { // a repeated request changes nothing
		_, err = desk.PublishRoster(ctx, one)
		testkit.Must(t, err)
	}
	_, _, err = north.send(t, certs.RoleNode, "north")
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "admitted with another key", second.Fingerprint)
	two, _ := c.admit(t, c.certs, d, 2, sites, other)
	testkit.Must(t, c.stop()) // the next leader continues
	c.start(Options{})
	north, desk = c.joining(t, d, "north"), rpc.NewAdmitServiceClient(c.dialAs(t, certs.RoleOperator, "desk"))
	if got := north.fetch(t).GetRoster().GetRoster(); !bytes.Equal(got, one.Roster.Roster) {
		t.Errorf("the next leader has the roster %s", got)
	}
	_, err = desk.PublishRoster(ctx, two)
	testkit.Must(t, err)
	_, err = desk.PublishRoster(ctx, one)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "has generation 2")
	without, _ := c.admit(t, c.certs, d, 3, sites)
	_, err = desk.PublishRoster(ctx, without)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, `the new roster drops site "south"`)

	events := map[string]int{}
	for _, e := range auditEntries(t, path) {
		if e.Event == auditlog.SiteAsked || e.Event == auditlog.RosterPublished {
			events[e.Event+" of "+e.Peer]++
		}
	}
	testkit.Same(t, "audit log", map[string]int{"site-request of joiner/north": 2, "site-request of joiner/south": 1,
		"roster-published of operator/desk": 3}, events)
}

// Actions that a kit, or an operator's certificate without the authority's key, must not perform are refused.
func TestWhatAKitCannotDo(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	ctx := testkit.Within(t)
	north := c.joining(t, d, "north")
	for _, as := range []certs.Identity{
		{Role: certs.RoleNode, Name: "south"}, {Role: certs.RoleStudent, Name: "north"},
		{Role: certs.RoleOperator, Name: "north"},
	} {
		_, _, err := north.send(t, as.Role, as.Name)
		roundtest.WantStatus(t, err, codes.PermissionDenied, `the kit is for site "north"`)
	}
	kit := c.dialAs(t, certs.RoleJoiner, "north")
	_, opened := rpc.NewStudentServiceClient(kit).OpenRun(ctx, &conclavev1.OpenRunRequest{})
	asNode := rpc.NewTeacherServiceClient(kit)
	_, checked := asNode.Check(ctx, &conclavev1.CheckRequest{Hello: hello(d, "north", "a", 8)})
	_, listed := rpc.NewAdmitServiceClient(kit).ListRequests(ctx, &conclavev1.ListRequestsRequest{Dataset: d})
	_, shown := rpc.NewRunServiceClient(kit).ShowRun(ctx, &conclavev1.ShowRunRequest{Run: "a"})
	lab := rpc.NewEnrollServiceClient(c.dialAs(t, certs.RoleStudent, "lab"))
	_, fetched := lab.FetchRoster(ctx, &conclavev1.FetchRosterRequest{Dataset: d})
	for what, err := range map[string]error{
		"a run opened": opened, "joined": checked, "listed": listed, "a run shown": shown, "by a student": fetched,
	} {
		if err == nil {
			t.Errorf("%s: allowed", what)
			continue
		}
		roundtest.WantStatus(t, err, codes.PermissionDenied, "may not call")
	}
	for name, q := range map[string]*conclavev1.SendRequestRequest{
		"no request": {Dataset: d, StudySha256: aStudy},
		"too long":   {Dataset: d, StudySha256: aStudy, Request: make([]byte, 5000)},
	} {
		if _, err := north.SendRequest(ctx, q); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			roundtest.WantStatus(t, err, codes.InvalidArgument)
		}
	}
	desk := rpc.NewAdmitServiceClient(c.dialAs(t, certs.RoleOperator, "desk"))
	q, _, err := north.send(t, certs.RoleNode, "north")
	testkit.Must(t, err)
	foreign, _ := c.admit(t, certstest.New(t), d, 1, nil, q)
	_, err = desk.PublishRoster(ctx, foreign)
	roundtest.WantStatus(t, err, codes.InvalidArgument, "not signed by the authority")
	elsewhere, _ := c.admit(t, c.certs, "elsewhere", 1, nil, q)
	elsewhere.Dataset = d
	_, err = desk.PublishRoster(ctx, elsewhere)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, `"elsewhere"`)
	if r := north.fetch(t).GetRoster(); r != nil {
		t.Errorf("a roster stands: %s", r.GetRoster())
	}
}

// A peer that sends requests or looks without pause has to wait.
func TestJoiningHasARate(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	busy := c.joining(t, d, "busy")
	var err error
	for range 100 {
		if _, err = busy.FetchRoster(testkit.Within(t), &conclavev1.FetchRosterRequest{Dataset: d}); err != nil {
			break
		}
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "too often")
	for range 30 {
		if _, err = busy.SendRequest(testkit.Within(t), &conclavev1.SendRequestRequest{Dataset: d}); err != nil &&
			strings.Contains(fmt.Sprint(err), "too many calls") {
			break
		}
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "too many calls that change state")
}

// A dataset with a study accepts only that study's requests and rosters.
func TestADatasetsSitesAreOfItsStudy(t *testing.T) {
	t.Parallel()
	c, of, _ := studied(t)
	north := c.joining(t, "study", "north")
	q, _, err := north.send(t, certs.RoleNode, "north")
	roundtest.WantStatus(t, err, codes.FailedPrecondition, `site "north" asks for another study`, "study heart")
	other, _ := c.admit(t, c.certs, "study", 1, nil, q)
	desk := rpc.NewAdmitServiceClient(c.dialAs(t, certs.RoleOperator, "desk"))
	_, err = desk.PublishRoster(testkit.Within(t), other)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "the roster is for another study", "study heart")

	dir := t.TempDir()
	_, err = request.New(dir, certs.RoleNode, "north", nil, request.FirstKey)
	testkit.Must(t, err)
	raw := testkit.Read(t, certs.FilesAtSite(dir, certs.RoleNode, "north").Request)
	_, err = north.SendRequest(testkit.Within(t), &conclavev1.SendRequestRequest{
		Dataset: "study", StudySha256: of.GetSha256(), Request: raw})
	testkit.Must(t, err)
}
