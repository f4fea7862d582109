package masking

import (
	"errors"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// doubts checks that a member refuses tags, names the sites that sent them, and reveals nothing.
func (r *run) doubts(name string, i int, tags [][]byte, from ...string) {
	r.t.Helper()
	revealed, err := r.parties[i].Reveal("r", 0, tags)
	var doubt *DoubtError
	if !errors.As(err, &doubt) || !slices.Equal(doubt.Sites, from) || revealed != nil {
		r.t.Errorf("%s: revealed %v, error %v, want doubts about %q", name, revealed, err, from)
	}
}

// Two lists of survivors of one attempt never open, whichever members collude: a colluder makes valid tags for both,
// but none of an honest member.
func TestOneListOpens(t *testing.T) {
	r := newRun(t, 5, 4, 1) // the fifth colludes
	terms := r.terms(0, 8, 0, 1, 2, 3, 4)
	r.answer(terms, 0, 1, 2, 3, 4)
	one, other := []int{0, 1, 2, 4}, []int{0, 1, 3, 4}
	made := map[int][][]byte{}
	for _, i := range []int{0, 1, 2} {
		made[i] = testkit.Value(r.parties[i].Agree("r", 0, sites(one...)))
		if _, err := r.parties[i].Agree("r", 0, sites(other...)); err == nil {
			t.Errorf("%d agreed to two lists", i)
		}
	}
	made[3] = testkit.Value(r.parties[3].Agree("r", 0, sites(other...)))
	colluder := r.parties[4].runs["r"].attempt
	tagsOf := func(of ...int) (tags [][]byte) { // of the colluder, for all of a list
		name := agreed("r", terms.Digest(), sites(of...)).digest()
		for _, i := range of[:3] {
			tags = append(tags, tagOf(colluder.pairs[i].says, name))
		}
		return tags
	}
	r.doubts("the other list", 3, TagsFor(2, [][][]byte{made[0], made[1], made[3], tagsOf(other...)}), "a", "b")
	testkit.Value(r.parties[0].Reveal("r", 0, TagsFor(0, [][][]byte{made[0], made[1], made[2], tagsOf(one...)})))
}

// A tag is for one other member, one way, one attempt and one list. Whatever else an aggregator shows for it is
// refused, and it is named whose it should have been. With c, which colludes, it has all keys of c.
func TestTagsOfSomethingElse(t *testing.T) {
	r := newRun(t, 4, 3, 1)
	was := r.four()
	before := r.agree(0, 0, 1, 2, 3)
	r.four()
	made := r.agree(0, 0, 1, 2, 3)
	a, c := r.parties[0].runs["r"].attempt, r.parties[2].runs["r"].attempt
	name := a.agreed
	good := TagsFor(0, made) // of b, c and d
	with := func(at int, tag []byte) [][]byte {
		tags := slices.Clone(good)
		tags[at] = tag
		return tags
	}
	for what, tag := range map[string][]byte{
		"its own tag, sent back":             made[0][0],
		"a tag for another":                  made[1][2],
		"a tag of another":                   good[1],
		"of the attempt before":              before[1][0],
		"by the key of a pair that colludes": tagOf(c.pairs[1].hears, name),
		"by the key of the colluder and it":  tagOf(c.pairs[0].says, name),
		"by the seed of the pair":            tagOf(a.seeds[1], name),
		"of the terms":                       tagOf(a.pairs[1].hears, a.digest),
		"of fewer": tagOf(a.pairs[1].hears, agreed("r", a.digest,
			sites(0, 1, 2)).digest()),
		"of the terms before": tagOf(a.pairs[1].hears, agreed("r", was.Digest(), sites(0, 1, 2, 3)).digest()),
		"of another run":      tagOf(a.pairs[1].hears, agreed("q", a.digest, sites(0, 1, 2, 3)).digest()),
		"zeros":               make([]byte, tagBytes),
	} {
		r.doubts(what, 0, with(0, tag), "b")
	}
	r.doubts("all its own", 0, made[0], "b", "c", "d")
	r.doubts("all swapped", 0, [][]byte{good[1], good[2], good[0]}, "b", "c", "d")
	r.doubts("those for another", 1, TagsFor(0, made), "a", "c", "d")
	// With the right ones each opens.
	for i := range 4 {
		testkit.Value(r.parties[i].Reveal("r", 0, TagsFor(i, made)))
	}
}

// four has all of four parties answer an attempt at a round.
func (r *run) four() *Terms {
	r.t.Helper()
	terms := r.terms(0, 4, 0, 1, 2, 3)
	r.answer(terms, 0, 1, 2, 3)
	return terms
}

// Members that were told different members of an attempt have different terms: neither opens.
func TestDifferentRostersOpenNothing(t *testing.T) {
	r := newRun(t, 4, 3, 1)
	all, three := r.terms(0, 4, 0, 1, 2, 3), r.terms(0, 4, 0, 1, 2)
	three.Counter = all.Counter
	r.answer(all, 0, 3)
	r.answer(three, 1, 2)
	made := r.agree(0, 0, 1, 2)
	r.doubts("who was told all", 0, TagsFor(0, made), "b", "c")
	r.doubts("who was told three", 1, TagsFor(1, made), "a")
	if _, err := r.parties[1].Agree("r", 0, sites(1, 2, 3)); err == nil {
		t.Error("a member agrees to a list that is not within those that were asked")
	}
}

// Tags are handed to those that they are for.
func TestTagsFor(t *testing.T) {
	made := [][][]byte{{[]byte("ab"), []byte("ac")}, {[]byte("ba"), []byte("bc")}, {[]byte("ca"), []byte("cb")}}
	for at, want := range [][]string{{"ba", "ca"}, {"ab", "cb"}, {"ac", "bc"}} {
		var got []string
		for _, tag := range TagsFor(at, made) {
			got = append(got, string(tag))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d gets %q, want %q", at, got, want)
		}
	}
}
