package masking

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/messages"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Digest is a SHA-256.
type Digest = [sha256.Size]byte

// Retries is how often a member opens its answer to one round again, where it had revealed its seeds and the sum did
// not open, or was lost. Each costs as much as the round. Attempts that a member does not open are free, and are not
// counted: see the package's documentation.
const Retries = 3

// Terms are the terms of one attempt at a round. Each participant computes them itself, from its messages.
type Terms struct {
	Run   string
	Spec  Digest // of the run's spec, which names dataset, plan and group
	Group Group  // as the spec has it
	Round uint64
	// Fence and Counter name the attempt; those of later ones are larger.
	Fence, Counter uint64
	Question       Digest // of the round's bytes
	Entries        int    // of the vector
	Share          gnmax.Share
	// Members are S, those that are asked, in the order of their sites.
	Members []*conclavev1.RunKey
}

// Digest names the attempt: two that differ in anything have different ones.
func (t *Terms) Digest() Digest { return t.encoding().digest() }

func (t *Terms) encoding() encoding {
	e := encode("terms").text(t.Run).bytes(t.Spec[:]).number(t.Round).number(t.Fence).number(t.Counter).
		bytes(t.Question[:]).number(uint64(t.Entries))
	tt, w, q := t.Share.Parameters()
	e = e.number(tt).number(w).number(q).number(uint64(len(t.Group.Members))).number(uint64(t.Group.Quorum)).
		number(uint64(t.Group.Colluding)).number(uint64(len(t.Members)))
	e = slices.Grow(e, 512*len(t.Members)) // as much as it is, about
	for _, m := range t.Members {
		e = e.text(m.GetSite()).bytes(m.GetExchange()).bytes(m.GetIdentity()).bytes(m.GetSignature())
	}
	return e
}

// checkOrder says whether a quorum of members, each once and in order, is to take part. Their keys are verified
// where they are used. An error can be told to anybody.
func (t *Terms) checkOrder() error {
	if t.Entries < 1 {
		return errors.New("a masked sum of no entries; ask for one or more")
	}
	if len(t.Members) < t.Group.Quorum {
		return fmt.Errorf("%d members are to take part and the quorum is %d; ask when more are there", len(t.Members),
			t.Group.Quorum)
	}
	for i, m := range t.Members {
		if i > 0 && t.Members[i-1].GetSite() >= m.GetSite() {
			return fmt.Errorf("member %q comes after %q; name each once, in the order of names", m.GetSite(),
				t.Members[i-1].GetSite())
		}
	}
	return nil
}

// signedKey is the text that a member signs for its key.
func signedKey(run string, spec Digest, k *conclavev1.RunKey) encoding {
	return encode("run key").text(run).bytes(spec[:]).text(k.GetSite()).bytes(k.GetExchange())
}

// The largest parts that a run key can have: a name of a site, and an ECDSA key on P-521 with a signature of it.
const (
	maxSite      = 128
	maxIdentity  = 160
	maxSignature = 144
)

// Fits refuses a run key that is larger than any can be, before it is kept.
func Fits(k *conclavev1.RunKey) error {
	if n := messages.Unknown(k.ProtoReflect()); n > 0 {
		return fmt.Errorf("a run key with %d bytes that are no part of one; install matching versions", n)
	}
	if len(k.GetSite()) > maxSite || len(k.GetExchange()) > seedBytes || len(k.GetIdentity()) > maxIdentity ||
		len(k.GetSignature()) > maxSignature {
		return fmt.Errorf("a run key of %d, %d and %d bytes for a site whose name has %d; %d, %d, %d and %d are the "+
			"most", len(k.GetExchange()), len(k.GetIdentity()), len(k.GetSignature()), len(k.GetSite()), seedBytes,
			maxIdentity, maxSignature, maxSite)
	}
	return nil
}

// CheckKey checks that a run key is a member's.
func CheckKey(run string, spec Digest, g Group, k *conclavev1.RunKey) error {
	if err := Fits(k); err != nil {
		return err
	}
	if !g.Has(k.GetSite(), k.GetIdentity()) {
		return fmt.Errorf("%q with the key that it shows is no member of run %q; members stand in the run's spec, "+
			"with the SHA-256 of their certificates' public keys", k.GetSite(), run)
	}
	if err := verify(k.GetIdentity(), signedKey(run, spec, k), k.GetSignature()); err != nil {
		return fmt.Errorf("the run key of %q: %w", k.GetSite(), err)
	}
	return nil
}

// at is the place of a site among the members, -1 where it is none.
func (t *Terms) at(site string) int {
	for i, m := range t.Members {
		if m.GetSite() == site {
			return i
		}
	}
	return -1
}

// checkSurvivors says whether U can stand: a quorum of those that were asked, in order.
func (t *Terms) checkSurvivors(survivors []string) error {
	if len(survivors) < t.Group.Quorum {
		return fmt.Errorf("%d members are to be in the sum and the quorum is %d; begin another attempt", len(survivors),
			t.Group.Quorum)
	}
	next := 0
	for _, site := range survivors {
		for next < len(t.Members) && t.Members[next].GetSite() != site {
			next++
		}
		if next == len(t.Members) {
			return fmt.Errorf("the members in the sum are not those that were asked, each once and in order: %q", site)
		}
		next++
	}
	return nil
}
