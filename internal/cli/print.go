package cli

import (
	"encoding/json"
	"fmt"
)

// PrintJSON prints a result as one line on standard output.
func PrintJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	_, err = fmt.Println(string(raw))
	return err
}
