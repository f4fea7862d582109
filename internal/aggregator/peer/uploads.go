package peer

import (
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// Uploads counts the bytes of rounds that students send, by name. A student that sends too
// much at once is told to ask again: waiting would let two rounds wait for each other.
type Uploads struct {
	most int

	mu        sync.Mutex
	byStudent map[string]int
}

// NewUploads returns a count with a bound in bytes for each student.
func NewUploads(most int) *Uploads { return &Uploads{most: most, byStudent: map[string]int{}} }

// Take sets bytes aside; Give gives them back.
func (u *Uploads) Take(student string, bytes int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byStudent[student]+bytes > u.most {
		return fault.Unavailablef("student %s sends more than %d bytes of rounds at once; let those that are under "+
			"way end, and ask again",
			student, u.most)
	}
	u.byStudent[student] += bytes
	return nil
}

// Give gives back what Take took.
func (u *Uploads) Give(student string, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byStudent[student] -= bytes; u.byStudent[student] <= 0 {
		delete(u.byStudent, student)
	}
}
