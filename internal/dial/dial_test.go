package dial

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig/tlsconfigtest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for list, want := range map[string]string{
		"a:1":                   "a:1",
		" a:1 , [::1]:2,b.c:3 ": "a:1, [::1]:2, b.c:3",
	} {
		target, err := Parse(list, "")
		if err != nil || target.String() != want {
			t.Errorf("%q: %q, %v", list, target, err)
		}
	}
	for list, want := range map[string]string{
		"": "missing", " ": "missing", "a": `"a" is not an address`, "a:": "is not an address",
		":1":   "is not an address",
		"a:1,": `"" is not an address`, "a:1;b:2": "is not an address", "a:1,b:2,a:1": `"a:1" is listed twice`,
	} {
		if _, err := Parse(list, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", list, err, want)
		}
	}
}

func TestCertificatesNameTheHostUnlessSet(t *testing.T) {
	for _, c := range []struct{ address, set, want string }{
		{"host:7443", "", "host"}, {"[::1]:7443", "", "::1"}, {"host:7443", "other", "other"},
	} {
		target, err := Parse("first:1,"+c.address, c.set)
		testkit.Must(t, err)
		if got := target.nameOf(c.address); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// aggregators are servers of one authority, each with a certificate of its own host.
type aggregators struct {
	t   *testing.T
	dir string
}

func newAggregators(t *testing.T) aggregators {
	t.Helper()
	a := aggregators{t, t.TempDir()}
	testkit.Must(t, authority.Create(a.dir))
	testkit.Must(t, authority.Issue(a.dir, certs.RoleStudent, "s", nil, time.Hour))
	return a
}

// serve answers health checks at an address, under a certificate for host.
func (a aggregators) serve(name, host, address string) (at string, stop func()) {
	a.t.Helper()
	if err := authority.Issue(a.dir, certs.RoleAggregator, name, []string{host}, time.Hour); err != nil &&
		!errors.Is(err, certs.ErrExists) {
		a.t.Fatal(err)
	}
	return tlsconfigtest.Serve(a.t, certs.IssuedFiles(a.dir, certs.RoleAggregator, name), address,
		func(server *grpc.Server) { healthpb.RegisterHealthServer(server, health.NewServer()) })
}

func (a aggregators) connect(list, serverName string) *Conn {
	a.t.Helper()
	target, err := Parse(list, serverName)
	testkit.Must(a.t, err)
	return a.connectBy(newNames(target))
}

// connectBy connects with a role that reads the authority's list.
func (a aggregators) connectBy(addresses names) *Conn {
	a.t.Helper()
	files := certs.IssuedFiles(a.dir, certs.RoleStudent, "s")
	files.Revoked = certs.RevokedFile(a.dir)
	conn, err := addresses.target.connect(files, 200*time.Millisecond, addresses)
	testkit.Must(a.t, err)
	a.t.Cleanup(func() { testkit.Must(a.t, conn.Close()) })
	return conn
}

// ask waits until somebody answers.
func ask(t *testing.T, conn *Conn) {
	t.Helper()
	ctx := testkit.Within(t)
	pauses := Pauses(100 * time.Millisecond)
	for {
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		Wait(ctx, pauses.NextBackOff())
	}
}

// The listening aggregator is found, at any place in the list, also when it has just taken over under another name.
func TestTheOneThatListensAnswers(t *testing.T) {
	a := newAggregators(t)
	first, second := testkit.FreeAddress(t, "127.0.0.1"), testkit.FreeAddress(t, "127.0.0.2")
	_, stop := a.serve("second", "127.0.0.2", second)
	conn := a.connect(first+","+second, "")
	ask(t, conn)
	for range 3 {
		stop()
		_, stop = a.serve("first", "127.0.0.1", first)
		ask(t, conn)
		testkit.Must(t, conn.Probe(testkit.Within(t)))
		stop()
		_, stop = a.serve("second", "127.0.0.2", second)
		ask(t, conn)
	}
	stop()
}

// A certificate that names another host is not taken, at whichever address it is shown.
func TestEachAddressMustProveItsOwnName(t *testing.T) {
	t.Parallel()
	a := newAggregators(t)
	first, stopFirst := a.serve("first", "127.0.0.1", "127.0.0.1:0")
	defer stopFirst()
	wrong, stopWrong := a.serve("first", "127.0.0.1", "127.0.0.2:0")
	defer stopWrong()
	for list, good := range map[string]bool{first: true, wrong: false, wrong + "," + first: true} {
		conn := a.connect(list, "")
		patience := 2 * time.Second
		if good {
			patience = testkit.Patience
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		cancel()
		if good != (err == nil) {
			t.Errorf("%s: %v", list, err)
		}
		if err := conn.Probe(testkit.Within(t)); strings.Contains(list, wrong) != errors.Is(err, certs.ErrWrongHost) {
			t.Errorf("probe %s: %v", list, err)
		}
	}
	// A name that is set holds for all.
	ask(t, a.connect(wrong, "127.0.0.1"))
	conn := a.connect(first, "127.0.0.9")
	if _, err := healthpb.NewHealthClient(conn).Check(testkit.Within(t),
		&healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of another name: %v", err)
	}
}

// Pauses grow, stay below the bound, and start again after a reset.
func TestPauses(t *testing.T) {
	check := func(p *backoff.ExponentialBackOff, most time.Duration) {
		t.Helper()
		// A nanosecond is lost in each rounding.
		if pause := p.NextBackOff(); pause < most/2-50 || pause > most+50 {
			t.Errorf("a pause of %v is not in the upper half of %v", pause, most)
		}
	}
	p := Pauses(time.Second)
	for most := 100 * time.Millisecond; most < time.Second; most = most * 6 / 5 {
		check(p, most)
	}
	for range 20 {
		check(p, time.Second)
	}
	p.Reset()
	check(p, 100*time.Millisecond)
	small := Pauses(time.Nanosecond) // no less than the first
	for range 5 {
		check(small, 100*time.Millisecond)
	}
}

// A wait lasts as long as its pause, and ends with the context.
func TestWait(t *testing.T) {
	started := time.Now()
	Wait(testkit.Within(t), 50*time.Millisecond)
	if took := time.Since(started); took < 50*time.Millisecond {
		t.Errorf("waited %v", took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	started = time.Now()
	Wait(ended, time.Hour)
	if took := time.Since(started); took > time.Minute {
		t.Errorf("waited %v", took)
	}
}
