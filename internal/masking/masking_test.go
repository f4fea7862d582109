package masking

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// run is a masked run among sites whose names are letters, and z with a number beyond 26.
type run struct {
	t       testing.TB
	group   Group
	parties []*Party
	spec    Digest
	counter uint64
}

// free charges nothing.
func free(Digest) error { return nil }

func newKey(t testing.TB, i int) crypto.Signer {
	t.Helper()
	if i%2 == 1 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		testkit.Must(t, err)
		return key
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	return key
}

func newRun(t testing.TB, n, quorum, colluding int) *run {
	t.Helper()
	r := &run{t: t, group: Group{Quorum: quorum, Colluding: colluding}, spec: sha256.Sum256([]byte("spec"))}
	for i := range n {
		p := testkit.Value(NewParty(siteOf(i), newKey(t, i)))
		r.parties = append(r.parties, p)
		r.group.Members = append(r.group.Members, Member{p.site, sha256.Sum256(p.own.public)})
	}
	testkit.Must(t, r.group.Validate())
	return r
}

// terms are the terms of the next attempt at a round, among some of the parties.
func (r *run) terms(round uint64, entries int, among ...int) *Terms {
	r.t.Helper()
	r.counter++
	sum := testkit.Value(gnmax.NewGaussianSum(1<<8, 2))
	t := &Terms{
		Run: "r", Spec: r.spec, Group: r.group, Round: round, Fence: 1, Counter: r.counter,
		Question: sha256.Sum256([]byte("question")), Entries: entries,
		Share: testkit.Value(sum.Share(r.group.Honest())),
	}
	for _, i := range among {
		k, err := r.parties[i].Key(t.Run, r.spec, r.group)
		testkit.Must(r.t, err)
		t.Members = append(t.Members, k)
	}
	return t
}

// answer has parties answer an attempt, each with a vector of its number plus one.
func (r *run) answer(t *Terms, among ...int) (sum []int64, answers [][]int64) {
	r.t.Helper()
	sum = make([]int64, t.Entries)
	for _, i := range among {
		a, err := r.parties[i].Begin(t, free)
		testkit.Must(r.t, err)
		vector := slices.Repeat([]int64{int64(i + 1)}, t.Entries)
		vector = testkit.Value(a.Mask(vector))
		AddUp(sum, vector)
		answers = append(answers, vector)
	}
	return sum, answers
}

func siteOf(i int) string {
	if i < 26 {
		return fmt.Sprintf("%c", 'a'+i)
	}
	return fmt.Sprintf("z%03d", i)
}

func sites(among ...int) (names []string) {
	for _, i := range among {
		names = append(names, siteOf(i))
	}
	return names
}

// open has survivors agree and reveal, and opens their sum.
func (r *run) open(t *Terms, sum []int64, among ...int) {
	r.t.Helper()
	survivors := sites(among...)
	all := r.reveal(t, among...)
	for i, revealed := range all {
		testkit.Must(r.t, t.CheckRevealed(survivors[i], survivors, revealed))
	}
	t.Open(sum, survivors, all)
}

// perCheck is the probability with which a statistical check fails although all is right.
const perCheck = 1e-12

// checkTotal compares an opened sum with a whole number and the noise of the given number of shares.
func checkTotal(t *testing.T, name string, got []int64, want int64, share gnmax.Share, shares int) {
	t.Helper()
	variance := share.Sigma() * share.Sigma() * float64(shares)
	var mean, squares float64
	for _, v := range got {
		d := float64(v - want)
		mean += d
		squares += d * d
	}
	n := float64(len(got))
	within := distuv.UnitNormal.Quantile(1 - perCheck)
	if off := mean / math.Sqrt(n*variance); math.Abs(off) > within {
		t.Errorf("%s: the mean is off by %.1f standard errors", name, off)
	}
	if off := (squares/variance - n) / math.Sqrt(2*n); math.Abs(off) > within {
		t.Errorf("%s: the variance is off by %.1f standard errors", name, off)
	}
}

