package masking

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// circle are the terms of n members, with what decides who their partners are.
func circle(n, quorum, colluding int) *Terms {
	t := &Terms{Group: Group{Quorum: quorum, Colluding: colluding}}
	for i := range n {
		t.Members = append(t.Members, &conclavev1.RunKey{Site: fmt.Sprintf("%03d", i)})
	}
	return t
}

// connected says whether the members that are not gone are, by masks.
func connected(t *Terms, gone map[int]bool) bool {
	var seen, next []int
	for i := range t.Members {
		if !gone[i] {
			next = []int{i}
			break
		}
	}
	for len(next) > 0 {
		at := next[0]
		if next = next[1:]; gone[at] || slices.Contains(seen, at) {
			continue
		}
		seen = append(seen, at)
		next = append(next, t.partners(at)...)
	}
	return len(seen) == len(t.Members)-len(gone)
}

// Whichever members are lost or collude, as many as there may be: the others are connected. Each has as many partners
// as the smallest graph for which that is so needs, or one more, and is theirs too. All small groups are tried whole.
func TestSurvivorsStayConnected(t *testing.T) {
	for n := 2; n <= 9; n++ {
		for quorum := n/2 + 1; quorum <= n; quorum++ {
			for colluding := 0; colluding < n && 2*quorum > n+colluding; colluding++ {
				terms, most := circle(n, quorum, colluding), colluding+n-quorum
				checkDegrees(t, terms, min(most+1, n-1))
				for set := range 1 << n {
					gone := map[int]bool{}
					for i := range n {
						if set>>i&1 == 1 {
							gone[i] = true
						}
					}
					if len(gone) <= most && !connected(terms, gone) {
						t.Fatalf("%d members, quorum %d, %d collude: %v away leaves parts", n, quorum, colluding, gone)
					}
				}
			}
		}
	}
}

func checkDegrees(t *testing.T, terms *Terms, least int) {
	t.Helper()
	for i := range terms.Members {
		partners := terms.partners(i)
		if len(partners) != least && len(partners) != least+1 || !slices.IsSorted(partners) {
			t.Fatalf("%d of %d has partners %v, want %d", i, len(terms.Members), partners, least)
		}
		for _, j := range partners {
			if i == j || !slices.Contains(terms.partners(j), i) {
				t.Fatalf("%d is a partner of %d, and not the other way", j, i)
			}
		}
	}
}

// In large groups members go at random, and in rows about one that they leave alone, which is the worst.
func TestSurvivorsStayConnectedInLargeGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{50, 99, MaxMembers} {
		for _, lost := range []int{0, 1, n / 10, n / 3} {
			for _, colluding := range []int{0, 1, 2, n / 4} {
				terms, most := circle(n, n-lost, colluding), colluding+lost
				checkDegrees(t, terms, min(max(2, most+1), n-1))
				for try := range 20 {
					gone := map[int]bool{}
					if at := random.IntN(n); try%2 == 0 { // rows on either side of some
						alone := 1 + random.IntN(3)
						for i := 0; len(gone) < most; i++ {
							gone[(at+alone+i)%n] = true
							if len(gone) < most {
								gone[(at-1-i+n)%n] = true
							}
						}
					} else {
						for _, i := range random.Perm(n)[:most] {
							gone[i] = true
						}
					}
					if !connected(terms, gone) {
						t.Fatalf("%d members, %d lost, %d collude: %v away leaves parts", n, lost, colluding, gone)
					}
				}
			}
		}
	}
}

// An aggregator that has everything which survivors reveal, and what a colluder knows, sees the honest survivors' total
// and no part of it, whichever member is lost and whichever colludes: with four partners each, of six others. With
// fewer, the lost one and the colluder would be all partners of the member between them.
func TestPartnersHideEveryPart(t *testing.T) {
	const n, entries = 7, 1 << 9
	r := newRun(t, n, n-1, 1)
	for gone := range n {
		terms := r.terms(uint64(gone), entries, 0, 1, 2, 3, 4, 5, 6)
		_, answers := r.answer(terms, 0, 1, 2, 3, 4, 5, 6)
		among := slices.DeleteFunc([]int{0, 1, 2, 3, 4, 5, 6}, func(i int) bool { return i == gone })
		opened := r.reveal(terms, among...)
		for _, colluder := range among {
			k := known{}
			k.learn(terms, sites(among...), opened)
			k.collude(r.parties[colluder].runs["r"].attempt)
			left := map[int][]int64{}
			for _, i := range among {
				if i != colluder {
					left[i] = k.strip(terms, sites(i)[0], answers[i])
				}
			}
			for set := 1; set < 1<<n; set++ {
				if set>>gone&1 == 1 || set>>colluder&1 == 1 {
					continue
				}
				part, inPart, want := make([]int64, entries), 0, int64(0)
				for i, v := range left {
					if set>>i&1 == 1 {
						AddUp(part, v)
						inPart++
						want += int64(i + 1)
					}
				}
				name := fmt.Sprintf("%d is lost, %d colludes, part %07b", gone, colluder, set)
				if inPart == len(left) {
					checkTotal(t, name, part, want, terms.Share, inPart)
				} else {
					wantUniform(t, name, part)
				}
			}
		}
	}
}
