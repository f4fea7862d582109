package masking

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// wantUniform checks the bytes of a vector by a chi-squared test.
func wantUniform(t *testing.T, what string, v []int64) {
	t.Helper()
	var counts [256]float64
	for _, b := range bytesOf(v) {
		counts[b]++
	}
	expected, statistic := float64(8*len(v))/256, 0.0
	for _, n := range counts {
		statistic += (n - expected) * (n - expected) / expected
	}
	if limit := (distuv.ChiSquared{K: 255}).Quantile(1 - perCheck); statistic > limit {
		t.Errorf("%s: chi-squared %.0f, above %.0f with probability %g", what, statistic, limit, perCheck)
	}
}

func bytesOf(v []int64) (raw []byte) {
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return raw
}

// known are the seeds that an adversary has, by what they are named.
type known map[string][seedBytes]byte

// learn records what the survivors of an attempt reveal.
func (k known) learn(t *Terms, survivors []string, revealed []*conclavev1.Revealed) {
	for i, site := range survivors {
		k[site] = [seedBytes]byte(revealed[i].Own)
		for n, lost := range t.lost(t.at(site), survivors) {
			k[pairOf(site, t.Members[lost].GetSite())] = [seedBytes]byte(revealed[i].Lost[n])
		}
	}
}

// pairOf names the mask that two members share.
func pairOf(a, b string) string { return min(a, b) + max(a, b) }

// collude takes in all that a member knows of the attempt that it has begun.
func (k known) collude(a *Attempt) {
	for _, at := range a.partners {
		k[pairOf(a.party.site, a.terms.Members[at].GetSite())] = a.seeds[at]
	}
}

// strip takes all masks off a member's answer for which there is a seed.
func (k known) strip(t *Terms, site string, answer []int64) []int64 {
	out := slices.Clone(answer)
	if own, has := k[site]; has {
		addMask(out, own, true)
	}
	for _, m := range t.Members {
		if seed, has := k[pairOf(site, m.GetSite())]; has && m.GetSite() != site {
			addMask(out, seed, site < m.GetSite())
		}
	}
	return out
}

// reveal has survivors agree and reveal.
func (r *run) reveal(t *Terms, among ...int) (all []*conclavev1.Revealed) {
	r.t.Helper()
	made := r.agree(t.Round, among...)
	for at, i := range among {
		all = append(all, testkit.Value(r.parties[i].Reveal(t.Run, t.Round, TagsFor(at, made))))
	}
	return all
}

// Attempts at one round that open with other members in the sum give an aggregator seeds of every pair. None of them
// opens a single answer of another attempt, nor the total of one that nobody agreed to.
func TestEarlierAttemptsOpenNothing(t *testing.T) {
	const entries = 1 << 13
	r := newRun(t, 3, 2, 0)
	k := known{}
	for _, among := range [][]int{{0, 1}, {0, 2}, {1, 2}} {
		terms := r.terms(0, entries, 0, 1, 2)
		r.answer(terms, 0, 1, 2)
		k.learn(terms, sites(among...), r.reveal(terms, among...))
	}
	if len(k) != 6 {
		t.Fatalf("the aggregator has %d seeds", len(k))
	}
	last := r.terms(0, entries, 0, 1, 2)
	sum, answers := r.answer(last, 0, 1, 2)
	total := slices.Clone(sum)
	for _, site := range sites(0, 1, 2) { // as if these were the seeds of this attempt
		addMask(total, k[site], true)
	}
	wantUniform(t, "a total that nobody agreed to", total)
	for i, site := range sites(0, 1, 2) {
		wantUniform(t, "an answer of "+site, k.strip(last, site, answers[i]))
	}
	// Once it opened, all own seeds are known. Those of pairs hide single answers.
	for i, revealed := range r.reveal(last, 0, 1, 2) {
		k[sites(i)[0]] = [seedBytes]byte(revealed.Own)
	}
	for i, site := range sites(0, 1, 2) {
		wantUniform(t, "an opened answer of "+site, k.strip(last, site, answers[i]))
	}
	checked := slices.Clone(sum)
	for _, site := range sites(0, 1, 2) {
		addMask(checked, k[site], true)
	}
	checkTotal(t, "the total", checked, 6, last.Share, 3)
}

// Members that collude hand over all that they know, in attempts that open and in some that do not. What is left of
// the answers of two honest members is uniform, and so are the differences of one over attempts.
func TestColludersLearnTheTotalAlone(t *testing.T) {
	const entries = 1 << 12
	r := newRun(t, 5, 5, 3) // a and b are honest
	var stripped [][][]int64
	for attempt := range 1 + Retries {
		terms := r.terms(0, entries, 0, 1, 2, 3, 4)
		_, answers := r.answer(terms, 0, 1, 2, 3, 4)
		k := known{}
		for _, colluder := range r.parties[2:] {
			k.collude(colluder.runs["r"].attempt)
		}
		if attempt%2 == 0 { // all agree, and one colluder keeps its own from everybody but the aggregator
			k.learn(terms, sites(0, 1, 2, 3, 4), r.reveal(terms, 0, 1, 2, 3, 4))
		}
		both := make([]int64, entries)
		var left [][]int64
		for i := range 2 {
			v := k.strip(terms, sites(i)[0], answers[i])
			wantUniform(t, fmt.Sprintf("attempt %d: what is left of an answer", attempt), v)
			AddUp(both, v)
			left = append(left, v)
		}
		stripped = append(stripped, left)
		if attempt%2 == 0 {
			checkTotal(t, "the honest members' total", both, 1+2, terms.Share, 2)
		} else {
			wantUniform(t, "the honest members' total of an attempt without seeds", both)
		}
	}
	for i := range 2 {
		for a := range stripped {
			for b := range a {
				d := slices.Clone(stripped[a][i])
				for at := range d {
					d[at] -= stripped[b][i][at]
				}
				wantUniform(t, fmt.Sprintf("attempts %d and %d", a, b), d)
			}
		}
	}
}

