package transport

import (
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// runBurst calls of a student or operator may change runs at once, and then one in runEvery: two for
	// each run that a student may ever have by default, and some. Each is written to etcd, which keeps
	// what was removed until it is compacted, and to the audit log.
	runBurst = 2500
	runEvery = time.Second
	// joinBurst nodes of a site may join at once, and then one in joinEvery: all that it may have in a
	// dataset, and all of them again.
	joinBurst = 1 << 14
	joinEvery = 100 * time.Millisecond
	// enrollBurst requests a site may send at once, and an operator rosters, and then one in enrollEvery.
	enrollBurst = 20
	enrollEvery = 30 * time.Second
)

// changes bound the calls that are written to etcd or to the audit log, whatever they do: as what a
// peer did is never left out of either, it may not do it without end. Rounds have a bound of their
// own, the budget and max_questions. Of some calls package service knows alone whether they change
// something.
type changes map[string]*peer.Rates // by method

func newChanges() changes {
	runs := peer.NewRates(runBurst, runEvery)
	enrolls := peer.NewRates(enrollBurst, enrollEvery)
	return changes{
		conclavev1.EnrollService_SendRequest_FullMethodName:  enrolls,
		conclavev1.AdmitService_PublishRoster_FullMethodName: enrolls,
		conclavev1.StudentService_OpenRun_FullMethodName:     runs,
		conclavev1.StudentService_CloseRun_FullMethodName:    runs,
		conclavev1.RunService_SubmitRun_FullMethodName:       runs,
		conclavev1.RunService_CancelRun_FullMethodName:       runs,
		conclavev1.RunService_RemoveRun_FullMethodName:       runs,
		conclavev1.RunService_FinishRun_FullMethodName:       runs,
		conclavev1.TeacherService_Work_FullMethodName:        peer.NewRates(joinBurst, joinEvery),
	}
}

// check refuses a call of a peer that made too many that change something.
func (c changes) check(id certs.Identity, method string) error {
	if rates := c[method]; rates != nil {
		return rates.Check(id, "made too many calls that change something")
	}
	return nil
}
