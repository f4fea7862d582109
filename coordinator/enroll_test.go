package coordinator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func ask(site, key string) SiteRequest {
	return SiteRequest{Dataset: "flchain", Site: site, Study: "s", Key: key, PEM: []byte(key)}
}

// A request may be replaced until its site is admitted, and a roster only adds sites.
func TestRequestsAndRosters(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	for i, step := range []struct{ key, replaced string }{{"a", ""}, {"a", ""}, {"b", "a"}, {"a", "b"}} {
		replaced, err := c.store.StoreRequest(ctx, c.lead, ask("north", step.key))
		if err != nil || replaced != step.replaced {
			t.Errorf("step %d: %q, %v; want %q", i, replaced, err, step.replaced)
		}
	}
	roster, asked, err := c.store.Enrolled(ctx, "flchain", "north")
	if err != nil || roster != nil || asked == nil || asked.Key != "a" || asked.Replaced != 2 || asked.Received == "" {
		t.Errorf("%+v, %+v, %v", roster, asked, err)
	}
	one := Roster{Dataset: "flchain", Generation: 1, Keys: map[string]string{"north": "a"}, Text: []byte("1")}
	two := Roster{Dataset: "flchain", Generation: 2, Keys: map[string]string{"north": "a", "south": "c"},
		Text: []byte("2")}
	for name, r := range map[string]Roster{
		"the second before the first": two,
		"of no generation":            {Dataset: "flchain", Keys: one.Keys, Text: []byte("0")},
	} {
		if err := c.store.PublishRoster(ctx, c.lead, r); !errors.Is(err, ErrEnroll) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range []Roster{one, one, two, two} {
		testkit.Must(t, c.store.PublishRoster(ctx, c.lead, r))
	}
	for name, r := range map[string]Roster{
		"an older one":  one,
		"a site less":   {Dataset: "flchain", Generation: 3, Keys: map[string]string{"south": "c"}},
		"another key":   {Dataset: "flchain", Generation: 3, Keys: map[string]string{"north": "a", "south": "d"}},
		"one left out":  {Dataset: "flchain", Generation: 4, Keys: two.Keys},
		"the same anew": {Dataset: "flchain", Generation: 2, Keys: two.Keys, Text: []byte("other")},
	} {
		if err := c.store.PublishRoster(ctx, c.lead, r); !errors.Is(err, ErrEnroll) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.store.StoreRequest(ctx, c.lead, ask("south", "d")); !errors.Is(err, ErrEnroll) {
		t.Errorf("another key of a site that is admitted: %v", err)
	}
	_, err = c.store.StoreRequest(ctx, c.lead, ask("south", "c"))
	testkit.Must(t, err)
	for _, bad := range []string{"", "a/b", "../roster"} {
		if _, err := c.store.StoreRequest(ctx, c.lead, ask(bad, "k")); !errors.Is(err, ErrBadName) {
			t.Errorf("site %q: %v", bad, err)
		}
	}
	if got, err := c.store.Roster(ctx, "flchain"); err != nil || got.Generation != 2 {
		t.Errorf("the roster is %+v, %v", got, err)
	}
	if all, err := c.store.Requests(ctx, "flchain"); err != nil || len(all) != 2 || all[0].Site != "north" {
		t.Errorf("the requests are %+v, %v", all, err)
	}
}

// The number of requests is limited to a study's number of sites.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	for i := range MaxSites {
		_, err := c.store.StoreRequest(ctx, c.lead, ask(fmt.Sprint("site", i), "k"))
		testkit.Must(t, err)
	}
	if _, err := c.store.StoreRequest(ctx, c.lead, ask("more", "k")); !errors.Is(err, ErrEnroll) {
		t.Errorf("one more: %v", err)
	}
	_, err := c.store.StoreRequest(ctx, c.lead, ask("site0", "other"))
	testkit.Must(t, err)
}

// A deposed leader writes no request and no roster.
func TestOnlyTheLeaderAdmits(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	testkit.Must(t, c.lead.Resign(ctx))
	if _, err := c.store.StoreRequest(ctx, c.lead, ask("north", "a")); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a request: %v", err)
	}
	r := Roster{Dataset: "flchain", Generation: 1, Keys: map[string]string{"north": "a"}, Text: []byte("1")}
	if err := c.store.PublishRoster(ctx, c.lead, r); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a roster: %v", err)
	}
}
