package masking

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxRuns is the largest number of runs for which a party holds a key at a time.
const maxRuns = 256

// Party is a member's side of the protocol. It is safe for concurrent use.
type Party struct {
	site   string
	source *gnmax.Source

	mu   sync.Mutex
	own  identity // for future runs
	runs map[string]*partyRun
}

// identity is the key of a certificate.
type identity struct {
	public []byte // PKIX in DER
	signer crypto.Signer
}

// partyRun is a party's state of a run, in memory only.
type partyRun struct {
	spec Digest
	own  identity // at the start of the run
	key  *ecdh.PrivateKey
	wire *conclavev1.RunKey
	// fence, counter and round are those of the newest attempt; reveals counts how often the round was opened.
	fence, counter, round uint64
	reveals               int
	attempt               *Attempt // the newest
	// pairs holds the secrets shared with each other member, for the verified run key that it showed last. In most
	// rounds of a run the keys are the same.
	pairs map[string]pair
}

// pair is the secret that a party shares with another member in a run.
type pair struct {
	key    *conclavev1.RunKey // of the other member
	secret [seedBytes]byte
	// says is the key for tags to the other member, hears the key for tags from it.
	says, hears [seedBytes]byte
}

// NewParty returns the party of a site, with the key of its certificate.
func NewParty(site string, signer crypto.Signer) (*Party, error) {
	p := &Party{site: site, source: gnmax.NewSource(), runs: map[string]*partyRun{}}
	return p, p.Renew(signer)
}

// Renew signs future runs with the key of a renewed certificate. Current runs keep their key.
func (p *Party) Renew(signer crypto.Signer) error {
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return fmt.Errorf("read the certificate's key: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = identity{public, signer}
	return nil
}

// Key returns the party's signed key for a run, and creates it at the first call.
func (p *Party) Key(run string, spec Digest, g Group) (*conclavev1.RunKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.runs[run]; r != nil && r.spec == spec {
		return r.wire, nil
	}
	if !g.Has(p.site, p.own.public) {
		return nil, p.noMember(run, g)
	}
	if p.runs[run] == nil && len(p.runs) >= maxRuns {
		return nil, fmt.Errorf("this node has keys of %d masked runs, the maximum; end some", maxRuns)
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a run key: %w", err)
	}
	k := &conclavev1.RunKey{Site: p.site, Exchange: key.PublicKey().Bytes(), Identity: p.own.public}
	if k.Signature, err = sign(p.own.signer, signedKey(run, spec, k)); err != nil {
		return nil, fmt.Errorf("sign a run key: %w", err)
	}
	p.runs[run] = &partyRun{spec: spec, own: p.own, key: key, wire: k, pairs: map[string]pair{}}
	return k, nil
}

// Takes reports whether the party has a key for a run, so that the run is masked.
func (p *Party) Takes(run string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[run] != nil
}

// noMember returns the reason why the party does not take part in a run. Callers hold p.mu.
func (p *Party) noMember(run string, g Group) error {
	own := Fingerprint(sha256.Sum256(p.own.public)).Hex()
	if m, named := g.find(p.site); named {
		return fmt.Errorf("run %q lists site %s with key %s, but its certificate has key %s; if it was renewed with "+
			"a new key, compare the new key and open a run with it", run, p.site, m.Key.Hex(), own)
	}
	return fmt.Errorf("site %s, with key %s, is not a member of run %q; open a run that lists it, or one without "+
		"it", p.site, own, run)
}

// Over deletes a run's keys and attempts.
func (p *Party) Over(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, run)
}

// Pay charges an opening, durably; if it fails, nothing is revealed. An opening is an attempt together with the
// members in its sum. An opening that was charged before may be free.
type Pay func(opening Digest) error

// Attempt is a party's part in one attempt at a round.
type Attempt struct {
	party  *Party
	terms  *Terms
	digest Digest
	pay    Pay
	pairs  []pair // shared with each member; empty at the party's own index
	// partners holds the indexes of the members with whom it shares a mask; seeds has one entry at each of these
	// indexes.
	partners []int
	seeds    [][seedBytes]byte
	own      [seedBytes]byte // of the party's own mask

	claimed   bool // the answer was started
	masked    bool // the answer is done
	survivors []string
	agreed    Digest   // the survivors it agreed to
	tags      [][]byte // for the other survivors, set when it agreed
	paying    bool     // a charge is in progress
	revealed  *conclavev1.Revealed
}

