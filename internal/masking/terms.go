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

// Digest is a SHA-256 hash.
type Digest = [sha256.Size]byte

// Retries is how often a member opens its answer to one round again, if it had revealed its seeds and the sum did
// not open or was lost. Each retry costs as much as the round. Attempts that a member does not open are free and
// not counted: see the package's documentation.
const Retries = 3

// Terms are the terms of one attempt at a round. Each participant computes them from its own messages.
type Terms struct {
	Run   string
	Spec  Digest // of the run's spec, which names dataset, plan and group
	Group Group  // as in the spec
	Round uint64
	// Fence and Counter identify the attempt; they grow with later attempts.
	Fence, Counter uint64
	Question       Digest // of the round's bytes
	Entries        int    // of the vector
	Share          gnmax.Share
	// Members are S, the members that are asked, ordered by site.
	Members []*conclavev1.RunKey
}

// Digest identifies the attempt: attempts that differ in anything have different digests.
func (t *Terms) Digest() Digest { return t.encoding().digest() }

func (t *Terms) encoding() encoding {
	e := encode("terms").text(t.Run).bytes(t.Spec[:]).number(t.Round).number(t.Fence).number(t.Counter).
		bytes(t.Question[:]).number(uint64(t.Entries))
	tt, w, q := t.Share.Parameters()
	e = e.number(tt).number(w).number(q).number(uint64(len(t.Group.Members))).number(uint64(t.Group.Quorum)).
		number(uint64(t.Group.Colluding)).number(uint64(len(t.Members)))
	e = slices.Grow(e, 512*len(t.Members)) // the approximate final size
	for _, m := range t.Members {
		e = e.text(m.GetSite()).bytes(m.GetExchange()).bytes(m.GetIdentity()).bytes(m.GetSignature())
	}
	return e
}

// checkOrder checks that the members are a quorum, in order and without repetition. Their keys are verified where
// they are used. Its errors may be sent to anybody.
func (t *Terms) checkOrder() error {
	if t.Entries < 1 {
		return errors.New("a masked sum without entries; ask for one or more")
	}
	if len(t.Members) < t.Group.Quorum {
		return fmt.Errorf("%d members take part and the quorum is %d; ask again when more are "+
			"connected", len(t.Members),
			t.Group.Quorum)
	}
	for i, m := range t.Members {
		if i > 0 && t.Members[i-1].GetSite() >= m.GetSite() {
			return fmt.Errorf("member %q comes after %q; list each once, in sorted order", m.GetSite(),
				t.Members[i-1].GetSite())
		}
	}
	return nil
}

// signedKey is the text that a member signs for its key.
func signedKey(run string, spec Digest, k *conclavev1.RunKey) encoding {
	return encode("run key").text(run).bytes(spec[:]).text(k.GetSite()).bytes(k.GetExchange())
}

// The largest sizes of a run key's parts: a site's name, an ECDSA key on P-521 and a signature with it.
const (
	maxSite      = 128
	maxIdentity  = 160
	maxSignature = 144
)

// Fits refuses a run key that is larger than any valid one, before it is stored.
func Fits(k *conclavev1.RunKey) error {
	if n := messages.Unknown(k.ProtoReflect()); n > 0 {
		return fmt.Errorf("a run key with %d unknown bytes; install matching versions", n)
	}
	if len(k.GetSite()) > maxSite || len(k.GetExchange()) > seedBytes || len(k.GetIdentity()) > maxIdentity ||
		len(k.GetSignature()) > maxSignature {
		return fmt.Errorf("a run key of %d, %d and %d bytes for a site whose name has %d; the maximum is %d, %d, %d "+
			"and %d", len(k.GetExchange()), len(k.GetIdentity()), len(k.GetSignature()), len(k.GetSite()), seedBytes,
			maxIdentity, maxSignature, maxSite)
	}
	return nil
}

// CheckKey checks that a run key belongs to a member.
func CheckKey(run string, spec Digest, g Group, k *conclavev1.RunKey) error {
	if err := Fits(k); err != nil {
		return err
	}
	if !g.Has(k.GetSite(), k.GetIdentity()) {
		return fmt.Errorf("%q with this key is not a member of run %q; the run's spec lists members with the SHA-256 "+
			"of their certificates' public keys", k.GetSite(), run)
	}
	if err := verify(k.GetIdentity(), signedKey(run, spec, k), k.GetSignature()); err != nil {
		return fmt.Errorf("the run key of %q: %w", k.GetSite(), err)
	}
	return nil
}

// at is the index of a site among the members, -1 if it is not a member.
func (t *Terms) at(site string) int {
	for i, m := range t.Members {
		if m.GetSite() == site {
			return i
		}
	}
	return -1
}

// checkSurvivors checks that U can be opened: a quorum of the members that were asked, in order.
func (t *Terms) checkSurvivors(survivors []string) error {
	if len(survivors) < t.Group.Quorum {
		return fmt.Errorf("%d members are in the sum and the quorum is %d; start another attempt", len(survivors),
			t.Group.Quorum)
	}
	next := 0
	for _, site := range survivors {
		for next < len(t.Members) && t.Members[next].GetSite() != site {
			next++
		}
		if next == len(t.Members) {
			return fmt.Errorf("the members in the sum are not the asked members, each once and in sorted order: "+
				"%q", site)
		}
		next++
	}
	return nil
}
