package auditlog

import "strings"

// Events of an entry.
const (
	Started = "started" // the process began to write this file
	Leading = "leading" // an aggregator became the leader
	// Of an aggregator whose certificate files are not in order: it lets nobody in, it does
	// again, and it gave the lead away because of that.
	NotAccepting = "not-accepting"
	Accepting    = "accepting"
	GaveAway     = "lead-given-away"

	Joined    = "join"       // a node joined an aggregator
	Left      = "leave"      // its stream ended
	RunOpened = "run-opened" // or found again
	RunClosed = "run-closed"
	// Of the queue: submitted, taken by a worker, given back, ended, and cancelled.
	RunSubmitted = "run-submitted"
	RunClaimed   = "run-claimed"
	RunReturned  = "run-returned"
	RunFinished  = "run-finished"
	RunCancelled = "run-cancelled"
	RunRemoved   = "run-removed"
	RunFetched   = "run-fetched" // the files of one that is done began to go to who submitted it
	// Of a study: a site asks to be admitted, and the operator publishes who is.
	SiteAsked       = "site-request"
	RosterPublished = "roster-published"
	// LedgerAccepted: a site takes a dataset's ledger that was restored from an older one.
	LedgerAccepted = "ledger-accepted"
	// Of a site's people: one lets a run begin or denies it, and an approval was asked for after its end.
	Approved = "approval"
	Denied   = "denial"
	Expired  = "expiry"
	Released = "release" // a round was answered and charged
	// Found: a new leader found a release at the end of the ledger, whose line may be in no audit log.
	Found    = "release-found"
	Repeated = "repeat" // the stored answer of a round was handed out again, at no cost
	Answered = "answer" // a node's teachers answered a round
	Opened   = "open"   // a node opens its answer to a round of a masked run
	// LeftOut: how many lines of a certificate were left out, being too many.
	LeftOut = "left-out"
	Refused = "refusal" // of a connection, a node, a run, a round or an answer
	Stopped = "stopped"
)

// Entry is one line. It holds no record, no value of one, no vote and no sum: only
// names, what was asked for, what it cost and why it was refused.
type Entry struct {
	writer
	// Event is one of the constants of this package.
	Event string `json:"event"`
	peer
	Dataset  string  `json:"dataset,omitempty"`
	Node     string  `json:"node,omitempty"` // site/node
	Teachers uint32  `json:"teachers,omitempty"`
	Run      string  `json:"run,omitempty"`
	Round    *uint64 `json:"round,omitempty"`
	Purpose  string  `json:"purpose,omitempty"`
	// Study is the study that the run is of, as its spec says.
	Study *Study `json:"study,omitempty"`
	Charge
	// Bytes is the size of what is about to leave, which depends on what was asked and on no record.
	Bytes int `json:"bytes,omitempty"`
	// Remote is the address of a connection that was refused before its peer was known. Suppressed counts the
	// refusals before it that have no line of their own.
	Remote     string `json:"remote,omitempty"`
	Suppressed uint64 `json:"suppressed,omitempty"`
	// Method is the call that was refused, Code gRPC's word for the kind of refusal, or the
	// state in which a run of the queue ended, Reason why, in words.
	Method string `json:"method,omitempty"`
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Study is what names a study to people.
type Study struct {
	Title  string `json:"title"`
	Permit string `json:"permit"`
	SHA256 string `json:"sha256"` // of its document, in hex
}

// StudyOf is the study that these name, in an entry; nil if all are empty.
func StudyOf(title, permit, sha256 string) *Study {
	if s := (Study{title, permit, sha256}); s != (Study{}) {
		return &s
	}
	return nil
}

// writer says when and by whom a line was written. Only the log sets it.
type writer struct {
	Time string `json:"time"` // RFC 3339 in UTC, with milliseconds
	Role string `json:"role"` // of the process that writes
	Name string `json:"name"` // and its name
}

// peer is the other side of a connection; empty where no peer caused the event.
type peer struct {
	Peer        string `json:"peer,omitempty"`        // the name in its certificate, such as node/north
	Certificate string `json:"certificate,omitempty"` // SHA-256 of the certificate in hex
}

// Charge is what a release cost, as its ledger entry says.
type Charge struct {
	Events       any     `json:"events,omitempty"`        // of the ledger entry
	EpsilonSpent float64 `json:"epsilon_spent,omitempty"` // of the run, after the release
	LedgerSeq    uint64  `json:"ledger_seq,omitempty"`
	LedgerHash   string  `json:"ledger_hash,omitempty"`
}

// lasting says that an entry must be on disk before the event goes on: those about what
// was given out. The rest is written at once too, so that a process that dies loses none,
// but a machine that dies may.
func (e Entry) lasting() bool {
	switch e.Event {
	case Started, RunOpened, RunClosed, RunSubmitted, RunFinished, RunCancelled, RunRemoved, RunFetched,
		SiteAsked, RosterPublished,
		LedgerAccepted, Approved, Denied, Released, Repeated, Answered, Opened:
		return true
	}
	return false
}

// maxText bounds what a peer can write into a field.
const maxText = 512

// bounded cuts the texts that peers have a say in.
func (e Entry) bounded() Entry {
	for _, text := range []*string{&e.Dataset, &e.Node, &e.Run, &e.Method, &e.Reason} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "") + "..."
		}
	}
	return e
}
