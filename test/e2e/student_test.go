package e2e

import (
	"syscall"
	"testing"
)

// A student that is killed goes on from its checkpoint. Its result is the one of
// a student that was never killed, so that not even a random number is lost.
func TestStudentKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	_, audited := c.audit(c.embeddedEndpoint())
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "student-killed", rounds: 24, quorum: 0.9}
	runFile, out := c.runFile(j), c.out(j.name)
	file := c.studentFile(runFile, out)

	student := c.startStudent(file)
	// Around its first checkpoint and later; each time as soon as a round is
	// charged, while the answer is on its way or being learned from.
	for i, round := range []uint64{0, 2, 9} {
		awaitRound(aggregator, round)
		student.kill()
		student = c.startStudent(file)
		if open := student.awaitLog("run open", nil); open.Released < round+1 {
			t.Errorf("start %d: the student found %d rounds released, want at least %d", i+2, open.Released, round+1)
		}
		if round > 0 {
			student.awaitLog("going on from the checkpoint", nil)
		}
	}
	// Told to stop, it says so and how it goes on.
	student.signal(syscall.SIGTERM)
	if code := student.wait(); code != 1 || !student.said("stopped; start it again") {
		t.Errorf("exit code %d after SIGTERM, want 1 and what helps", code)
	}
	student = c.startStudent(file)
	student.awaitLog("going on from the checkpoint", nil)
	finish(t, student, out, j)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, aggregator)
}
