package masking

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// shown are the sets of honest members whose summed answers have no mask left, as bits: groups that masks connect
// which nobody revealed, all of whose own masks were. Survivors, those who opened and colluders are bits too. The
// aggregator has the answers of all members, also of those that it calls lost.
func shown(t *Terms, survivors, opened, collude int) (sums []int) {
	in := func(set, i int) bool { return set>>i&1 == 1 }
	var names []string
	for i, m := range t.Members {
		if in(survivors, i) {
			names = append(names, m.GetSite())
		}
	}
	masks := make([]int, len(t.Members)) // of honest pairs
	for i := range t.Members {
		for _, j := range t.partners(i) {
			if !in(collude, i) && !in(collude, j) {
				masks[i] |= 1 << j
			}
		}
	}
	for i := range t.Members {
		if in(opened, i) {
			for _, j := range t.lost(i, names) {
				masks[i] &^= 1 << j
				masks[j] &^= 1 << i
			}
		}
	}
	seen := collude
	for i := range t.Members {
		if in(seen, i) {
			continue
		}
		group := 1 << i
		for next := group; next != 0; {
			j := bits.TrailingZeros(uint(next))
			next = next&^(1<<j) | masks[j]&^group
			group |= masks[j]
		}
		if seen |= group; group&^opened == 0 {
			sums = append(sums, group)
		}
	}
	return sums
}

// An aggregator chooses who is asked, who is lost and who opens, and has whichever members collude. What it can read is
// the sum of all honest survivors where all of them opened, and nothing otherwise. All choices in small groups are
// tried. Two lists that it shows in one attempt have an honest member in common, which agrees to one of them.
func TestNothingElseShows(t *testing.T) {
	for whole := 2; whole <= 7; whole++ {
		for colluding := range whole {
			for quorum := LeastQuorum(whole, colluding); quorum <= whole; quorum++ {
				for n := quorum; n <= whole; n++ {
					for collude := range 1 << n {
						if bits.OnesCount(uint(collude)) <= colluding {
							checkShown(t, whole, circle(n, quorum, colluding), collude)
						}
					}
				}
			}
		}
	}
}

func checkShown(t *testing.T, whole int, terms *Terms, collude int) {
	t.Helper()
	n, g := len(terms.Members), terms.Group
	name := fmt.Sprintf("%d of %d asked, quorum %d, %d collude, %b do", n, whole, g.Quorum, g.Colluding, collude)
	var lists []int
	for list := range 1 << n {
		if bits.OnesCount(uint(list)) >= g.Quorum {
			lists = append(lists, list)
		}
	}
	for _, list := range lists {
		honest := list &^ collude
		if bits.OnesCount(uint(honest)) < g.Honest() {
			t.Fatalf("%s: %b has fewer shares of noise than are due", name, list)
		}
		for _, other := range lists {
			if honest&other == 0 {
				t.Fatalf("%s: %b and %b could both open", name, list, other)
			}
		}
		for opened := honest; ; opened = (opened - 1) & honest { // each part of them
			var want []int
			if opened == honest {
				want = []int{honest}
			}
			if got := shown(terms, list, opened, collude); !slices.Equal(got, want) {
				t.Fatalf("%s: of %b opened %b: shown are the sums of %b, want %b", name, list, opened, got, want)
			}
			if opened == 0 {
				break
			}
		}
	}
}

