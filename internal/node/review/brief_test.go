package review

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// A person who denied or approved a run did not end it.
func TestStateText(t *testing.T) {
	by := func(state string, d sitepolicy.Decisions) sitepolicy.Run {
		d.By = "ann"
		return sitepolicy.Run{State: state, Decisions: d}
	}
	said := func(denied, approved bool) sitepolicy.Decisions {
		return sitepolicy.Decisions{Said: []sitepolicy.Said{{Decision: sitepolicy.EntryDeny, Counts: denied},
			{Decision: sitepolicy.EntryApprove, Counts: approved}}}
	}
	const until = "2030-01-01T00:00:00Z"
	for want, r := range map[string]sitepolicy.Run{
		"ended":                  {State: sitepolicy.StateEnded},
		"ended, denied by ann":   by(sitepolicy.StateEnded, said(true, false)),
		"ended, approved by ann": by(sitepolicy.StateEnded, said(false, true)),
		"denied by ann":          by(sitepolicy.StateDenied, said(true, false)),
		"waiting (1 of 2)": by(sitepolicy.StateWaiting,
			sitepolicy.Decisions{Approvals: 1, ApprovalsNeeded: 2}),
		"approved by ann until " + until: by(sitepolicy.StateApproved, sitepolicy.Decisions{Until: until}),
	} {
		if got := StateText(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
