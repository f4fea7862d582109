package site

import (
	"net/http"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// ledger shows the site's own ledger, and verifies all of it each time.
func (s *Site) ledger(r *http.Request) (console.View, error) {
	anew, _, err := review.Open(s.path, true)
	if err != nil {
		return console.View{}, err
	}
	entries, err := anew.Entries()
	if err != nil {
		return console.View{}, err
	}
	status, err := s.current()
	if err != nil {
		return console.View{}, err
	}
	slices.Reverse(entries)
	list := console.ListOf(r, entries, func(e sitepolicy.Entry) string {
		return strings.Join([]string{e.Run, e.Type, e.By, e.Time, e.Hash}, " ")
	}, func(e sitepolicy.Entry, kind string) bool { return e.Type == kind })
	return console.View{Page: "ledger", Title: "The site's ledger", Events: s.events(), Data: struct {
		Status *sitepolicy.Status
		List   console.List[sitepolicy.Entry]
		Types  []string
	}{status, list, []string{sitepolicy.EntryOpen, sitepolicy.EntryLimit, sitepolicy.EntryRun, sitepolicy.EntryAdvance,
		sitepolicy.EntryApprove, sitepolicy.EntryDeny, sitepolicy.EntryExpire, sitepolicy.EntryCharge,
		sitepolicy.EntryEnd, sitepolicy.EntryLists, sitepolicy.EntryAccept}}}, nil
}
