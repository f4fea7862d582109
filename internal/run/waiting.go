package run

import (
	"fmt"
	"strings"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// waitingFor is a run's status while its round has this progress.
func (s Status) waitingFor(p *conclavev1.Progress) Status {
	s.Waiting, s.Halted = waitingText(p), p.GetWaitingForQuorum()
	return s
}

// waitingText says what a round waits for, or which nodes it continues without because their sites have not
// decided; empty if it waits for nothing.
func waitingText(p *conclavev1.Progress) string {
	sites := strings.Join(p.GetWaitingFor(), "; ")
	switch {
	case p.GetWaitingForQuorum() && sites != "":
		return fmt.Sprintf("waiting for a quorum of %d teachers, %d are connected: %s", p.GetTeachersNeeded(),
			p.GetTeachersLive(), sites)
	case p.GetWaitingForQuorum():
		return fmt.Sprintf("waiting for a quorum: %d of %d teachers connected", p.GetTeachersLive(),
			p.GetTeachersNeeded())
	case sites != "":
		return "continuing without " + sites
	}
	return ""
}
