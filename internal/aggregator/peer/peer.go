// Package peer tracks connected nodes and students: which certificate makes a call and whether it is still valid
// ([Sessions]), who is banned ([Bans]), which nodes of a dataset are live ([Roster]), and what each node is sent and
// still has to answer ([Node]). It knows no gRPC: package transport has the connections.
package peer

import (
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/auditlog"
)

// ID names a node within its dataset.
type ID struct{ Site, Name string }

func (id ID) String() string { return id.Site + "/" + id.Name }

// Round is a round as sent to nodes. The attempt distinguishes rounds that were given up and asked again: attempts of
// a server are distinct and grow. It is 0 where no answer is due.
type Round struct {
	Run     string
	Number  uint64
	Attempt uint64
}

// Caller is the other side of a call in the audit log: role/name, and the SHA-256 of its certificate in hex.
type Caller struct{ Name, Certificate string }

// AuditLog writes lines about peers.
type AuditLog struct {
	Log   *auditlog.Log // nil writes nothing
	Lost  func()        // counts lines that could not be written
	Lines *Lines        // limits per certificate; nil sets no limit
}

// Write writes a line about what a peer did or, without a peer, what the server did.
func (l AuditLog) Write(by Caller, e auditlog.Entry) error {
	e.Peer, e.Certificate = by.Name, by.Certificate
	err := l.Log.Write(e)
	if err != nil {
		l.Lost()
	}
	return err
}

// Refusal logs why something was refused. It returns false if the certificate had too many refusals; other logs then
// need no line either. Temporary failures are no refusals.
func (l AuditLog) Refusal(by Caller, err error, e auditlog.Entry) bool {
	if fault.Passing(err) {
		return l.MayLog(by)
	}
	e.Event, e.Code, e.Reason = auditlog.Refused, fault.Code(err).String(), err.Error()
	return l.some(by, refusals, e.Code, e)
}

// MayLog reports whether a line about a certificate should go to another log. It returns false if the certificate has
// caused too many lines.
func (l AuditLog) MayLog(by Caller) bool { return l.Lines.take(by, refusals, "") }

// Passage writes that a node joined or left. It returns false if the certificate's nodes did so too often.
func (l AuditLog) Passage(by Caller, e auditlog.Entry) bool { return l.some(by, passages, e.Event, e) }

func (l AuditLog) some(by Caller, why, kind string, e auditlog.Entry) bool {
	if !l.Lines.take(by, why, kind) {
		return false
	}
	for _, e := range append(l.Lines.told(source{by, why}), e) {
		_ = l.Write(by, e) // lost lines are logged
	}
	return true
}

// Flush writes how many lines were omitted, for certificates that may have a line again, or at the end for all.
func (l AuditLog) Flush(end bool) {
	for by, lines := range l.Lines.due(end) {
		for _, e := range lines {
			_ = l.Write(by, e)
		}
	}
}

// ErrAudit is what students get while the audit log cannot be written.
var ErrAudit = fault.Unavailablef("the aggregator cannot write its audit log, and releases nothing until it can; its " +
	"log has the reason")

// Check returns ErrAudit while the audit log cannot be written: then nothing new is released.
func (l AuditLog) Check() error {
	if l.Log.Check() != nil {
		return ErrAudit
	}
	return nil
}
