package sitepolicy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/conclave-dp/conclave/internal/masking"
)

// Approver is a person whose signed decisions count, identified by the key of their certificate.
type Approver struct {
	// Name is the person's name. Required.
	Name string `yaml:"name"`
	// Key is the SHA-256 fingerprint of the key of the person's certificate, in hex, also in groups. Required.
	Key string `yaml:"key"`
}

// mostApprovers bounds the persons of a policy, because every round checks their decisions.
const mostApprovers = 20

// validateApproval checks the fields about approvals.
func (d *Dataset) validateApproval(need func(ok bool, field, format string, args ...any)) {
	need(d.Approval == ByHand || d.Approval == Automatic, "approval", "%q is not valid; use by-hand or automatic",
		d.Approval)
	automatic := d.Approval == Automatic
	if d.ApprovalExpires != "" {
		_, err := ParseTerm(d.ApprovalExpires)
		need(err == nil, "approval_expires", "%w", err)
		need(!automatic, "approval_expires", "has no effect with automatic approval; use by-hand")
	}
	need(len(d.Approvers) == 0 || !automatic, "approvers", "has no effect with automatic approval; use by-hand")
	need(len(d.Approvers) <= mostApprovers, "approvers", "%d persons; the maximum is "+
		"%d", len(d.Approvers), mostApprovers)
	need(len(d.Approvers) > 0 || d.ApprovalsNeeded == 0, "approvals_needed",
		"needs approvers; list them, or leave it out")
	need(len(d.Approvers) == 0 || 1 <= d.ApprovalsNeeded && d.ApprovalsNeeded <= len(d.Approvers), "approvals_needed",
		"%d of %d approvers is not possible; use 1 to %d", d.ApprovalsNeeded, len(d.Approvers), len(d.Approvers))
	names, keys := map[string]bool{}, map[masking.Fingerprint]bool{}
	for i, a := range d.Approvers {
		at := fmt.Sprintf("approvers[%d]", i)
		need(a.Name != "" && len(a.Name) <= maxName && !strings.ContainsFunc(a.Name, unicode.IsControl), at+".name",
			"%q is not a name; use 1 to %d letters on one line", a.Name, maxName)
		need(!names[a.Name], at+".name", "%q is listed twice; keep only one", a.Name)
		names[a.Name] = true
		key, err := masking.ParseFingerprint(a.Key)
		if err != nil {
			need(false, at+".key", "%w", err)
			continue
		}
		need(!keys[key], at+".key", "is also the key of another approver; each person needs their own key")
		keys[key] = true
	}
}

// maxName bounds the name of a person, in bytes.
const maxName = 100

// approver names the person with a key in hex; ok is false if the policy has none.
func (d *Dataset) approver(key string) (name string, ok bool) {
	for _, a := range d.Approvers {
		if listed, err := masking.ParseFingerprint(a.Key); err == nil && listed.Hex() == key {
			return a.Name, true
		}
	}
	return "", false
}

// mostTerm is ten years: a longer approval may as well have no end.
const mostTerm = 3650 * 24 * time.Hour

// ParseTerm parses how long an approval holds: a number of days such as 30d, or a duration such as 36h.
func ParseTerm(text string) (time.Duration, error) {
	var term time.Duration
	days, isDays := strings.CutSuffix(text, "d")
	n, err := strconv.Atoi(days)
	if isDays && err == nil {
		term = time.Duration(min(n, 1<<15)) * 24 * time.Hour // a larger number is too long anyway
	} else {
		term, err = time.ParseDuration(text)
	}
	if err != nil || term < time.Second || term > mostTerm {
		return 0, fmt.Errorf("%q is not valid; use days such as 30d, or a duration such as 36h, from 1s to 3650d", text)
	}
	return term, nil
}

// ParseUntil parses when an approval ends: a day, which means its end in UTC, or an RFC 3339 time.
func ParseUntil(text string) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is not a date or time; use 2027-01-31, the end of that day in UTC, or "+
			"2027-01-31T18:00:00Z", text)
	}
	return at, nil
}