// The total is the survivors' sum, with a share of noise from each of them, whichever members are lost.
func TestSumsOpen(t *testing.T) {
	const entries = 20_000
	for name, c := range map[string]struct {
		n, quorum, colluding int
		asked, answered      []int
	}{
		"two":              {2, 2, 1, []int{0, 1}, []int{0, 1}},
		"all of five":      {5, 4, 1, []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 4}},
		"the first lost":   {5, 4, 1, []int{0, 1, 2, 3, 4}, []int{1, 2, 3, 4}},
		"the last lost":    {5, 4, 1, []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3}},
		"two of six lost":  {6, 4, 0, []int{0, 1, 2, 3, 4, 5}, []int{0, 2, 3, 5}},
		"one not asked":    {6, 4, 1, []int{0, 1, 3, 4, 5}, []int{0, 1, 4, 5}},
		"all but one lies": {3, 3, 2, []int{0, 1, 2}, []int{0, 1, 2}},
	} {
		r := newRun(t, c.n, c.quorum, c.colluding)
		terms := r.terms(3, entries, c.asked...)
		sum, _ := r.answer(terms, c.answered...)
		if want := c.quorum - c.colluding; r.group.Honest() != want {
			t.Errorf("%s: %d honest members, want %d", name, r.group.Honest(), want)
		}
		r.open(terms, sum, c.answered...)
		var want int64
		for _, i := range c.answered {
			want += int64(i + 1)
		}
		checkTotal(t, name, sum, want, terms.Share, len(c.answered))
	}
}

// A single answer, and what is left of the sum while one survivor's seeds are missing, is uniform, byte by byte.
// The mutants that this must find: a mask left out, a seed used twice.
func TestAnswersAreUniform(t *testing.T) {
	const entries = 1 << 15
	r := newRun(t, 3, 3, 1)
	first, second := r.terms(0, entries, 0, 1, 2), r.terms(0, entries, 0, 1, 2)
	_, answers := r.answer(first, 0, 1, 2)
	sum, again := r.answer(second, 0, 1, 2)
	check := func(name string, v []int64) {
		t.Helper()
		var counts [256]float64
		for _, x := range v {
			for shift := 0; shift < 64; shift += 8 {
				counts[byte(x>>shift)]++
			}
		}
		expected := float64(8*len(v)) / 256
		statistic := 0.0
		for _, n := range counts {
			statistic += (n - expected) * (n - expected) / expected
		}
		if limit := (distuv.ChiSquared{K: 255}).Quantile(1 - perCheck); statistic > limit {
			t.Errorf("%s: chi-square %.0f, above %.0f with probability %g", name, statistic, limit, perCheck)
		}
	}
	minus := func(a, b []int64) []int64 {
		d := slices.Clone(a)
		for i := range d {
			d[i] -= b[i]
		}
		return d
	}
	for i := range answers {
		check("an answer", answers[i])
		check("the difference of two attempts", minus(again[i], answers[i]))
		check("the difference of two members", minus(answers[i], answers[(i+1)%3]))
	}
	made := r.agree(0, 0, 1, 2)
	// The second one's seeds are missing.
	for _, i := range []int{0, 2} {
		revealed := testkit.Value(r.parties[i].Reveal("r", 0, TagsFor(i, made)))
		addMask(sum, [seedBytes]byte(revealed.Own), true)
	}
	check("a sum that one member does not open", sum)
}

