package run

import (
	"testing"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestWhatARoundWaitsForIsSaid(t *testing.T) {
	sites := []string{"north/0 waits for approval at site north", "south/1 waits for approval at site south"}
	for want, p := range map[string]*conclavev1.Progress{
		"": {TeachersLive: 9, TeachersNeeded: 9},
		"waiting for a quorum: 5 of 9 teachers connected": {TeachersLive: 5, TeachersNeeded: 9, WaitingForQuorum: true},
		"waiting for a quorum of 9 teachers, 10 are connected: north/0 waits for approval at site north": {
			TeachersLive: 10, TeachersNeeded: 9, WaitingForQuorum: true, WaitingFor: sites[:1]},
		"continuing without north/0 waits for approval at site north; south/1 waits for approval at site south": {
			TeachersLive: 10, TeachersNeeded: 2, WaitingFor: sites},
	} {
		got := Status{Round: 3}.waitingFor(p)
		if want := (Status{Round: 3, Waiting: want, Halted: p.WaitingForQuorum}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
