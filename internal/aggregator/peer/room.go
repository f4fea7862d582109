package peer

import (
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// MostRoom bounds the bytes that the aggregator keeps for one student: of rounds that it sends, of
// those that wait for an answer, of sums that it selects by, and of answers that it does not read.
const MostRoom = 128 << 20

// Room counts bytes by student. A student that has too many is told to ask again: waiting would
// let two rounds wait for each other.
type Room struct {
	most int

	mu        sync.Mutex
	byStudent map[string]int
}

// NewRoom returns a count with a bound in bytes for each student.
func NewRoom(most int) *Room { return &Room{most: most, byStudent: map[string]int{}} }

// Take sets bytes aside; Give gives them back.
func (r *Room) Take(student string, bytes int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byStudent[student]+bytes > r.most {
		return fault.Unavailablef("rounds and unread answers of student %s would take more than %d bytes at once; let "+
			"those that are under way end, and ask again", student, r.most)
	}
	r.byStudent[student] += bytes
	return nil
}

// Give gives back what Take took.
func (r *Room) Give(student string, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byStudent[student] -= bytes; r.byStudent[student] <= 0 {
		delete(r.byStudent, student)
	}
}
