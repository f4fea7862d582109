package site

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// advance shows the approvals in advance.
func (s *Site) advance(r *http.Request) (console.View, error) {
	status, err := s.current()
	if err != nil {
		return console.View{}, err
	}
	type given struct {
		sitepolicy.Run
		Says     string
		MayBegin bool
	}
	list := console.ListOf(r, newest(status.InAdvance), func(r sitepolicy.Run) string {
		return r.Run + " " + r.Advance.Student
	}, func(r sitepolicy.Run, state string) bool { return r.State == state })
	data := struct {
		List      console.List[sitepolicy.Run]
		Given     []given
		Pipelines []string
		Who       string
	}{List: list, Pipelines: sitepolicy.Pipelines(), Who: s.who}
	for _, a := range list.Rows {
		var text bytes.Buffer
		review.WriteAdvance(&text, a)
		data.Given = append(data.Given, given{a, strings.TrimSpace(text.String()), a.State == sitepolicy.StateApproved})
	}
	return console.View{Page: "advance", Title: "Approvals in advance", Events: s.events(), Data: data}, nil
}

// approveAdvance approves runs in advance, as `teacher approve --student` does.
func (s *Site) approveAdvance(r *http.Request) (to, say string, err error) {
	const back = "/advance"
	until, err := review.End(r.PostFormValue("until"), "")
	if err != nil {
		return back, "", err
	}
	epsilon, err := strconv.ParseFloat(r.PostFormValue("epsilon"), 64)
	if err != nil {
		return back, "", fmt.Errorf("epsilon: %q is not a number; give one such as 2", r.PostFormValue("epsilon"))
	}
	decided, err := review.Decide(s.path, r.PostFormValue("name"), "", sitepolicy.Decision{
		Approve: true, Until: until, Sign: s.sign, Advance: &sitepolicy.Advance{
			Student: r.PostFormValue("student"), Pipelines: r.PostForm["pipeline"], Epsilon: epsilon,
			Purpose: r.PostFormValue("purpose"), Study: r.PostFormValue("study"),
		},
	})
	if err != nil {
		return back, "", err
	}
	s.expire()
	return back, fmt.Sprintf("%s is %s now.", decided.Run, review.StateText(*decided)), nil
}
