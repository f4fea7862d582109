// Package requester is what a person does about runs of the queue, by a command or on a page: submits one, fetches what
// it gave out, and reads how it stands.
package requester