// Messages that a member refuses, whatever the aggregator and other members invent.
func TestPartiesRefuse(t *testing.T) {
	r := newRun(t, 3, 3, 1)
	good := r.terms(5, 4, 0, 1, 2)
	stranger := testkit.Value(NewParty("c", newKey(t, 0)))
	bad := func(change func(*Terms)) *Terms {
		terms := *r.terms(5, 4, 0, 1, 2)
		terms.Members = slices.Clone(terms.Members)
		change(&terms)
		return &terms
	}
	strangers := func() *conclavev1.RunKey {
		g := r.group
		g.Members = slices.Clone(g.Members)
		g.Members[2].Key = sha256.Sum256(stranger.own.public)
		return testkit.Value(stranger.Key("r", r.spec, g))
	}()
	swapped := func(k *conclavev1.RunKey, exchange []byte) *conclavev1.RunKey {
		return &conclavev1.RunKey{Site: k.Site, Exchange: exchange, Identity: k.Identity, Signature: k.Signature}
	}
	zeros := make([]byte, 32)
	for name, c := range map[string]struct {
		terms *Terms
		want  string
	}{
		"too few":           {bad(func(t *Terms) { t.Members = t.Members[:2] }), "the quorum is 3"},
		"one twice":         {bad(func(t *Terms) { t.Members[2] = t.Members[1] }), "in sorted order"},
		"out of order":      {bad(func(t *Terms) { t.Members[1], t.Members[2] = t.Members[2], t.Members[1] }), "order"},
		"a second identity": {bad(func(t *Terms) { t.Members[2] = strangers }), "is not a member"},
		"another's key": {bad(func(t *Terms) { t.Members[2] = swapped(t.Members[2], t.Members[1].Exchange) }),
			"the signature does not"},
		"no point": {bad(func(t *Terms) { t.Members[2] = swapped(t.Members[2], zeros) }), "the signature does " +
			"not"},
		"no entries":   {bad(func(t *Terms) { t.Entries = 0 }), "without entries"},
		"another spec": {bad(func(t *Terms) { t.Spec[0]++ }), "does not have this node's key"},
		"another run":  {bad(func(t *Terms) { t.Run = "q" }), "does not have this node's key"},
		"not among all": {bad(func(t *Terms) { t.Group.Quorum = 2; t.Members = t.Members[1:] }), "does not have this " +
			"node's key"},
	} {
		if _, err := r.parties[0].Begin(c.terms, free); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// Before the answer nothing is signed or revealed, and an answer is given once.
	p := r.parties[0]
	refuses := func(name, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	_, err := p.Agree("r", 5, sites(0, 1, 2))
	refuses("agreed before", "is not the one", err)
	a := testkit.Value(p.Begin(good, free))
	_, err = p.Agree("r", 5, sites(0, 1, 2))
	refuses("agreed before it answered", "is not the one", err)
	_, err = a.Mask(make([]int64, 3))
	refuses("too short", "a vector of 3 entries", err)
	testkit.Value(a.Mask(make([]int64, 4)))
	_, err = a.Mask(make([]int64, 4))
	refuses("answered twice", "already answered", err)
	_, err = p.Begin(good, free)
	refuses("asked twice", "is not newer", err)
	back := *r.terms(4, 4, 0, 1, 2)
	_, err = p.Begin(&back, free)
	refuses("an earlier round", "is not newer", err)
	for name, u := range map[string][]string{
		"below the quorum": sites(0, 1), "one twice": {"a", "b", "b"}, "a stranger": {"a", "b", "x"}, "nobody": nil,
	} {
		_, err = p.Agree("r", 5, u)
		refuses(name, "", err)
	}
	_, err = p.Reveal("r", 5, nil)
	refuses("revealed before it agreed", "has not agreed", err)
	own := testkit.Value(p.Agree("r", 5, sites(0, 1, 2)))
	if again := testkit.Value(p.Agree("r", 5, sites(0, 1, 2))); !slices.EqualFunc(again, own, bytes.Equal) {
		t.Error("other tags of the same")
	}
	// The others answer too; then each tag must be of its member.
	for _, other := range r.parties[1:] {
		testkit.Value(testkit.Value(other.Begin(good, free)).Mask(make([]int64, 4)))
	}
	all := TagsFor(0, r.agree(5, 0, 1, 2))
	for name, s := range map[string][][]byte{
		"none": nil, "one missing": all[:1], "too many": {all[0], all[1], all[1]}, "swapped": {all[1], all[0]},
		"its own": own, "one twice": {all[0], all[0]}, "garbage": {all[0], []byte("x")}, "empty": {all[0], nil},
		"cut off": {all[0], all[1][:16]},
	} {
		_, err = p.Reveal("r", 5, s)
		refuses("tags: "+name, "", err)
	}
	revealed := testkit.Value(p.Reveal("r", 5, all))
	if again := testkit.Value(p.Reveal("r", 5, all)); again != revealed || len(revealed.Lost) != 0 {
		t.Error("something else was revealed")
	}
	// A newer attempt ends the one before.
	testkit.Value(p.Begin(r.terms(5, 4, 0, 1, 2), free))
	_, err = p.Reveal("r", 5, all)
	refuses("an attempt before the newest", "is not the one", err)
	testkit.Value(testkit.Value(p.Begin(r.terms(6, 4, 0, 1, 2), free)).Mask(make([]int64, 4)))
	next := r.terms(7, 4, 0, 1, 2)
	p.Over("r")
	_, err = p.Begin(next, free)
	refuses("after the run's end", "does not have this node's key", err)
}

// A node that starts again has forgotten everything, and another key: nothing of before can be asked of it.
func TestANewLifeHasANewKey(t *testing.T) {
	key := newKey(t, 0)
	r := newRun(t, 2, 2, 1)
	p := testkit.Value(NewParty("a", key))
	r.parties[0] = p
	r.group.Members[0].Key = sha256.Sum256(p.own.public)
	terms := r.terms(0, 4, 0, 1)
	r.answer(terms, 0, 1)
	again := testkit.Value(NewParty("a", key))
	if k := testkit.Value(again.Key("r", r.spec, r.group)); bytes.Equal(k.Exchange, terms.Members[0].Exchange) {
		t.Error("the same run key")
	}
	if _, err := again.Begin(terms, free); err == nil || !strings.Contains(err.Error(), "this node's key") {
		t.Errorf("an attempt of before: %v", err)
	}
	if _, err := again.Agree("r", 0, sites(0, 1)); err == nil {
		t.Error("it agrees to an answer of before")
	}
}

func TestGroups(t *testing.T) {
	member := func(site string, key byte) Member { return Member{site, [32]byte{key}} }
	three := []Member{member("a", 1), member("b", 2), member("c", 3)}
	for name, c := range map[string]struct {
		group Group
		want  string
	}{
		"one site":          {Group{three[:1], 1, 0}, "sum of a single site cannot be hidden"},
		"none":              {Group{nil, 0, 0}, "sum of a single site cannot be hidden"},
		"all collude":       {Group{three, 3, 3}, "use 0 to 2"},
		"fewer than none":   {Group{three, 3, -1}, "use 0 to 2"},
		"two could open":    {Group{three, 2, 1}, "use 3 to 3"},
		"two disjoint":      {Group{three, 1, 0}, "use 2 to 3"},
		"more than all":     {Group{three, 4, 1}, "use 3 to 3"},
		"out of order":      {Group{[]Member{three[1], three[0]}, 2, 0}, "sorted order"},
		"one twice":         {Group{[]Member{three[0], three[0]}, 2, 0}, "sorted order"},
		"one key for two":   {Group{[]Member{three[0], member("b", 1)}, 2, 0}, "have the same key"},
		"without a name":    {Group{[]Member{member("", 1), three[1]}, 2, 0}, `has the site name ""`},
		"good":              {Group{three, 3, 1}, ""},
		"good without":      {Group{three, 2, 0}, ""},
		"good of all but 1": {Group{three, 3, 2}, ""},
	} {
		err := c.group.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		parsed, again := Parse(c.group.Wire())
		if c.want == "" && (again != nil || !slices.Equal(parsed.Members, three)) {
			t.Errorf("%s: %v, %v", name, parsed, again)
		}
	}
	if _, err := Parse(&conclavev1.Masked{Members: []*conclavev1.Member{{Site: "a", Key: []byte{1}}}}); err == nil {
		t.Error("a key of one byte")
	}
	// For every group that is taken two quorums share an honest member, and one is in each.
	for n := 2; n <= 12; n++ {
		for c := range n {
			q := LeastQuorum(n, c)
			if q > n || 2*(q-c) <= n-c || 2*(q-1-c) > n-c {
				t.Errorf("%d sites, %d collude: quorum %d", n, c, q)
			}
		}
	}
	if got := (Group{three, 3, 1}).Surplus(3); math.Abs(got-math.Sqrt(1.5)) > 1e-12 {
		t.Errorf("surplus %v", got)
	}
}

// Run keys are refused whose members have a key of another kind, and parties without membership.
func TestKeys(t *testing.T) {
	r := newRun(t, 2, 2, 1)
	outsider := testkit.Value(NewParty("b", newKey(t, 1)))
	_, err := outsider.Key("r", r.spec, r.group)
	if err == nil || !strings.Contains(err.Error(), "renewed with a new key") {
		t.Errorf("an outsider's key: %v", err)
	}
	der := testkit.Value(x509.MarshalPKIXPublicKey(newKey(t, 0).Public()))
	if err := verify(der, encode("x"), []byte("y")); err == nil {
		t.Error("a signature that is none")
	}
	if err := verify([]byte("no key"), encode("x"), nil); err == nil {
		t.Error("a key that is none")
	}
	for i := range maxRuns {
		testkit.Value(r.parties[0].Key(fmt.Sprint(i), r.spec, r.group))
	}
	if _, err := r.parties[0].Key("one more", r.spec, r.group); err == nil {
		t.Error("keys without bound")
	}
}

func BenchmarkMask(b *testing.B) {
	for _, n := range []int{2, 10, 100} {
		for _, entries := range []int{1000, 20_000, 1_000_000} {
			b.Run(fmt.Sprintf("%dsites/%d", n, entries), func(b *testing.B) {
				r := newRun(b, n, n, 1)
				among := make([]int, n)
				for i := range among {
					among[i] = i
				}
				vector := make([]int64, entries)
				for round := uint64(0); b.Loop(); round++ {
					a := testkit.Value(r.parties[0].Begin(r.terms(round, entries, among...), free))
					testkit.Value(a.Mask(vector))
				}
			})
		}
	}
}
