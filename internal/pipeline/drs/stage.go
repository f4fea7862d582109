package drs

import "github.com/conclave-dp/conclave/internal/pipeline"

// Stage is what runs know of rejection. It asks nothing.
var Stage = pipeline.Stage{Name: "drs", Options: pipeline.Defaults(DefaultOptions)}
