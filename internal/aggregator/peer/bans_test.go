package peer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func bansAt(now *time.Time) *Bans {
	b := NewBans()
	b.now = func() time.Time { return *now }
	return b
}

// repeated reports whether an error repeats an existing ban.
func repeated(err error) bool {
	ban := Banned(err)
	return ban != nil && !ban.First
}

func TestStrikesBanForAWhile(t *testing.T) {
	now := time.Unix(0, 0)
	b := bansAt(&now)
	node, site, other := Offender{"north", "d", "a"}, Offender{Site: "north"}, Offender{"north", "d", "b"}
	why := fault.Rejectf(fault.Malformed, "no votes at all")
	for i := range maxStrikes - 1 {
		if err := b.Strike(node, why); err != nil {
			t.Fatalf("banned after %d: %v", i+1, err)
		}
	}
	testkit.Must(t, b.Join(node))
	err := b.Strike(node, why)
	for _, part := range []string{"north/a", "no votes at all", "10m0s"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if fault.Code(err) != codes.PermissionDenied || !Banned(err).First {
		t.Errorf("%v: code %v", err, fault.Code(err))
	}
	now = now.Add(9 * time.Minute)
	if err := b.Join(node); !repeated(err) || !strings.Contains(err.Error(), "1m0s") {
		t.Errorf("after 9 minutes: %v", err)
	}
	testkit.Must(t, b.Join(other))
	testkit.Must(t, b.Check(site))
	now = now.Add(time.Minute)
	testkit.Must(t, b.Join(node))
	testkit.Must(t, b.Strike(node, why))
}

func TestSitesAreBannedBeforeTheirHello(t *testing.T) {
	now := time.Unix(0, 0)
	b := bansAt(&now)
	site := Offender{Site: "north"}
	for range maxSiteStrikes {
		testkit.Must(t, b.Check(site))
		_ = b.Strike(site, errors.New("no hello"))
	}
	if err := b.Check(site); !repeated(err) {
		t.Errorf("%v", err)
	}
	testkit.Must(t, b.Check(Offender{Site: "south"}))
	now = now.Add(banWindow)
	testkit.Must(t, b.Check(site))
}

// A node that makes occasional mistakes is not banned.
func TestStrikesAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	b := bansAt(&now)
	for range 50 * maxStrikes {
		testkit.Must(t, b.Strike(Offender{"north", "d", "a"}, errors.New("no")))
		now = now.Add(banWindow/(maxStrikes-1) + time.Second)
	}
}

func TestJoinsAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	b := bansAt(&now)
	for range maxJoins {
		testkit.Must(t, b.Join(Offender{"north", "d", "a"}))
	}
	if err := b.Join(Offender{"north", "d", "a"}); Banned(err) == nil || !Banned(err).First ||
		!strings.Contains(err.Error(), "joined 600 times") {
		t.Errorf("%v", err)
	}
}

// Invented names do not fill the memory and do not end a ban.
func TestBansAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	b := bansAt(&now)
	bad := Offender{"north", "d", "bad"}
	for range maxStrikes {
		_ = b.Strike(bad, errors.New("no"))
	}
	for i := range 4 * maxOffenders {
		_ = b.Join(Offender{"north", "d", fmt.Sprint(i)})
	}
	if n := len(b.records); n > maxOffenders {
		t.Errorf("%d records", n)
	}
	if b.Join(bad) == nil {
		t.Error("the ban is over")
	}
}
