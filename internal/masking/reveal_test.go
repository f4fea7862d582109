package masking

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// account records a member's charges.
type account struct {
	charged []Digest
	broken  error // why nothing can be charged
}

func (a *account) pay(opening Digest) error {
	if a.broken == nil {
		a.charged = append(a.charged, opening)
	}
	return a.broken
}

// begin has all parties answer an attempt at a round. The first one pays.
func (r *run) begin(round uint64, pay Pay) *Terms {
	r.t.Helper()
	terms := r.terms(round, 4, 0, 1, 2)
	for i, p := range r.parties {
		if i > 0 {
			pay = free
		}
		testkit.Value(testkit.Value(p.Begin(terms, pay)).Mask(make([]int64, 4)))
	}
	return terms
}

// agree has some of the parties agree that they are in the sum, and returns the tags that each makes for the others.
func (r *run) agree(round uint64, among ...int) (made [][][]byte) {
	r.t.Helper()
	for _, i := range among {
		tags := testkit.Value(r.parties[i].Agree("r", round, sites(among...)))
		testkit.Must(r.t, CheckTags(sites(among...), tags))
		made = append(made, tags)
	}
	return made
}

// toFirst are tags for the first party.
func (r *run) toFirst(round uint64, among ...int) [][]byte {
	r.t.Helper()
	return TagsFor(0, r.agree(round, among...))
}

func wants(t *testing.T, name, want string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// An attempt is charged when it is opened, under a name of its own, before a seed is revealed: not for its answer, nor
// for the agreement, nor for tags that are wrong, nor for seeds that are shown again.
func TestAnOpeningIsChargedBeforeItsSeedsAreRevealed(t *testing.T) {
	r, a := newRun(t, 3, 2, 0), &account{broken: errors.New("the disk is full")}
	p := r.parties[0]
	terms := r.begin(0, a.pay)
	tags := r.toFirst(0, 0, 1, 2)
	for range 2 {
		if revealed, err := p.Reveal("r", 0, tags); err != a.broken || revealed != nil {
			t.Errorf("revealed %v without a charge: %v", revealed, err)
		}
	}
	a.broken = nil
	_, err := p.Reveal("r", 0, [][]byte{tags[1], tags[1]})
	if wants(t, "a wrong tag", "the tags of b are not", err); len(a.charged) != 0 {
		t.Error("charged for nothing")
	}
	revealed := testkit.Value(p.Reveal("r", 0, tags))
	if again := testkit.Value(p.Reveal("r", 0, nil)); again != revealed || len(a.charged) != 1 {
		t.Errorf("charged %d times", len(a.charged))
	}
	if a.charged[0] != agreed("r", terms.Digest(), sites(0, 1, 2)).digest() {
		t.Error("the opening has another name")
	}
	for _, among := range [][]int{{0, 1, 2}, {0, 1}} { // another attempt, and another list
		r.begin(0, a.pay)
		testkit.Value(p.Reveal("r", 0, r.toFirst(0, among...)))
	}
	if len(a.charged) != 3 || a.charged[0] == a.charged[1] || a.charged[1] == a.charged[2] {
		t.Errorf("charged are %x", a.charged)
	}
}

// A member answers as many attempts as it is asked, and agrees to them. It opens a limited number of a round, and then
// answers no further one.
func TestOpeningsOfARoundHaveABound(t *testing.T) {
	r, a := newRun(t, 3, 2, 0), &account{}
	for round := range uint64(2) {
		for opened := range 1 + Retries {
			for unopened := range 20 {
				if r.begin(round, a.pay); unopened%2 == 0 {
					r.agree(round, 0, 1)
				}
			}
			r.begin(round, a.pay)
			testkit.Value(r.parties[0].Reveal("r", round, r.toFirst(round, 0, 1, 2)))
			if want := int(round)*(1+Retries) + opened + 1; len(a.charged) != want {
				t.Fatalf("charged %d times, want %d", len(a.charged), want)
			}
		}
		_, err := r.parties[0].Begin(r.terms(round, 4, 0, 1, 2), a.pay)
		wants(t, "one more attempt", "were revealed 4 times, the maximum", err)
	}
}

// While an opening is charged its run may end, and another attempt may begin: then nothing is revealed of it, though
// it is charged. Nor is it opened twice at a time.
func TestWhatHappensWhileAnOpeningIsCharged(t *testing.T) {
	for name, meanwhile := range map[string]func(*run){
		"another attempt": func(r *run) { r.begin(0, free) },
		"another round":   func(r *run) { r.begin(1, free) },
		"the run's end":   func(r *run) { r.parties[0].Over("r") },
		"the run again": func(r *run) {
			r.parties[0].Over("r")
			r.begin(0, free)
		},
	} {
		r := newRun(t, 3, 2, 0)
		p := r.parties[0]
		r.begin(0, func(Digest) error {
			meanwhile(r)
			return nil
		})
		if revealed, err := p.Reveal("r", 0, r.toFirst(0, 0, 1, 2)); err == nil || revealed != nil {
			t.Errorf("%s: revealed %v", name, revealed)
		}
	}
	r := newRun(t, 3, 2, 0)
	var tags [][]byte
	r.begin(0, func(Digest) error {
		_, err := r.parties[0].Reveal("r", 0, tags)
		wants(t, "at the same time", "ask again", err)
		return nil
	})
	tags = r.toFirst(0, 0, 1, 2)
	testkit.Value(r.parties[0].Reveal("r", 0, tags))
}
