package aggregator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func conductAt(now *time.Time) *conduct {
	c := newConduct()
	c.now = func() time.Time { return *now }
	return c
}

func TestStrikesPutOutForAWhile(t *testing.T) {
	now := time.Unix(0, 0)
	c := conductAt(&now)
	node, site, other := offender{"north", "d", "a"}, offender{site: "north"}, offender{"north", "d", "b"}
	why := rejectedf(malformedKind, "no votes at all")
	for i := range maxStrikes - 1 {
		if err := c.strike(node, why); err != nil {
			t.Fatalf("out after %d: %v", i+1, err)
		}
	}
	testkit.Must(t, c.join(node))
	err := c.strike(node, why)
	for _, part := range []string{"north/a", "no votes at all", "10m0s"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if codeOf(err) != codes.PermissionDenied || quiet(err) {
		t.Errorf("%v: code %v, quiet %v", err, codeOf(err), quiet(err))
	}
	now = now.Add(9 * time.Minute)
	if err := c.join(node); !quiet(err) || !strings.Contains(err.Error(), "1m0s") {
		t.Errorf("after 9 minutes: %v", err)
	}
	testkit.Must(t, c.join(other))
	testkit.Must(t, c.admits(site))
	now = now.Add(time.Minute)
	testkit.Must(t, c.join(node))
	testkit.Must(t, c.strike(node, why))
}

func TestSitesAreOutBeforeTheirHello(t *testing.T) {
	now := time.Unix(0, 0)
	c := conductAt(&now)
	site := offender{site: "north"}
	for range maxSiteStrikes {
		testkit.Must(t, c.admits(site))
		_ = c.strike(site, errors.New("no hello"))
	}
	if err := c.admits(site); !quiet(err) {
		t.Errorf("%v", err)
	}
	testkit.Must(t, c.admits(offender{site: "south"}))
	now = now.Add(conductWindow)
	testkit.Must(t, c.admits(site))
}

// A node that makes a mistake now and then stays.
func TestStrikesAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	c := conductAt(&now)
	for range 50 * maxStrikes {
		testkit.Must(t, c.strike(offender{"north", "d", "a"}, errors.New("no")))
		now = now.Add(conductWindow/(maxStrikes-1) + time.Second)
	}
}

func TestJoinsAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	c := conductAt(&now)
	for range maxJoins {
		testkit.Must(t, c.join(offender{"north", "d", "a"}))
	}
	if err := c.join(offender{"north", "d", "a"}); err == nil || quiet(err) || !strings.Contains(err.Error(), "joined 600 times") {
		t.Errorf("%v", err)
	}
}

// Names that are made up do not fill the memory, and do not push out who is out.
func TestConductIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	c := conductAt(&now)
	bad := offender{"north", "d", "bad"}
	for range maxStrikes {
		_ = c.strike(bad, errors.New("no"))
	}
	for i := range 4 * maxOffenders {
		_ = c.join(offender{"north", "d", fmt.Sprint(i)})
	}
	if n := len(c.of); n > maxOffenders {
		t.Errorf("%d records", n)
	}
	if c.join(bad) == nil {
		t.Error("who was out is back")
	}
}
