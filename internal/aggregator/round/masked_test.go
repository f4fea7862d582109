package round

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maskedAmong is a masked round among sites sorted by name, whose quorum is all of them.
func maskedAmong(t *testing.T, sites ...string) (*Dataset, *Execution, map[string]*masking.Party) {
	t.Helper()
	d, e := inquiring(t)
	e.terms = &conclavev1.RoundTerms{Spec: []byte("spec")}
	e.spec.Masked = &masking.Group{Quorum: len(sites)}
	parties := map[string]*masking.Party{}
	for _, site := range sites {
		key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		parties[site] = testkit.Value(masking.NewParty(site, key))
		fingerprint := testkit.Value(certs.Fingerprint(key.Public()))
		e.spec.Masked.Members = append(e.spec.Masked.Members, masking.Member{
			Site: site, Key: testkit.Value(masking.ParseFingerprint(fingerprint))})
	}
	return d, e, parties
}

// permit makes a node's site permit the run with a party's key.
func permit(e *Execution, n *peer.Node, p *masking.Party) {
	n.Inquire("r", e.permit)
	key := testkit.Value(p.Key("r", sha256.Sum256([]byte("spec")), *e.spec.Masked))
	n.Decide("r", e.permit, peer.Permitted, "", key)
}

// A student of a masked run learns which sites are missing, and which connected ones its run does not name.
func TestAMaskedRoundSaysWhoIsMissing(t *testing.T) {
	d, e, parties := maskedAmong(t, "east", "north", "south")
	waits := func(nodes int, want ...string) {
		t.Helper()
		var ps permits
		got, _, err := e.members(&ps, nil, nil)
		testkit.Must(t, err)
		p, _ := e.watch()
		if len(got) != nodes || p.GetWaitingForQuorum() != (nodes < 3) || !slices.Equal(p.GetWaitingFor(), want) {
			t.Errorf("%d nodes may answer, and the student is told %v; want %d and %q", len(got), p, nodes, want)
		}
	}
	waits(0, "site east, which is not connected", "site north, which is not connected",
		"site south, which is not connected")
	north := newNode("north", 2)
	permit(e, north, parties["north"])
	d.Join(north)
	waits(1, "site east, which is not connected", "site south, which is not connected")
	d.Join(newNode("southern", 2)) // the run misspells it
	d.Join(newNode("west", 2))
	waits(1, "site east, which is not connected", "site south, which is not connected",
		"these connected sites are not members of the run: southern, west")
	for _, site := range []string{"east", "south"} {
		n := newNode(site, 2)
		permit(e, n, parties[site])
		d.Join(n)
	}
	waits(3)
}

// A round ends if too few members are left that may answer, for example if a certificate's key differs from the one
// in the run's spec.
func TestAMaskedRoundEndsWithoutAQuorumOfMembers(t *testing.T) {
	d, e, parties := maskedAmong(t, "north", "south")
	north, south := newNode("north", 2), newNode("south", 2)
	permit(e, north, parties["north"])
	south.Inquire("r", e.permit)
	_, err := parties["south"].Key("r", sha256.Sum256([]byte("another spec")), masking.Group{Members: []masking.Member{
		{Site: "north"}, {Site: "south"}}})
	if err == nil {
		t.Fatal("a key of a run that names another one")
	}
	south.Decide("r", e.permit, peer.Denied, "refused: "+err.Error(), nil)
	d.Join(north)
	d.Join(south)
	var ps permits
	_, _, err = e.members(&ps, nil, nil)
	roundtest.WantStatus(t, fault.Status(err), codes.FailedPrecondition, "needs 2 of its 2 sites", "south/a refused: ",
		"if it was renewed with a new key")
}

// A masked round that nobody waits for is given up, but not at once: a student may reconnect.
func TestAMaskedRoundThatNobodyWaitsFor(t *testing.T) {
	e := testExecution(t)
	late := time.Now().Add(2 * abandonAfter)
	if e.giveUpIdle(late); e.abandoned.Err() != nil {
		t.Error("given up while somebody waits")
	}
	e.Leave()
	if e.giveUpIdle(time.Now()); e.abandoned.Err() != nil {
		t.Error("given up at once")
	}
	if e.giveUpIdle(late); e.abandoned.Err() == nil {
		t.Error("it goes on for nobody")
	}
}
