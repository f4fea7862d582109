package results

import (
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
)

func TestReceiptsMustBeInTheLedger(t *testing.T) {
	lines := [][]byte{
		[]byte(`{"type":"open"}`),
		[]byte(`{"run":"r","round":0,"hash":"a"}`),
		[]byte(`{"run":"other","round":0,"hash":"x"}`),
		[]byte(`{"run":"r","round":1,"hash":"b"}`),
	}
	releases := ReleasesOf(lines, "r")
	if len(releases) != 2 || releases[1].Hash != "b" {
		t.Fatalf("releases %+v", releases)
	}
	for _, c := range []struct {
		receipts []string
		releases []ledger.Entry
		ok       bool
	}{
		{[]string{"a", "b"}, releases, true},
		{[]string{"a"}, releases, true}, // the ledger is ahead: a release was not learned from yet
		{nil, nil, true},
		{[]string{"a", "x"}, releases, false},
		{[]string{"a"}, nil, false},
		{[]string{""}, releases, false},
	} {
		if err := CheckReceipts(c.receipts, c.releases); (err == nil) != c.ok ||
			err != nil && !errors.Is(err, ErrOtherLedger) {
			t.Errorf("receipts %q of %d releases: %v", c.receipts, len(c.releases), err)
		}
	}
}
