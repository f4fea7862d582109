package aggregator

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// insisting makes a cluster's server require the authority's revocation list.
func insisting(c *Config) { c.TLS.Revoked = certs.RevokedFile(filepath.Dir(c.TLS.CA)) }

// revoke revokes the certificates of a site or a student, as its operator does.
func (c *cluster) revoke(t testing.TB, role certs.Role, name string) {
	t.Helper()
	_, err := authority.Revoke(c.certs, authority.Revocation{Role: role, Name: name, Reason: certs.ReasonWithdrawn})
	testkit.Must(t, err)
}

// turnedAway requires a handshake to fail.
func (c *cluster) turnedAway(t *testing.T, f certs.Files) {
	t.Helper()
	_, err := healthpb.NewHealthClient(c.boldly(t, f)).Check(testkit.Within(t), &healthpb.HealthCheckRequest{})
	roundtest.WantStatus(t, err, codes.Unavailable)
}

// Revocation ends every kind of call, idle or busy, with the reason, refuses the peer from then on, and is in the
// audit log.
func TestRevocationEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	c := newCluster(t, Options{}, change, insisting)
	address := c.server.MonitorAddr().String()
	d := c.dataset()
	north := c.node(t, hello(d, "north", "a", 4), roundtest.Silent)
	c.node(t, hello(d, "south", "a", 4), roundtest.Silent)
	live := `conclave_connected_teachers{dataset="` + d + `"}`

	conn := c.dial(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student"))
	student := &testStudent{rpc.NewStudentServiceClient(conn)}
	spec, _ := student.open(t, d, nil)
	health := healthpb.NewHealthClient(conn)
	_, err := health.Check(testkit.Within(t), &healthpb.HealthCheckRequest{})
	testkit.Must(t, err)
	watch, err := health.Watch(testkit.Within(t), &healthpb.HealthCheckRequest{})
	testkit.Must(t, err)
	_, err = watch.Recv()
	testkit.Must(t, err)
	waits := inBackground(t, student, roundtest.VoteRound(spec.Name, 0, 2))
	silence, err := student.Ask(testkit.Within(t)) // nothing is ever sent on it
	testkit.Must(t, err)
	if n := scrape(t, address)[live]; n != 8 {
		t.Fatalf("%v teachers are live", n)
	}

	began := time.Now()
	c.revoke(t, certs.RoleNode, "north")
	testkit.Receive(t, north.ended)
	t.Logf("an idle node is out after %v", time.Since(began))
	roundtest.WantStatus(t, north.err, codes.Unauthenticated, "certificate", "revoked", "privilege-withdrawn")
	testkit.Eventually(t, "its teachers to be gone", func() bool { return scrape(t, address)[live] == 4 })
	c.turnedAway(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north"))

	c.revoke(t, certs.RoleStudent, "student")
	roundtest.WantStatus(t, testkit.Receive(t, waits), codes.Unauthenticated, "revoked")
	if _, err = watch.Recv(); err == nil {
		_, err = watch.Recv()
	}
	roundtest.WantStatus(t, err, codes.Unauthenticated, "revoked")
	_, err = silence.Recv()
	// its connection is closed
	if code := status.Code(err); code != codes.Unauthenticated && code != codes.Unavailable {
		t.Errorf("a stream that says nothing: %v", err)
	}
	for {
		_, err := health.Check(testkit.Within(t), &healthpb.HealthCheckRequest{})
		if status.Code(err) == codes.Unavailable { // the old connection is closed, and a new one is refused
			break
		}
		roundtest.WantStatus(t, err, codes.Unauthenticated, "revoked")
	}

	refused := map[string]string{}
	for _, e := range of(auditEntries(t, path), auditlog.Refused) {
		if e.Method == "TLS" {
			refused["TLS "+e.Peer] = e.Reason
		} else if e.Code == codes.Unauthenticated.String() {
			refused[e.Method[strings.LastIndexByte(e.Method, '/')+1:]+" "+e.Peer] = e.Reason
		}
	}
	for _, call := range []string{"Work node/north", "Ask student/student", "Watch student/student", "TLS node/north"} {
		if !strings.Contains(refused[call], "revoked") {
			t.Errorf("the audit log says %q of %s; it has %v", refused[call], call, refused)
		}
	}
	if n := scrape(t, address)[`conclave_tls_refused_total{reason="revoked"}`]; n < 1 {
		t.Errorf("%v handshakes are counted", n)
	}
}

// The next message is enough: a busy node is disconnected before the next periodic check, and its message is not
// counted.
func TestRevocationTakesEffectOnTheNextMessage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, insisting)
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum, s.DeadlineSeconds = 0.5, 60 })
	go1 := make(chan struct{})
	north := c.node(t, hello(d, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		<-go1
		return roundtest.Votes(4, func(int, int) int { return 1 })(r)
	})
	c.node(t, hello(d, "south", "a", 4), roundtest.Votes(4, func(int, int) int { return 0 }))
	released := releasing(t, student, roundtest.VoteRound(spec.Name, 0, 2))
	testkit.Eventually(t, "north to be asked", func() bool { return len(north.rounds) > 0 })
	c.revoke(t, certs.RoleNode, "north")
	time.Sleep(120 * time.Millisecond) // longer than the interval between checks
	close(go1)
	if r := testkit.Receive(t, released); r.GetTeachers() != 4 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	testkit.Receive(t, north.ended)
	roundtest.WantStatus(t, north.err, codes.Unauthenticated, "revoked")
}