// In all that an aggregator gets in an attempt that one member did not survive there is no vector, no noise, no
// seed that two survivors share, and no seed of the lost one's own.
func TestTranscriptsHaveNoSecrets(t *testing.T) {
	const entries = 64
	r := newRun(t, 4, 3, 1)
	terms := r.terms(0, entries, 0, 1, 2, 3)
	_, answers := r.answer(terms, 0, 1, 2, 3)
	revealed := r.reveal(terms, 0, 1, 2)
	var transcript []byte
	put := func(m proto.Message) { transcript = append(transcript, testkit.Value(proto.Marshal(m))...) }
	for i, v := range answers {
		put(&conclavev1.Sum{Run: "r", Values: v})
		put(terms.Members[i])
	}
	for i, revealed := range revealed {
		put(revealed)
		put(&conclavev1.Agreed{Run: "r", Tags: r.parties[i].runs["r"].attempt.tags})
	}
	has := func(secret []byte) bool { return bytes.Contains(transcript, secret) }
	if !has(bytesOf(answers[0])) || !has(revealed[0].Own) || !has(r.parties[3].runs["r"].attempt.seeds[0][:]) {
		t.Fatal("this test does not find what is there")
	}
	for i, p := range r.parties {
		a := p.runs["r"].attempt
		vector := slices.Repeat([]int64{int64(i + 1)}, entries)
		noisy := slices.Clone(answers[i])
		addMask(noisy, a.own, true)
		for at, m := range terms.Members {
			if m.GetSite() != p.site {
				addMask(noisy, a.seeds[at], p.site < m.GetSite())
			}
		}
		noise := slices.Clone(noisy)
		for at := range noise {
			noise[at] -= vector[at]
		}
		for name, secret := range map[string][]byte{
			"the vector": bytesOf(vector[:4]), "the noise": bytesOf(noise[:4]), "both": bytesOf(noisy[:4]),
			"the run key": p.runs["r"].key.Bytes(),
		} {
			if has(secret) {
				t.Errorf("%s of %s is in it", name, p.site)
			}
		}
		if i == 3 && has(a.own[:]) {
			t.Error("the own seed of the lost member is in it")
		}
		for other := range 3 {
			if i < 3 && other != i && has(a.seeds[other][:]) {
				t.Errorf("the seed that %s and %s share is in it", p.site, r.parties[other].site)
			}
		}
	}
}

// A member that colludes may sign any run key. Points whose shared secret is known to all, and keys of another
// length, are refused.
func TestPointsOfLowOrderAreRefused(t *testing.T) {
	points := map[string]string{
		"0":               "0000000000000000000000000000000000000000000000000000000000000000",
		"1":               "0100000000000000000000000000000000000000000000000000000000000000",
		"of order 8":      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"of order 8, too": "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"p - 1":           "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"p":               "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"p + 1":           "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"nothing":         "", "a byte short": "09", "a byte long": "09" + strings.Repeat("00", 32),
	}
	for name, point := range points {
		r := newRun(t, 3, 3, 2)
		colluder := r.parties[2]
		terms := r.terms(0, 8, 0, 1, 2)
		k := &conclavev1.RunKey{Site: "c", Identity: colluder.own.public,
			Exchange: testkit.Value(hex.DecodeString(point))}
		k.Signature = testkit.Value(sign(colluder.own.signer, signedKey(terms.Run, terms.Spec, k)))
		terms.Members[2] = k
		_, err := r.parties[0].Begin(terms, free)
		if err == nil || !strings.Contains(err.Error(), `the run key of "c"`) &&
			!strings.Contains(err.Error(), "a run key of 33, ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.parties[0].Agree(terms.Run, 0, sites(0, 1, 2)); err == nil {
			t.Errorf("%s: it agrees to an attempt that it refused", name)
		}
	}
}

// A run key above the largest possible size is refused, whatever its signature: peers store keys.
func TestLargeKeysAreRefused(t *testing.T) {
	r := newRun(t, 3, 3, 2)
	colluder := r.parties[2]
	for name, change := range map[string]func(*conclavev1.RunKey){
		"a name":      func(k *conclavev1.RunKey) { k.Site = strings.Repeat("c", maxSite+1) },
		"a point":     func(k *conclavev1.RunKey) { k.Exchange = make([]byte, 1<<20) },
		"an identity": func(k *conclavev1.RunKey) { k.Identity = append(k.Identity, make([]byte, maxIdentity)...) },
		"a signature": func(k *conclavev1.RunKey) { k.Signature = append(k.Signature, make([]byte, maxSignature)...) },
	} {
		terms := r.terms(0, 8, 0, 1, 2)
		k := proto.Clone(testkit.Value(colluder.Key(terms.Run, terms.Spec, r.group))).(*conclavev1.RunKey)
		change(k)
		terms.Members[2] = k
		if _, err := r.parties[0].Begin(terms, free); err == nil || !strings.Contains(err.Error(), "the maximum is") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The largest that there can be fit: on P-521, with a name of the longest.
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	p := testkit.Value(NewParty(strings.Repeat("s", maxSite), key))
	g := Group{Quorum: 2, Members: []Member{r.group.Members[0], {p.site, sha256.Sum256(p.own.public)}}}
	for i := range 20 { // signatures differ in length
		k := testkit.Value(p.Key(fmt.Sprint(i), r.spec, g))
		testkit.Must(t, CheckKey(fmt.Sprint(i), r.spec, g, k))
	}
}
