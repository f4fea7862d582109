package certificate

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/partition"
)

// A certificate is read by people: it has a few notes, each a sentence or two.
const (
	mostNotes   = 32
	longestNote = 1000 // bytes
)

// checkNotes refuses notes that are not one line of text.
func checkNotes(notes []string) error {
	if len(notes) > mostNotes {
		return fmt.Errorf("%d notes: the maximum is %d", len(notes), mostNotes)
	}
	for i, note := range notes {
		if note == "" || len(note) > longestNote || !utf8.ValidString(note) ||
			strings.ContainsFunc(note, unicode.IsControl) {
			return fmt.Errorf("note %d: it must be one line of 1 to %d bytes", i+1, longestNote)
		}
	}
	return nil
}

// Events are the privacy events of the certificate's mechanisms.
func (c Certificate) Events() []privacy.Event {
	events := make([]privacy.Event, len(c.Mechanisms))
	for i, m := range c.Mechanisms {
		p := m.Parameters
		e := privacy.Event{
			Kind: m.Kind, Count: m.Count, Sigma: p["sigma"], Sensitivity: p["sensitivity"], Lambda: p["lambda"],
			Epsilon: p["epsilon"], Rate: p["rate"], NoiseMultiplier: p["noise_multiplier"],
		}
		if m.Kind == privacy.ConfidentGNMax {
			e.Count, e.Asked, e.Answered = 0, m.Count, int64(p["answered"])
			e.Threshold, e.Sigma1, e.Sigma2 = p["threshold"], p["sigma1"], p["sigma2"]
		}
		events[i] = e
	}
	return events
}

// Tell returns how well anybody can tell, from everything that the certificate covers, whether one unit was in
// the data.
func (c Certificate) Tell() (meaning.Telling, error) {
	return meaning.Tell(c.Events(), c.Epsilon, c.Delta)
}

// Telling is [Certificate.Tell] in words.
func (c Certificate) Telling() (string, error) {
	t, err := c.Tell()
	if err != nil {
		return "", err
	}
	return t.Sentence(c.One()), nil
}

// One names the unit that the guarantee protects.
func (c Certificate) One() string {
	one := "one record"
	if c.Unit != partition.UnitRecord {
		one = "all records of one " + c.Unit
	}
	return one + meaning.At(c.Overlap)
}
