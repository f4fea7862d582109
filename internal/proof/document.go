package proof

import (
	"bytes"
	"encoding/json"
	"errors"
)

// document is a file of a proof. Each document has exactly one text.
type document interface {
	validate() error
	Canonical() ([]byte, error)
}

// parse reads the text of a document, and refuses any other text with the same meaning.
func parse[D document](raw []byte) (d D, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&d); err == nil {
		err = d.validate()
	}
	if err != nil {
		return d, err
	}
	if canonical, err := d.Canonical(); err != nil || !bytes.Equal(raw, canonical) {
		return d, errors.New("it was changed")
	}
	return d, nil
}
