package transport

import (
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	// runBurst bounds the run-changing calls of a student or operator at once; after that, one per runEvery. It
	// covers two calls for each run that a student may ever have by default, and some more. Each call is written to
	// the audit log and to etcd, which keeps removed values until it is compacted.
	runBurst = 2500
	runEvery = time.Second
	// joinBurst bounds the joins of a site's nodes at once; after that, one per joinEvery. It covers all nodes that a
	// site may have in a dataset, twice.
	joinBurst = 1 << 14
	joinEvery = 100 * time.Millisecond
	// enrollBurst bounds the requests of a site and the rosters of an operator at once; after that, one per
	// enrollEvery.
	enrollBurst = 20
	enrollEvery = 30 * time.Second
)

// changes limit calls that write to etcd or to the audit log, which never omit a peer's actions. Rounds have their
// own limits: the budget and max_questions. For some calls only package service knows whether they change something.
type changes map[string]*peer.Rates // by method

func newChanges() changes {
	runs := peer.NewRates(runBurst, runEvery)
	enrolls := peer.NewRates(enrollBurst, enrollEvery)
	return changes{
		rpc.EnrollService_SendRequest_FullMethodName:  enrolls,
		rpc.AdmitService_PublishRoster_FullMethodName: enrolls,
		rpc.StudentService_OpenRun_FullMethodName:     runs,
		rpc.StudentService_CloseRun_FullMethodName:    runs,
		rpc.RunService_SubmitRun_FullMethodName:       runs,
		rpc.RunService_CancelRun_FullMethodName:       runs,
		rpc.RunService_RemoveRun_FullMethodName:       runs,
		rpc.RunService_FinishRun_FullMethodName:       runs,
		rpc.TeacherService_Work_FullMethodName:        peer.NewRates(joinBurst, joinEvery),
	}
}

// check refuses a call of a peer that made too many changing calls.
func (c changes) check(id certs.Identity, method string) error {
	if rates := c[method]; rates != nil {
		return rates.Check(id, "made too many calls that change state")
	}
	return nil
}