// Begin checks an attempt at a round and takes part in it. The previous attempt can then no longer be agreed to.
// Attempts are free; pay charges this one before it is opened.
func (p *Party) Begin(t *Terms, pay Pay) (*Attempt, error) {
	err := t.checkOrder()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[t.Run]
	at := t.at(p.site)
	if r == nil || r.spec != t.Spec || at < 0 || !proto.Equal(t.Members[at], r.wire) {
		return nil, fmt.Errorf("the attempt does not have this node's key of run %q; ask for the key again",
			t.Run)
	}
	if t.Fence < r.fence || t.Fence == r.fence && t.Counter <= r.counter || t.Round < r.round {
		return nil, fmt.Errorf("attempt %d.%d at round %d of run %q is not newer than the previous one, %d.%d at "+
			"round %d; start another attempt", t.Fence, t.Counter, t.Round, t.Run, r.fence, r.counter, r.round)
	}
	reveals := 0
	if r.round == t.Round {
		reveals = r.reveals
	}
	if reveals > Retries {
		return nil, fmt.Errorf("seeds of round %d of run %q were revealed %d times, the maximum; open another "+
			"run", t.Round, t.Run, reveals)
	}
	a := &Attempt{
		party: p, terms: t, digest: t.Digest(), pay: pay, pairs: make([]pair, len(t.Members)),
		partners: t.partners(at), seeds: make([][seedBytes]byte, len(t.Members)), own: newSeed(),
	}
	for i, m := range t.Members {
		if i == at {
			continue
		}
		if a.pairs[i], err = r.shared(t, p.site, m); err != nil {
			return nil, err
		}
	}
	for _, i := range a.partners {
		if a.seeds[i], err = roundSeed(a.pairs[i].secret, a.digest); err != nil {
			return nil, err
		}
	}
	r.fence, r.counter, r.round, r.reveals, r.attempt = t.Fence, t.Counter, t.Round, reveals, a
	return a, nil
}

// shared returns the secret that the party of a site shares with a member in a run. It verifies the member's key.
func (r *partyRun) shared(t *Terms, site string, m *conclavev1.RunKey) (pair, error) {
	if known, ok := r.pairs[m.GetSite()]; ok && proto.Equal(known.key, m) {
		return known, nil
	}
	if err := CheckKey(t.Run, t.Spec, t.Group, m); err != nil {
		return pair{}, err
	}
	first, second := r.wire, m
	if m.GetSite() < site {
		first, second = m, r.wire
	}
	made, err := pair{key: m}, error(nil)
	if made.secret, err = pairSecret(r.key, m.GetExchange(), t.Spec, first, second); err != nil {
		return pair{}, fmt.Errorf("the run key of %q: %w", m.GetSite(), err)
	}
	if made.says, err = tagKey(made.secret, site, m.GetSite()); err != nil {
		return pair{}, err
	}
	if made.hears, err = tagKey(made.secret, m.GetSite(), site); err != nil {
		return pair{}, err
	}
	r.pairs[m.GetSite()] = made
	return made, nil
}

// Digest identifies the attempt.
func (a *Attempt) Digest() Digest { return a.digest }

// Mask returns the answer that hides a vector: it adds the party's share of the noise and its masks, once. It may
// take long; it does not block the party's other methods.
func (a *Attempt) Mask(vector []int64) ([]int64, error) {
	if err := a.claim(len(vector)); err != nil {
		return nil, err
	}
	answer := make([]int64, len(vector))
	if err := a.terms.Share.Draw(a.party.source, answer); err != nil {
		return nil, err
	}
	AddUp(answer, vector)
	masks := make([]mask, 0, 1+len(a.partners))
	masks = append(masks, mask{seed: a.own})
	for _, i := range a.partners {
		masks = append(masks, mask{a.seeds[i], a.party.site > a.terms.Members[i].GetSite()})
	}
	addMasks(answer, masks)
	a.party.mu.Lock()
	defer a.party.mu.Unlock()
	a.masked = true
	return answer, nil
}

