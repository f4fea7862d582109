package clustertest

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Outcome is a run of a test that measures, as a line of JSON. Its group, case, seed, figures, failure and seconds are
// those of the logs that bench/figures reads.
type Outcome struct {
	Group   string             `json:"group"`
	Case    string             `json:"case"`
	Seed    uint64             `json:"seed"`
	Figures map[string]float64 `json:"figures"`
	Failed  string             `json:"failed,omitempty"`
	Seconds float64            `json:"seconds"`
	// Machine has the operating system, the processor's kind and number of cores, and the version of Go.
	Machine string `json:"machine"`
}

// AppendTo adds the outcome to the end of a file, which need not exist. It does nothing if no file is named.
func (o Outcome) AppendTo(file string) error {
	if file == "" {
		return nil
	}
	o.Machine = fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("log the outcome: %w; give the full path of a file that can be written", err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		f.Close()
		return fmt.Errorf("log the outcome: %w", err)
	}
	return f.Close()
}