// Where one survivor keeps its seeds, the others' are of no use: whatever answers are added up, also that of the lost
// member, which the aggregator has.
func TestOneThatDoesNotOpenHidesEverything(t *testing.T) {
	const n, entries, gone, colluder = 7, 1 << 9, 3, 5 // two of the partners of the one between them
	r := newRun(t, n, n-1, 1)
	all, among := []int{0, 1, 2, 3, 4, 5, 6}, []int{0, 1, 2, 4, 5, 6}
	for round, keeps := range []int{0, 4, 6} {
		terms := r.terms(uint64(round), entries, all...)
		_, answers := r.answer(terms, all...)
		made := r.agree(terms.Round, among...)
		k := known{}
		k.collude(r.parties[colluder].runs["r"].attempt)
		for at, i := range among {
			if i == keeps {
				continue
			}
			m := testkit.Value(r.parties[i].Reveal("r", terms.Round, TagsFor(at, made)))
			k[siteOf(i)] = [seedBytes]byte(m.Own)
			for at, lost := range terms.lost(i, sites(among...)) {
				k[pairOf(siteOf(i), siteOf(lost))] = [seedBytes]byte(m.Lost[at])
			}
		}
		left := make([][]int64, n)
		for i := range all {
			left[i] = k.strip(terms, siteOf(i), answers[i])
		}
		for set := 1; set < 1<<n; set++ {
			if set>>colluder&1 == 1 {
				continue
			}
			part := make([]int64, entries)
			for i, v := range left {
				if set>>i&1 == 1 {
					AddUp(part, v)
				}
			}
			wantUniform(t, fmt.Sprintf("%d does not open, part %07b", keeps, set), part)
		}
	}
}

// Most members of a large group are no partners. Their keys and their tags count as much as those of partners: with
// keys that the aggregator makes up for them, or tags of another list, two lists of one attempt would open.
func TestThoseWhoAreNoPartnersAreVerifiedToo(t *testing.T) {
	const n = 9
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
	r := newRun(t, n, n-1, 0)
	terms := r.terms(0, 4, all...)
	if got := terms.partners(4); !slices.Equal(got, []int{3, 5}) {
		t.Fatalf("the partners of 4 are %v", got)
	}
	for i := range n {
		if i == 4 {
			continue
		}
		forged := *r.terms(0, 4, all...)
		forged.Members = slices.Clone(forged.Members)
		k, another := forged.Members[i], forged.Members[(i+1)%n]
		forged.Members[i] = &conclavev1.RunKey{Site: k.Site, Exchange: another.Exchange, Identity: k.Identity,
			Signature: k.Signature}
		_, err := r.parties[4].Begin(&forged, free)
		wants(t, fmt.Sprintf("a key for %d", i), "the signature does not", err)
	}
	terms = r.terms(0, 4, all...)
	r.answer(terms, all...)
	one, other := []int{1, 2, 3, 4, 5, 6, 7, 8}, []int{0, 1, 2, 3, 4, 5, 6, 7}
	made := r.agree(0, one...)
	for at, i := range one {
		if i == 4 {
			continue
		}
		tags := slices.Clone(made)
		tags[at] = make([][]byte, len(one)-1)
		for to := range tags[at] { // as if it had agreed to the other list
			a := r.parties[i].runs["r"].attempt
			tags[at][to] = tagOf(a.pairs[4].says, agreed("r", terms.Digest(), sites(other...)).digest())
		}
		r.doubts(fmt.Sprintf("a tag of %d for another list", i), 4, TagsFor(slices.Index(one, 4), tags), siteOf(i))
	}
	testkit.Value(r.parties[4].Reveal("r", 0, TagsFor(slices.Index(one, 4), made)))
}

// Beyond those that a run withstands nothing is claimed, and masks are no more than enough: where a run says that
// nobody colludes, one member that does and the loss of one other show what the member between them sent.
func TestOneMoreThanMayColludeSeesAMember(t *testing.T) {
	terms := circle(5, 4, 0)
	if got := shown(terms, 0b10111, 0b10101, 0b00010); !slices.Equal(got, []int{0b10001, 0b00100}) {
		t.Errorf("shown are the sums of %05b", got)
	}
	terms = circle(5, 4, 1)
	if got := shown(terms, 0b10111, 0b10101, 0b00010); !slices.Equal(got, []int{0b10101}) {
		t.Errorf("of a run that withstands it shown are the sums of %05b", got)
	}
}
