package teacher

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/conclave-dp/conclave/nn"
)

// runState is what a node keeps of one run: its teachers and its last answer.
// It is saved before an answer leaves, so that a node that was killed gives
// the same answer when the round is asked again.
type runState struct {
	ensemble *nn.Ensemble
	// rounds is the number of rounds answered, the last of them lastRound.
	rounds    uint64
	lastRound uint64
	// lastQuestion is the hash of the question of lastRound, lastVotes its
	// packed answer.
	lastQuestion string
	lastVotes    []byte
}

func statePath(dir, run string) string {
	return filepath.Join(dir, "run-"+run+".safetensors")
}

func (s *runState) save(path string) error {
	t := nn.NewTensors()
	t.Add("", s.ensemble.State())
	t.Metadata["steps"] = strconv.Itoa(s.ensemble.Steps())
	t.Metadata["rounds"] = strconv.FormatUint(s.rounds, 10)
	t.Metadata["last_round"] = strconv.FormatUint(s.lastRound, 10)
	t.Metadata["last_question"] = s.lastQuestion
	t.Metadata["last_votes"] = base64.StdEncoding.EncodeToString(s.lastVotes)
	return nn.SaveTensors(path, t)
}

// loadState restores a run's state into a fresh ensemble, or starts at zero
// when there is none.
func loadState(path string, fresh *nn.Ensemble) (*runState, error) {
	s := &runState{ensemble: fresh}
	t, err := nn.LoadTensors(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = t.CopyTo("", fresh.State())
	}
	var steps int
	if err == nil {
		steps, err = strconv.Atoi(t.Metadata["steps"])
	}
	if err == nil {
		s.rounds, err = strconv.ParseUint(t.Metadata["rounds"], 10, 64)
	}
	if err == nil {
		s.lastRound, err = strconv.ParseUint(t.Metadata["last_round"], 10, 64)
	}
	if err == nil {
		s.lastVotes, err = base64.StdEncoding.DecodeString(t.Metadata["last_votes"])
	}
	if err != nil {
		return nil, fmt.Errorf("teachers' state %s: %w; restore the file, or remove it to let the teachers of this run start anew", path, err)
	}
	s.lastQuestion = t.Metadata["last_question"]
	fresh.SetSteps(steps)
	return s, nil
}