// A node that has answered is revoked while the round is open, or just before its charge. The round ends without a
// release, at no cost. Asked again, it is released without that node, and so is a later round.
func TestVotesOfARevokedNodeAreNotCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, insisting)
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum, s.DeadlineSeconds = 0.5, 60 })
	hold := make(chan struct{})
	north := c.node(t, hello(d, "north", "a", 4), roundtest.Votes(4, func(int, int) int { return 1 }))
	c.node(t, hello(d, "south", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		<-hold
		return roundtest.Votes(4, func(int, int) int { return 0 })(r)
	})
	result := inBackground(t, student, roundtest.VoteRound(spec.Name, 0, 2))
	testkit.Eventually(t, "the first node's answer", func() bool {
		return c.server.rounds.Answered(t.Context(), spec.Name) == 4
	})
	c.revoke(t, certs.RoleNode, "north")
	roundtest.WantStatus(t, testkit.Receive(t, result), codes.Unavailable, "asked again", "north/a", "revoked")
	testkit.Receive(t, north.ended)
	close(hold)
	r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2))
	if r.GetTeachers() != 4 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	if entries := student.ledger(t, spec.Name); len(entries) != 1 {
		t.Errorf("charged %d times", len(entries))
	}
}

// A certificate that expires ends its stream; the node returns with another one.
func TestExpiryEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	testkit.Must(t, authority.Issue(c.certs, certs.RoleNode, "brief", nil, 15*time.Second))
	north := c.node(t, hello(d, "brief", "a", 4), roundtest.Silent)
	testkit.Receive(t, north.ended)
	roundtest.WantStatus(t, north.err, codes.Unauthenticated, "expired", "connect again with a new one")
	files := certs.IssuedFiles(c.certs, certs.RoleNode, "brief")
	testkit.Must(t, os.Remove(files.Cert))
	testkit.Must(t, os.Remove(files.Key))
	testkit.Must(t, authority.Issue(c.certs, certs.RoleNode, "brief", nil, time.Hour))
	c.node(t, hello(d, "brief", "a", 4), roundtest.Silent)
}

