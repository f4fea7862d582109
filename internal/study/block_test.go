package study

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func blockOf(t *testing.T, text string) *Block {
	t.Helper()
	return testkit.Value(testkit.Value(Parse([]byte(text))).Block([]byte(text)))
}

func TestABlockTravels(t *testing.T) {
	b := blockOf(t, good)
	if err := b.Validate(); err != nil || !FromWire(b.Wire()).Is(b) || b.SHA256 != Hash([]byte(good)) ||
		b.Expires != "2027-06-30" {
		t.Errorf("%+v, %v", b, err)
	}
	if (*Block)(nil).Wire() != nil || FromWire(nil) != nil || (*Block)(nil).Validate() != nil {
		t.Error("no block is one")
	}
	for field, change := range map[string]func(*Block){
		"name":    func(b *Block) { b.Name = "../x" },
		"title":   func(b *Block) { b.Title = strings.Repeat("x", 201) },
		"purpose": func(b *Block) { b.Purpose = "a\nb" },
		"permit":  func(b *Block) { b.Permit = "" },
		"contact": func(b *Block) { b.Contact = "\x1b[2J" },
		"expires": func(b *Block) { b.Expires = "2027-6-1" },
		"sha256":  func(b *Block) { b.SHA256 = strings.ToUpper(b.SHA256) },
	} {
		wrong := *b
		change(&wrong)
		if err := wrong.Validate(); err == nil || !strings.HasPrefix(err.Error(), "study: "+field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestWhichRunsAStudyAdmits(t *testing.T) {
	b := blockOf(t, good)
	before, after := time.Date(2027, 6, 30, 23, 59, 59, 0, time.UTC), time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)
	changed := *b
	changed.Expires = "2099-01-01"
	for name, c := range map[string]struct {
		wanted, run *Block
		now         time.Time
		want        error
	}{
		"it":                         {b, b, before, nil},
		"after its last day":         {b, b, after, ErrEnded},
		"none":                       {b, nil, before, ErrOther},
		"another one":                {b, blockOf(t, good+"# other\n"), before, ErrOther},
		"it, with another end":       {b, &changed, before, ErrOther},
		"none where none is wanted":  {nil, nil, after, nil},
		"any where none is wanted":   {nil, b, before, nil},
		"over where none is wanted":  {nil, b, after, ErrEnded},
		"an end that cannot be read": {nil, &Block{}, before, ErrEnded},
	} {
		if err := c.wanted.Admits(c.run, c.now); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
