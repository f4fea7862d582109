// Package flchain is the example of the quick start: a public medical table
// with its schema and a run. See README.md for where it comes from.
package flchain

import (
	"embed"
	"fmt"
	"os"
	"strings"
)

// Files holds schema.yaml, run.yaml, train.csv.gz, test.csv.gz and README.md.
//
//go:embed schema.yaml run.yaml train.csv.gz test.csv.gz README.md
var Files embed.FS

// Pipeline is that of run.yaml.
const Pipeline = "pategan"

// SetPipeline puts another pipeline into a copy of run.yaml.
func SetPipeline(path, pipeline string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the example: %w", err)
	}
	if pipeline == Pipeline {
		return nil
	}
	changed := strings.NewReplacer(Pipeline, pipeline, "PATE-GAN", pipeline).Replace(string(text))
	return os.WriteFile(path, []byte(changed), 0o644)
}

// SetMasked has a copy of run.yaml mask the sites' sums.
func SetMasked(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the example: %w", err)
	}
	return os.WriteFile(path, append(text, "aggregation: {masked: true}\n"...), 0o644)
}
