package coordinator

import (
	"errors"
	"strings"
	"testing"
)

// A ledger holds its own entries, and no others: not later ones, nor those of another.
func TestCheckMark(t *testing.T) {
	c := newCluster(t)
	if m := c.store.KnownMark(c.lead, "flchain"); m != (Mark{}) {
		t.Errorf("before anything was charged %+v is known", m)
	}
	for round := range uint64(3) {
		_, entry, err := c.store.Charge(t.Context(), c.lead, testCharge("first", round, "answer"))
		if err != nil {
			t.Fatal(err)
		}
		if m := c.store.KnownMark(c.lead, "flchain"); m != (Mark{entry.Seq, entry.Hash}) {
			t.Errorf("after entry %d %+v is known", entry.Seq, m)
		}
	}
	if m := c.store.KnownMark(nil, "flchain"); m != (Mark{}) {
		t.Errorf("nobody leads, and %+v is known", m)
	}
	entries, err := c.store.Ledger(t.Context(), "flchain")
	if err != nil {
		t.Fatal(err)
	}
	last := entries[len(entries)-1]
	for _, e := range entries {
		got, err := c.store.CheckMark(t.Context(), "flchain", Mark{e.Seq, e.Hash})
		if err != nil || got != (Mark{last.Seq, last.Hash}) {
			t.Errorf("entry %d: last %+v, %v", e.Seq, got, err)
		}
	}
	if got, err := c.store.CheckMark(t.Context(), "flchain", Mark{}); err != nil || got.Seq != last.Seq {
		t.Errorf("nothing seen: last %+v, %v", got, err)
	}
	for name, seen := range map[string]Mark{
		"later":           {last.Seq + 1, last.Hash},
		"another's":       {last.Seq, entries[0].Hash},
		"without a hash":  {Seq: last.Seq},
		"of great number": {1 << 63, last.Hash},
	} {
		_, err := c.store.CheckMark(t.Context(), "flchain", seen)
		var back *WentBackError
		if !errors.Is(err, ErrWentBack) || !errors.As(err, &back) || back.Seen != seen || back.Last != last.Seq {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), `"flchain"`) || !strings.Contains(err.Error(), "restore a newer backup") {
			t.Errorf("%s: %q does not say what, and what to do", name, err)
		}
	}
	if _, err := c.store.CheckMark(t.Context(), "nowhere", Mark{}); !errors.Is(err, ErrNoDataset) {
		t.Errorf("of no dataset: %v", err)
	}
	if _, err := c.store.CheckMark(t.Context(), "a/b", Mark{}); !errors.Is(err, ErrBadName) {
		t.Errorf("of no name: %v", err)
	}
}
