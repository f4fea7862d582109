package queue

import (
	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type runStatus struct {
	Name     string `json:"name"`
	Dataset  string `json:"dataset"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Pipeline string `json:"pipeline"`
	Purpose  string `json:"purpose,omitempty"`
	// Study is the run's study.
	Study        *study.Block `json:"study,omitempty"`
	Epsilon      float64      `json:"epsilon"`
	Delta        float64      `json:"delta"`
	EpsilonSpent float64      `json:"epsilon_spent"`
	Rounds       uint64       `json:"rounds"`
	Teachers     uint32       `json:"teachers"`
	queuePlace
	Opened     bool        `json:"opened"`
	Closed     bool        `json:"closed"`
	LedgerHead string      `json:"ledger_head,omitempty"`
	Results    []runResult `json:"results,omitempty"`
}

type queuePlace struct {
	Queued    bool   `json:"queued"`
	By        string `json:"by,omitempty"`
	Submitted string `json:"submitted,omitempty"`
	Worker    string `json:"worker,omitempty"`
	Holder    string `json:"holder,omitempty"`
	Connected bool   `json:"connected"`
	Claims    uint32 `json:"claims"`
	Claimed   string `json:"claimed,omitempty"`
	Ended     string `json:"ended,omitempty"`
	Place     uint32 `json:"place,omitempty"`
}

type runResult struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// shownRun is a run with its progress, and its run.yaml while that is stored.
type shownRun struct {
	runStatus
	Progress *runProgress `json:"progress,omitempty"`
	RunYAML  string       `json:"run_yaml,omitempty"`
}

type runProgress struct {
	Round        uint64  `json:"round"`
	Rounds       uint64  `json:"rounds"`
	Of           string  `json:"of,omitempty"`
	EpsilonSpent float64 `json:"epsilon_spent"`
	Waiting      string  `json:"waiting,omitempty"`
	Part         string  `json:"part,omitempty"`
	Halted       bool    `json:"halted,omitempty"`
}

type datasetBudget struct {
	Dataset         string  `json:"dataset"`
	Epsilon         float64 `json:"epsilon"`
	Delta           float64 `json:"delta"`
	Filter          string  `json:"filter"`
	EpsilonSpent    float64 `json:"epsilon_spent"`
	EpsilonReserved float64 `json:"epsilon_reserved"`
	EpsilonLeft     float64 `json:"epsilon_left"`
	Open            uint32  `json:"open"`
	Waiting         uint32  `json:"waiting"`
	Workers         uint32  `json:"workers"`
	// Study is the study that all its runs must belong to.
	Study *study.Block `json:"study,omitempty"`
}

type runList struct {
	Runs     []runStatus     `json:"runs"`
	Datasets []datasetBudget `json:"datasets"`
}

type submittedRun struct {
	Run      runStatus `json:"run"`
	Existing bool      `json:"existing"`
	Fits     bool      `json:"fits"`
	// EpsilonLeft is what one more run with the same delta may spend.
	EpsilonLeft float64       `json:"epsilon_left"`
	Budget      datasetBudget `json:"budget"`
	Quorum      quorum        `json:"quorum"`
}

// quorum has sites of a masked run, and teachers of others.
type quorum struct {
	TeachersNeeded uint32 `json:"teachers_needed,omitempty"`
	TeachersLive   uint32 `json:"teachers_live,omitempty"`
	SitesNeeded    uint32 `json:"sites_needed,omitempty"`
	SitesLive      uint32 `json:"sites_live,omitempty"`
}

func runOf(r *conclavev1.RunStatus) runStatus {
	s := runStatus{
		Name: r.GetName(), Dataset: r.GetDataset(), State: requester.StateName(r.GetState()), Reason: r.GetReason(),
		Pipeline: r.GetPipeline(), Purpose: r.GetPurpose(), Study: study.FromWire(r.GetStudy()),
		Epsilon: r.GetEpsilon(), Delta: r.GetDelta(), EpsilonSpent: r.GetEpsilonSpent(),
		Rounds: r.GetRounds(), Teachers: r.GetTeachers(),
		queuePlace: queuePlace{
			Queued: r.GetQueued(), By: r.GetBy(), Submitted: r.GetSubmitted(),
			Worker: r.GetWorker(), Holder: r.GetHolder(), Connected: r.GetConnected(),
			Claims: r.GetClaims(), Claimed: r.GetClaimed(), Ended: r.GetEnded(), Place: r.GetPlace(),
		},
		Opened: r.GetOpened(), Closed: r.GetClosed(), LedgerHead: r.GetLedgerHead(),
	}
	for _, f := range r.GetResults() {
		s.Results = append(s.Results, runResult{f.GetName(), f.GetPath(), f.GetSha256()})
	}
	return s
}

func progressOf(p *conclavev1.RunProgress) *runProgress {
	return &runProgress{
		p.GetRound(), p.GetRounds(), p.GetOf(), p.GetEpsilonSpent(), p.GetWaiting(), p.GetPart(), p.GetHalted(),
	}
}

func quorumOf(q *conclavev1.Quorum) quorum {
	return quorum{q.GetTeachersNeeded(), q.GetTeachersLive(), q.GetSitesNeeded(), q.GetSitesLive()}
}

func budgetOf(b *conclavev1.DatasetBudget) datasetBudget {
	return datasetBudget{
		Dataset: b.GetDataset(), Epsilon: b.GetEpsilon(), Delta: b.GetDelta(), Filter: b.GetFilter(),
		EpsilonSpent: b.GetEpsilonSpent(), EpsilonReserved: b.GetEpsilonReserved(), EpsilonLeft: b.GetEpsilonLeft(),
		Open: b.GetOpen(), Waiting: b.GetWaiting(), Workers: b.GetWorkers(),
		Study: study.FromWire(b.GetStudy()),
	}
}
