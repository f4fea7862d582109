package ledger

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// group is a group with the given number of sites.
func group(members, quorum, colluding int) *masking.Group {
	g := &masking.Group{Quorum: quorum, Colluding: colluding}
	for i := range members {
		site := string(rune('a' + i))
		g.Members = append(g.Members, masking.Member{Site: site, Key: sha256.Sum256([]byte(site))})
	}
	return g
}

func (w *writer) openMasked(run string, g *masking.Group) {
	w.t.Helper()
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	w.deltas[run], w.plans[run] = budget.Delta, unlimited()
	w.add(Entry{Type: EntryRun, Run: run,
		Opening: Opening{Budget: &budget, Plan: unlimited(), Masked: g, Facts: facts}})
}

// The entry that opens a masked run has its group, which determines the noise.
func TestVerifyAMaskedRun(t *testing.T) {
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("plain", privacy.Budget{Epsilon: 1, Delta: 1e-5})
	w.openMasked("masked", group(10, 9, 3))
	w.release("masked", 0, summed)
	w.close("plain")
	w.close("masked")
	v, err := verifyStrict(w.bytes())
	testkit.Must(t, err)
	g := v.Runs["masked"].Masked
	if v.Runs["plain"].Masked != nil || g == nil || len(g.Members) != 10 || g.Quorum != 9 || g.Colluding != 3 ||
		g.Members[3] != (masking.Member{Site: "d", Key: sha256.Sum256([]byte("d"))}) {
		t.Fatalf("masked: %+v", g)
	}
	closeTo(t, "the share of each", g.Share(), 1.0/6, 1e-15)
	closeTo(t, "the surplus factor", g.Surplus(10), 1.2909944487358056, 1e-15)
}

// forged replaces text of a ledger and recomputes the hash chain, like the author of a false ledger.
func forged(t *testing.T, w *writer, change func(*Entry)) []byte {
	t.Helper()
	var out bytes.Buffer
	previous := ""
	for _, e := range w.entries {
		change(&e)
		e.Previous = previous
		e.Hash = testkit.Value(e.digest())
		previous = e.Hash
		out.Write(append(testkit.Value(e.Canonical()), '\n'))
	}
	return out.Bytes()
}

func TestVerifyRefusesAGroupThatHidesNothing(t *testing.T) {
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.openMasked("masked", group(3, 3, 1))
	w.close("masked")
	testkit.Value(verifyStrict(forged(t, w, func(*Entry) {})))
	for name, c := range map[string]struct {
		change func(*masking.Group)
		says   string
	}{
		"one site":       {func(g *masking.Group) { g.Members = g.Members[:1] }, "sum of a single site cannot be"},
		"a small quorum": {func(g *masking.Group) { g.Quorum = 2 }, "a quorum of 2 of 3 sites"},
		"all collude":    {func(g *masking.Group) { g.Colluding = 3 }, "colluding is 3 of 3 sites"},
		"no name":        {func(g *masking.Group) { g.Members[1].Site = "b\x1b[2J" }, "use 1 to 128"},
		"two names":      {func(g *masking.Group) { g.Members[1].Site = "a" }, `member "a" comes after "a"`},
		"one key":        {func(g *masking.Group) { g.Members[1].Key = g.Members[0].Key }, "have the same key"},
	} {
		raw := forged(t, w, func(e *Entry) {
			if e.Type == EntryRun {
				e.Masked = group(3, 3, 1)
				c.change(e.Masked)
			}
		})
		if _, err := verifyStrict(raw); err == nil || !strings.Contains(err.Error(), "ledger line 2: masked: ") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
	raw := forged(t, w, func(e *Entry) {
		if e.Type == EntryClose {
			e.Masked = group(3, 3, 1)
		}
	})
	if _, err := verifyStrict(raw); err == nil || !strings.Contains(err.Error(), "does not belong to an entry of type "+
		"close") {
		t.Errorf("of an entry that closes: %v", err)
	}
	// A key has only one spelling.
	hex := group(3, 3, 1).Members[0].Key.Hex()
	raw = bytes.Replace(forged(t, w, func(*Entry) {}), []byte(hex), []byte(strings.ToUpper(hex)), 1)
	if _, err := verifyStrict(raw); err == nil || !strings.Contains(err.Error(), "not in canonical form") {
		t.Errorf("another spelling: %v", err)
	}
}
