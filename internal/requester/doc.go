// Package requester does what a person does with queued runs, by a command or on a page: it submits a run,
// fetches its bundle, and shows its status.
package requester