// claim records that the answer, with the given number of entries, is being made. Nothing is drawn twice for one
// attempt, even if the first time failed.
func (a *Attempt) claim(entries int) error {
	a.party.mu.Lock()
	defer a.party.mu.Unlock()
	if entries != a.terms.Entries {
		return fmt.Errorf("got a vector of %d entries, want %d", entries, a.terms.Entries)
	}
	if a.claimed {
		return errors.New("the attempt was already answered; start another one")
	}
	a.claimed = true
	return nil
}

// newest returns the newest attempt at a round, which the party must have answered.
func (p *Party) newest(run string, round uint64) (*Attempt, error) {
	r := p.runs[run]
	if r == nil || r.attempt == nil || r.round != round || !r.attempt.masked {
		return nil, fmt.Errorf("round %d of run %q is not the one that this node answered last; start another attempt",
			round, run)
	}
	return r.attempt, nil
}

// Agree tells the other survivors which members are in the sum of the newest attempt. It accepts only one list,
// which must contain a quorum and the party. It returns a tag for each other survivor, in their order.
func (p *Party) Agree(run string, round uint64, survivors []string) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.newest(run, round)
	if err != nil {
		return nil, err
	}
	if a.tags != nil {
		if !slices.Equal(a.survivors, survivors) {
			return nil, errors.New("this node agreed to other members in the sum; start another attempt")
		}
		return a.tags, nil
	}
	if err := a.terms.checkSurvivors(survivors); err != nil {
		return nil, err
	}
	if !slices.Contains(survivors, p.site) {
		return nil, fmt.Errorf("site %q is not in the sum; it reveals nothing", p.site)
	}
	a.survivors, a.agreed = slices.Clone(survivors), agreed(run, a.digest, survivors).digest()
	a.tags = make([][]byte, 0, len(survivors))
	for _, i := range a.others() {
		a.tags = append(a.tags, tagOf(a.pairs[i].says, a.agreed))
	}
	return a.tags, nil
}

// others returns the indexes of the other survivors among the members.
func (a *Attempt) others() (places []int) {
	next := 0 // both are in order
	for i, m := range a.terms.Members {
		if next == len(a.survivors) || m.GetSite() != a.survivors[next] {
			continue
		}
		if next++; m.GetSite() != a.party.site {
			places = append(places, i)
		}
	}
	return places
}

// Reveal opens the party's answer to the newest attempt if all in the sum agreed. tags are those of the other
// survivors for this party, in their order. It charges the opening first, and always reveals the same.
func (p *Party) Reveal(run string, round uint64, tags [][]byte) (*conclavev1.Revealed, error) {
	a, before, err := p.mayReveal(run, round, tags)
	if err != nil || before != nil {
		return before, err
	}
	err = a.pay(a.agreed) // may take long, and must not block others
	p.mu.Lock()
	defer p.mu.Unlock()
	a.paying = false
	if err != nil {
		return nil, err
	}
	if now, err := p.newest(run, round); err != nil || now != a {
		return nil, errors.New("another attempt was started while this one was charged; continue with that one")
	}
	out := &conclavev1.Revealed{Run: run, Round: round, Own: bytes.Clone(a.own[:])}
	for _, i := range a.terms.lost(a.terms.at(p.site), a.survivors) {
		out.Lost = append(out.Lost, bytes.Clone(a.seeds[i][:]))
	}
	p.runs[run].reveals++
	a.revealed = out
	return out, nil
}

// mayReveal returns the newest attempt, if it may be opened once it is charged, and what it revealed before.
func (p *Party) mayReveal(run string, round uint64, tags [][]byte) (
	a *Attempt, before *conclavev1.Revealed, err error,
) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err = p.newest(run, round)
	switch {
	case err != nil:
		return nil, nil, err
	case a.tags == nil:
		return nil, nil, errors.New("this node has not agreed to the members of the sum")
	case a.revealed != nil:
		return a, a.revealed, nil
	case a.paying:
		return nil, nil, errors.New("this node is still charging the opening of its answer; ask again")
	}
	if err := CheckTags(a.survivors, tags); err != nil {
		return nil, nil, err
	}
	var doubt DoubtError
	for n, i := range a.others() {
		if !hmac.Equal(tags[n], tagOf(a.pairs[i].hears, a.agreed)) {
			doubt.Sites = append(doubt.Sites, a.terms.Members[i].GetSite())
		}
	}
	if doubt.Sites != nil {
		return nil, nil, &doubt
	}
	a.paying = true
	return a, nil, nil
}
