package peer

import (
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// MostRoom bounds in bytes what the aggregator keeps for one student: rounds being sent, rounds that wait for an
// answer, sums for selections, and unread answers.
const MostRoom = 128 << 20

// Room counts bytes by student. A student with too many is told to retry: if rounds waited for room, two could wait
// for each other.
type Room struct {
	most int

	mu        sync.Mutex
	byStudent map[string]int
}

// NewRoom returns a count with a limit in bytes for each student.
func NewRoom(most int) *Room { return &Room{most: most, byStudent: map[string]int{}} }

// Take reserves bytes; Give releases them.
func (r *Room) Take(student string, bytes int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byStudent[student]+bytes > r.most {
		return fault.Unavailablef("rounds and unread answers of student %s would take more than %d bytes at once; "+
			"wait until some have ended, and ask again", student, r.most)
	}
	r.byStudent[student] += bytes
	return nil
}

// Give releases what Take reserved.
func (r *Room) Give(student string, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byStudent[student] -= bytes; r.byStudent[student] <= 0 {
		delete(r.byStudent, student)
	}
}
