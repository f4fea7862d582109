package authority

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// States of a certificate in an [Inventory].
const (
	StateValid   = "valid"
	StateSoon    = "expires soon"
	StateExpired = "expired"
	StateRevoked = "revoked"
)

// soon is when a certificate should be renewed: this long before its end, or in the last third of a short one.
const soon = 14 * 24 * time.Hour

// Certificate is a certificate in the register, with its state.
type Certificate struct {
	Role        certs.Role `json:"role,omitempty"`
	Name        string     `json:"name,omitempty"`
	Serial      string     `json:"serial"`
	State       string     `json:"state"`
	NotBefore   time.Time  `json:"not_before,omitzero"`
	NotAfter    time.Time  `json:"not_after,omitzero"`
	Fingerprint string     `json:"fingerprint,omitempty"` // of the public key
	Hosts       []string   `json:"hosts,omitempty"`
	RevokedAt   time.Time  `json:"revoked_at,omitzero"`
	Reason      string     `json:"reason,omitempty"`
}

// Inventory lists what the authority in dir has issued, by role, name and age, from its register. Certificates issued
// before there was a register are missing, unless they were revoked.
func Inventory(dir string) ([]Certificate, error) { return inventory(dir, time.Now()) }

func inventory(dir string, now time.Time) ([]Certificate, error) {
	if certFile, _ := certs.AuthorityFiles(dir); pemfile.Absent(certFile) == nil {
		return nil, fmt.Errorf("%w: no authority in %s", certs.ErrMissing, dir)
	}
	// Without the lock, which needs write permission: lines are complete or truncated.
	r, err := readRegister(dir)
	if err != nil {
		return nil, err
	}
	var all []Certificate
	at := map[string]int{}
	for _, e := range r.entries {
		if e.Event != EventIssued {
			continue
		}
		at[e.Serial] = len(all)
		all = append(all, Certificate{
			Role: e.Role, Name: e.Name, Serial: e.Serial, State: stateAt(e, now),
			NotBefore: e.NotBefore, NotAfter: e.NotAfter, Fingerprint: e.Fingerprint, Hosts: e.Hosts,
		})
	}
	for _, e := range r.entries {
		if e.Event != EventRevoked {
			continue
		}
		i, ok := at[e.Serial]
		if !ok {
			i = len(all)
			at[e.Serial] = i
			all = append(all, Certificate{Role: e.Role, Name: e.Name, Serial: e.Serial, Fingerprint: e.Fingerprint})
		}
		if all[i].State != StateRevoked {
			all[i].State, all[i].RevokedAt, all[i].Reason = StateRevoked, e.Time, e.Reason
		}
	}
	slices.SortStableFunc(all, func(a, b Certificate) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name), a.NotBefore.Compare(b.NotBefore))
	})
	return all, nil
}

// StateOf is the state of a certificate that is not revoked, from its end only.
func StateOf(ends, now time.Time) string { return stateAt(Entry{NotAfter: ends}, now) }

func stateAt(e Entry, now time.Time) string {
	switch left := e.NotAfter.Sub(now); {
	case left < 0:
		return StateExpired
	case left < min(soon, e.NotAfter.Sub(e.NotBefore)/3):
		return StateSoon
	}
	return StateValid
}
