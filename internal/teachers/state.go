package teachers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
)

// errOtherTeachers is public: it depends only on the question.
var errOtherTeachers = errors.New("the run asks for other teachers than in its first round; use another run name")

// runState is a node's state of one run: its teachers and its last answer. It is saved before an answer leaves, so that
// a killed node gives the same answer when the round is asked again.
type runState struct {
	spec     teacherSpec
	ensemble *ensemble.Ensemble
	// rounds is the number of rounds answered; the last one is lastRound.
	rounds    uint64
	lastRound uint64
	// lastQuestion is the hash of the question of lastRound, lastAnswer the answer.
	lastQuestion string
	lastAnswer   []byte
	// savedAt is the time of the last save, and saving its duration.
	savedAt time.Time
	saving  time.Duration
}

const (
	// smallState is the largest size of weights and moments that is saved in every round.
	smallState = 64 << 20
	// savingShare is the share of a node's time that saving larger ones may take.
	savingShare = 0.1
)

// due reports whether the state must be saved. Large teachers are not saved in every round. A node that is killed
// then continues with teachers from earlier rounds, which have learned less, and may answer a repeated question
// differently. Only one of the answers is released.
func (s *runState) due(now time.Time) bool {
	var bytes int
	if s.ensemble != nil {
		for _, p := range s.ensemble.State() {
			bytes += 4 * len(p.Value)
		}
	}
	return bytes <= smallState || float64(s.saving) <= savingShare*float64(now.Sub(s.savedAt))
}

// keep saves the state if it is due.
func (s *runState) keep(path string) error {
	begun := time.Now()
	if !s.due(begun) {
		return nil
	}
	if err := s.save(path); err != nil {
		return err
	}
	s.savedAt = time.Now()
	s.saving = s.savedAt.Sub(begun)
	return nil
}

func (s *runState) answered(round uint64, question string, answer []byte) {
	s.rounds++
	s.lastRound, s.lastQuestion, s.lastAnswer = round, question, answer
}

// state returns the run's teachers from memory, from disk, or new ones. It fails if they are not those with which
// the run began.
func (m *memory) state(dir, run string, spec teacherSpec) (*runState, error) {
	if m.current != nil && m.run == run {
		if m.current.spec != spec {
			return nil, errOtherTeachers
		}
		return m.current, nil
	}
	fresh, err := spec.ensemble()
	if err != nil {
		return nil, err
	}
	s, err := loadState(statePath(dir, run), &runState{spec: spec, ensemble: fresh})
	if errors.Is(err, errOtherTeachers) {
		return nil, errOtherTeachers
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", question.ErrState, err)
	}
	m.run, m.current = run, s
	return s, nil
}

func statePath(dir, run string) string {
	return filepath.Join(dir, question.TeachersFile(run))
}

func (s *runState) save(path string) error {
	spec, err := json.Marshal(s.spec)
	if err != nil {
		return fmt.Errorf("encode the teachers' description: %w", err)
	}
	t := safetensors.New()
	if s.ensemble != nil {
		t.Add("", s.ensemble.State())
		t.Metadata["steps"] = strconv.Itoa(s.ensemble.Steps())
	}
	t.Metadata["teachers"] = string(spec)
	t.Metadata["rounds"] = strconv.FormatUint(s.rounds, 10)
	t.Metadata["last_round"] = strconv.FormatUint(s.lastRound, 10)
	t.Metadata["last_question"] = s.lastQuestion
	t.Metadata["last_answer"] = base64.StdEncoding.EncodeToString(s.lastAnswer)
	return safetensors.Save(path, t)
}

// loadState restores a saved run into fresh and returns it; without a saved one it returns fresh unchanged.
func loadState(path string, fresh *runState) (*runState, error) {
	t, err := safetensors.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err == nil {
		err = fresh.restore(t)
	}
	if err != nil {
		return nil, fmt.Errorf("teachers' state %s: %w; restore the file, "+
			"or remove it to let the teachers of this run start again", path, err)
	}
	return fresh, nil
}

func (s *runState) restore(t *safetensors.Set) error {
	var spec teacherSpec
	if err := json.Unmarshal([]byte(t.Metadata["teachers"]), &spec); err != nil {
		return fmt.Errorf("teachers: %w", err)
	}
	if spec != s.spec {
		return errOtherTeachers
	}
	if s.ensemble != nil {
		if err := t.CopyTo("", s.ensemble.State()); err != nil {
			return err
		}
		steps, err := strconv.Atoi(t.Metadata["steps"])
		if err != nil {
			return fmt.Errorf("steps: %w", err)
		}
		s.ensemble.SetSteps(steps)
	}
	s.lastQuestion = t.Metadata["last_question"]
	var err error
	if s.rounds, err = strconv.ParseUint(t.Metadata["rounds"], 10, 64); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	if s.lastRound, err = strconv.ParseUint(t.Metadata["last_round"], 10, 64); err != nil {
		return fmt.Errorf("last_round: %w", err)
	}
	answer, kept := t.Metadata["last_answer"]
	if !kept {
		return errors.New("last_answer: missing; another program version wrote the file")
	}
	if s.lastAnswer, err = base64.StdEncoding.DecodeString(answer); err != nil {
		return fmt.Errorf("last_answer: %w", err)
	}
	return nil
}