// odd issues a certificate from the cluster's authority that its own commands would refuse.
func (c *cluster) odd(t *testing.T, uris ...string) certs.Files {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(c.certs, "ca.crt"), filepath.Join(c.certs, "ca.key"))
	testkit.Must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		testkit.Must(t, err)
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	testkit.Must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.Must(t, err)
	dir := t.TempDir()
	f := certs.Files{CA: filepath.Join(c.certs, "ca.crt"), Cert: filepath.Join(dir, "odd.crt"),
		Key: filepath.Join(dir, "odd.key")}
	testkit.Must(t, os.WriteFile(f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	testkit.Must(t, os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	return f
}

// boldly dials with a certificate without checking it first.
func (c *cluster) boldly(t *testing.T, f certs.Files) *grpc.ClientConn {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	testkit.Must(t, err)
	conn, err := grpc.NewClient(c.server.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	})))
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A certificate is valid only for its exact site and role.
func TestACertificateSpeaksForItsOwnSiteAndRole(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	say := func(t *testing.T, conn *grpc.ClientConn, h *conclavev1.Hello) error {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		stream, err := rpc.NewTeacherServiceClient(conn).Work(ctx)
		if err != nil {
			return err
		}
		_ = stream.Send(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}})
		_, err = stream.Recv()
		return err
	}
	north := certs.IssuedFiles(c.certs, certs.RoleNode, "north")
	for name, site := range map[string]string{
		"another site": "south", "capitals": "NORTH", "a capital": "North", "space before": " north",
		"space behind": "north ", "escaped": "%6eorth", "a dot behind": "north.",
		"folder": "../north", "nothing": "", "zero byte": "north\x00", "kind of a URI": "node/north", "all": "*",
		"look-alike": "n\u043erth", "soft hyphen": "no\u00adrth",
	} {
		t.Run("a hello of "+name, func(t *testing.T) {
			err := say(t, c.boldly(t, north), hello(d, site, "a", 4))
			roundtest.WantStatus(t, err, codes.PermissionDenied, `the certificate is for site "north"`)
		})
	}
	t.Run("other roles", func(t *testing.T) {
		roundtest.WantStatus(t, say(t, c.boldly(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student")),
			hello(d, "student", "a", 4)), codes.PermissionDenied, "student")
		roundtest.WantStatus(t, say(t, c.boldly(t, certs.IssuedFiles(c.certs, certs.RoleAggregator, "agg")),
			hello(d, "agg", "a", 4)), codes.PermissionDenied, "aggregator")
		for _, f := range []certs.Files{north, certs.IssuedFiles(c.certs, certs.RoleAggregator, "agg")} {
			student := rpc.NewStudentServiceClient(c.boldly(t, f))
			_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: roundtest.Spec()})
			roundtest.WantStatus(t, err, codes.PermissionDenied, "student")
			_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: "r"})
			roundtest.WantStatus(t, err, codes.PermissionDenied, "student")
			ask, err := student.Ask(testkit.Within(t))
			testkit.Must(t, err)
			_, err = ask.Recv()
			roundtest.WantStatus(t, err, codes.PermissionDenied, "student")
			ledger, err := student.ReadLedger(testkit.Within(t), &conclavev1.ReadLedgerRequest{Run: "r"})
			testkit.Must(t, err)
			_, err = ledger.Recv()
			roundtest.WantStatus(t, err, codes.PermissionDenied, "student")
		}
	})
	// Certificates of the right authority that are still refused.
	for name, uris := range map[string][]string{
		"two identities":               {"conclave://node/north", "conclave://student/student"},
		"one identity twice":           {"conclave://node/north", "conclave://node/north"},
		"none":                         nil,
		"another scheme":               {"spiffe://node/north"},
		"role in capitals":             {"conclave://NODE/north"},
		"escaped":                      {"conclave://node/%6eorth"},
		"escaped slash":                {"conclave://node/north%2Fsouth"},
		"two slashes":                  {"conclave://node//north"},
		"a folder":                     {"conclave://node/../student/lab"},
		"user":                         {"conclave://north@node/north"},
		"port":                         {"conclave://node:7443/north"},
		"query":                        {"conclave://node/north?role=student"},
		"fragment":                     {"conclave://node/north#student"},
		"no name":                      {"conclave://node/"},
		"opaque":                       {"conclave:node/north"},
		"a role that there is not":     {"conclave://admin/north"},
		"an identity in a longer path": {"conclave://x/node/north"},
	} {
		t.Run("a certificate with "+name, func(t *testing.T) {
			roundtest.WantStatus(t, say(t, c.boldly(t, c.odd(t, uris...)), hello(d, "north", "a", 4)),
				codes.Unavailable)
		})
	}
	t.Run("from another authority", func(t *testing.T) {
		foreign := filepath.Join(t.TempDir(), "certs")
		testkit.Must(t, authority.Create(foreign))
		testkit.Must(t, authority.Issue(foreign, certs.RoleNode, "north", nil, time.Hour))
		roundtest.WantStatus(t, say(t, c.boldly(t, certs.IssuedFiles(foreign, certs.RoleNode, "north")),
			hello(d, "north", "a", 4)), codes.Unavailable)
	})
	t.Run("with a name in capitals", func(t *testing.T) {
		f := c.odd(t, "conclave://node/North") // another authority may issue it
		roundtest.WantStatus(t, say(t, c.boldly(t, f), hello(d, "north", "a", 4)), codes.PermissionDenied,
			`the certificate is for site "North"`)
	})
	t.Run("what is right is let in", func(t *testing.T) {
		testkit.Must(t,
			say(t, c.boldly(t, c.odd(t, "conclave://node/north", "https://north.example")), hello(d, "north", "a", 4)))
	})
}
